"""The timetables of feeds: on schedule and on request. Registered with Airflow by ``plugins/tidemark_airflow.py``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk.timezone import coerce_datetime
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun


class HoursOnSchedule(CronDataIntervalTimetable):
    """A run for every hour, whatever ran by hand.

    A DAG has one run of a logical date. Where a run by hand has the one that the next run on schedule would get, Airflow's
    own timetable goes on from that run's interval, which is the hour before, comes to the same logical date again, and
    makes no further run. Here the next run on schedule begins a second later, and is for the same hour.
    """

    def run_info_from_dag_run(self, *, dag_run: DagRun) -> DagRunInfo:
        """The scheduler asks this of the run after which the next is to be found: of one by hand only where that is in the
        way of the next. Its interval is then empty, at its logical date."""
        info = super().run_info_from_dag_run(dag_run=dag_run)
        taken = coerce_datetime(dag_run.logical_date)
        if taken is None or dag_run.run_type in ("scheduled", "backfill"):
            return info
        return info._replace(data_interval=DataInterval.exact(taken))

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        if last is not None and last.start == last.end:
            start = last.start + timedelta(seconds=1)
            return DagRunInfo.interval(start=start, end=self._get_next(start))
        return super().next_dagrun_info(last_automated_data_interval=last, restriction=restriction)


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
