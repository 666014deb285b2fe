"""Where rows come from, found out for the page in Airflow, whose server starts no Spark: a job writes the answer beside the
lake's tables, the page reads it, and maintenance removes it a day later."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from pydantic import BaseModel, Field

from tidemark.errors import ConfigError
from tidemark.ledger.state_store import load_state
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of
from tidemark.storage.trees import files_under, remove_file

#: So many changes of a row, the newest, are kept for the page.
_SHOWN = 500
#: How long an answer is kept.
KEPT_FOR = timedelta(days=1)


class ExplainedChange(BaseModel):
    """A change that spoke of a row's key, as :class:`tidemark.operations.explain_row.Change` has it."""

    place: str = Field(description="Where it stands in the source's order: its sort key.")
    op: str = Field(description="insert, update or delete.")
    key: str = Field(description="The key that it speaks of, as JSON.")
    came_from: str | None = Field(
        description="The key that its row had before, as JSON; null: its own; `{}`: not told."
    )
    hour: str = Field(description="The hour that it landed in.")
    tx: str | None = Field(description="Its transaction, as the change log names it; null: of none that is known.")
    object: str = Field(description="The landed object that holds it.")
    record: int = Field(description="The number of its record in the object, from 1.")
    entry: int = Field(description="Its number in a record that holds several changes, from 0.")
    sent: dict[str, str | None] = Field(description="The columns that it sets, as texts of its message.")
    unsent: list[str] = Field(description="The columns that it leaves alone, as far as it says so.")
    fate: str = Field(description="`applied`, or why it counts for nothing.")
    gives: list[str] = Field(description="The columns of the row that have their values from it.")


class ExplainedRow(BaseModel):
    """Where a row comes from, or why that cannot be told."""

    table: str = Field(description="The published table that was asked about.")
    key: list[str] = Field(description="The key that was asked about: its values as texts, in the key's order.")
    problem: str = Field("", description="Why it cannot be told; empty: it can.")
    there: bool = Field(False, description="Whether there is such a row.")
    changes: list[ExplainedChange] = Field([], description="In the source's order, the newest of them.")
    more: int = Field(0, description="How many older changes are not in it.")

    @property
    def cells(self) -> list[tuple[str, str | None, ExplainedChange]]:
        """The row's columns, sorted, each with its value and the change that gave it."""
        given = [(column, one.sent.get(column), one) for one in self.changes for column in one.gives]
        return sorted(given, key=lambda cell: cell[0])


def answer_name(run: str) -> str:
    """By what name the answer of an Airflow run is kept: runs may be named by anybody."""
    return hashlib.sha256(run.encode()).hexdigest()


def explain_for_page(feed: str, table: str, key: Sequence[str], answer: str) -> None:
    """The explain job's work: find out where a row of the feed's table comes from, and write it as the answer. Where the
    question was wrong, that is the answer."""
    from tidemark.operations.explain_row import explain_row  # the page imports this module, and needs no Spark

    settings, told = Settings(), ExplainedRow(table=table, key=list(key))
    try:
        if table not in load_state(settings, feed).tables:
            raise ConfigError(f"feed {feed} has published no table {table}", fix="see the feed's tables")
        found = explain_row(settings, table, key)
        changes = [ExplainedChange.model_validate(one) for one in found.objects]
        told.there, told.more = found.given is not None, max(0, len(changes) - _SHOWN)
        told.changes = changes[told.more :]
    except ConfigError as error:
        told.problem = str(error)
    save_explained(settings, feed, answer, told)


def save_explained(settings: Settings, feed: str, answer: str, told: ExplainedRow) -> None:
    """Write an answer, under its name."""
    location = _location(settings, feed, answer)
    storage_of(location, settings).write_text(location, told.model_dump_json())


def find_explained(settings: Settings, feed: str, run: str) -> ExplainedRow | None:
    """The answer of an Airflow run; None: there is none yet, or none any more."""
    location = _location(settings, feed, answer_name(run))
    storage = storage_of(location, settings)
    return ExplainedRow.model_validate_json(storage.read_text(location)) if storage.find(location) else None


def clear_explained(settings: Settings, feed: str, now: datetime) -> None:
    """Remove answers that were kept long enough."""
    root = _folder(settings, feed)
    for path, at in files_under(root, settings).items():
        if at < now - KEPT_FOR:
            remove_file(f"{root}/{path}", settings)


def _folder(settings: Settings, feed: str) -> str:
    return f"{settings.lake_root}/_explained/{feed}"


def _location(settings: Settings, feed: str, answer: str) -> str:
    return f"{_folder(settings, feed)}/{answer}.json"
