"""What Tidemark adds to Airflow itself."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin
from tidemark_page import PREFIX, app

from tidemark.orchestration.timetable import HoursOnRequest


class TidemarkPlugin(AirflowPlugin):
    name = "tidemark"
    timetables = (HoursOnRequest,)
    fastapi_apps = ({"app": app, "url_prefix": PREFIX, "name": "Tidemark"},)
    external_views = (
        {"name": "Tidemark", "href": f"{PREFIX}/", "destination": "nav", "category": "browse", "url_route": "tidemark"},
    )
