"""Where a row of a table comes from, as a run of the feed's explain DAG has found it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from tidemark.errors import ConfigError
from tidemark.feeds.model import Feed
from tidemark.operations.explained_rows import ExplainedRow, find_explained
from tidemark.settings import Settings


class RowView(BaseModel):
    """What a run has found out of a row."""

    run: str = Field(description="The run's id in Airflow.")
    state: Literal["waiting", "working", "told", "failed", "gone"] = Field(
        description="`gone`: there is no such run, or its answer was kept long enough."
    )
    answer: ExplainedRow | None = Field(None, description="Null unless it is told.")


def show_row(settings: Settings, feed: Feed, table: str, key: Sequence[str], run: str, state: str | None) -> RowView:
    """What a run has found out of a row. ConfigError for a run that explains another one. ``state``: the run's, as Airflow
    has it; None: there is no such run."""
    found = find_explained(settings, feed.feed, run)
    if found is None:
        known = {"queued": "waiting", "running": "working", "failed": "failed"}
        return RowView.model_validate({"run": run, "state": known.get(state or "", "gone")})
    if (found.table, found.key) != (table, list(key)):
        raise ConfigError("this run explains another row", fix="ask for the row again")
    return RowView(run=run, state="told", answer=found)
