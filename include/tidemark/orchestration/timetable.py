"""The timetable of feeds that are not on schedule. Registered with Airflow by ``plugins/tidemark_airflow.py``."""

from __future__ import annotations

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable


class HoursOnRequest(CronDataIntervalTimetable):
    """Whole hours in UTC for runs by hand and for backfills, and no run by itself.

    Airflow's own ways to have no schedule (``schedule=None``) have no intervals either, so they know no backfill. A
    backfill says where it begins; the scheduler, for a DAG without a start, does not.
    """

    description = "hours by trigger and backfill"

    def __init__(self) -> None:
        super().__init__("0 * * * *", timezone="UTC")

    @classmethod
    def deserialize(cls, data: dict[str, object]) -> HoursOnRequest:
        return cls()

    @property
    def summary(self) -> str:
        return "on request"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if restriction.earliest is None:
            return None
        return super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
