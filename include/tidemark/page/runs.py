"""What the page knows of Airflow's runs. Imported with the plugin, so that it imports nothing heavy."""

from __future__ import annotations

from pydantic import BaseModel


class Run(BaseModel):
    """The newest run of an hour in Airflow. ``stages``: seconds of each task that has ended, in the order of ending."""

    run_id: str
    state: str
    stages: dict[str, float] = {}
