"""What Tidemark adds to Airflow itself."""

from __future__ import annotations

from typing import Any

import tidemark_pools
from airflow.plugins_manager import AirflowPlugin
from tidemark_page import PREFIX, app

from tidemark.orchestration.alerts import EndOfHour
from tidemark.orchestration.timetable import HoursOnRequest, HoursOnSchedule


class TidemarkPlugin(AirflowPlugin):
    name = "tidemark"
    timetables: list[Any] = [HoursOnRequest, HoursOnSchedule]  # noqa: RUF012 (Airflow declares them so)
    deadline_references: list[Any] = [EndOfHour]  # noqa: RUF012
    listeners: list[Any] = [tidemark_pools]  # noqa: RUF012
    fastapi_apps: list[Any] = [{"app": app, "url_prefix": PREFIX, "name": "Tidemark"}]  # noqa: RUF012
    external_views: list[Any] = [  # noqa: RUF012
        {"name": "Tidemark", "href": f"{PREFIX}/", "destination": "nav", "category": "browse", "url_route": "tidemark"},
    ]
