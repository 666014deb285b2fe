"""What Tidemark adds to Airflow itself."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from tidemark.timetable import HoursOnRequest


class TidemarkPlugin(AirflowPlugin):
    name = "tidemark"
    timetables = (HoursOnRequest,)
