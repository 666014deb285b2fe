"""What the page knows of Airflow's runs. Imported with the plugin, so that it imports nothing heavy."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Run(BaseModel):
    """The newest run of an hour in Airflow."""

    run_id: str = Field(description="Its id.")
    state: str = Field(description="Its state, in Airflow's words.")
    stages: dict[str, float] = Field(
        {},
        description="The seconds of each task that has ended, in the order of ending. Empty for runs older than the "
        "newest few: their tasks are not read.",
    )
