"""A published table: how large it is, what changed it hour by hour, its columns, its checks, its cuts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field
from pyiceberg.table import Table as IcebergTable

from tidemark.errors import ConfigError
from tidemark.feeds.model import Check, Feed
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK
from tidemark.lake.catalog import find_table, reading
from tidemark.lake.lake_marker import check_lake
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import load_receipts_from
from tidemark.ledger.quarantine import list_stopped
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import load_state
from tidemark.page.row_view import RowView
from tidemark.page.shapes import Bar, bars
from tidemark.settings import Settings

#: How many hours the chart shows, and how many cuts are listed.
_HOURS, _CUTS = 48, 12
#: How checks begin that are not of one column: receipts say no more of them than whether they failed.
_OF_TABLES = ("unique: ", "the model ")


class Column(BaseModel):
    """A column of a table."""

    name: str = Field(description="The column's name.")
    type: str = Field(description="Its type in the table.")
    key: bool = Field(description="Whether it is of the table's key.")


class TableHour(BaseModel):
    """What an hour did to the table."""

    hour: str = Field(description="The hour, in UTC: `2026-11-20T07`.")
    applied: int = Field(description="Changes that the table rests on, those that were released to it among them.")
    rows_written: int = Field(description="Rows that the hour's last publication of the table wrote.")
    rows_deleted: int = Field(description="Rows that the hour's last publication of the table deleted.")
    warnings: list[str] = Field(
        description="What its receipt says of the table for a person, failed checks that only warn among it."
    )


class CheckLine(BaseModel):
    """A check, and what it found in the rows of the newest hour that wrote any."""

    check: str = Field(description="What is checked, in words; the column's name stands first, where it is of one.")
    consequence: str = Field(
        description="What a failure does: stop, quarantine or warn; of a pandera model, that it says so itself."
    )
    rows: int | None = Field(None, description="Rows that were looked at; null: not known.")
    failed: int | None = Field(None, description="Rows of these that fail it; null: not known.")
    keys: list[str] = Field([], description="The keys of the first that fail.")


class CutLine(BaseModel):
    """An hour's cut, and how to read it."""

    hour: str = Field(description="The hour, in UTC: `2026-11-20T07`.")
    sql: str = Field(description="The statement that reads it in Spark.")
    command: str = Field(description="The command that prints it.")


class TableView(BaseModel):
    """A table. Its rows, files and bytes are null where they are not known without reading it."""

    feed: str = Field(description="The feed that publishes it.")
    table: str = Field(description="Its published name.")
    sources: list[str] = Field(description="The source's tables that were published under its name.")
    copied: bool = Field(description="Whether each publication copies it to a Parquet folder too.")
    stopped: str | None = Field(description="Why it stays as it was; null: it goes on.")
    rows: int | None = Field(None, description="How many rows it has.")
    files: int | None = Field(None, description="How many data files it has.")
    bytes: int | None = Field(None, description="The size of its files, in bytes.")
    columns: list[Column] = Field([], description="Its columns, in their order; empty: it is not there yet.")
    checks: list[CheckLine] = Field([], description="The checks of it that its feed's file names.")
    failing: int = Field(
        0, description="Changes of the newest hour that wait in quarantine, for a value fails a check."
    )
    hours: list[TableHour] = Field([], description="What the newest published hours did to it, the oldest first.")
    cuts: list[CutLine] = Field([], description="The newest, newest first.")
    more_cuts: int = Field(0, description="How many cuts are not listed.")
    key: list[str] = Field([], description="The columns of its key, in its order.")
    asked: list[str] = Field([], description="The key that was asked for.")
    explain: str = Field(description="The command that says where the values of the row asked for come from.")
    explain_problem: str = Field("", description="Why there is no command for this key.")
    row: RowView | None = Field(
        None, description="Where the row asked for comes from, once a run was asked; else null."
    )

    @property
    def bars(self) -> list[Bar | None]:
        """The chart of the hours, at most 480 wide, and 90 high."""
        return bars([one.applied for one in self.hours], min(480, 24 * len(self.hours)), 90)


def show_table(settings: Settings, feed: Feed, table: str, key: Sequence[str] = ()) -> TableView:
    """A table's view, from its metadata and the receipts of the newest hours: no row of it is read. ConfigError for a
    table that the feed has not published. ``key``: of a row that is asked for."""
    check_lake(settings)
    state = load_state(settings, feed.feed)
    if table not in state.tables:
        raise ConfigError(f"feed {feed.feed} has published no table {table!r}", fix="see the feed's tables")
    stopped = list_stopped(settings, state)
    declared = feed.declared(table)
    view = TableView(
        feed=feed.feed, table=table, sources=state.tables[table].sources, copied=declared.parquet,
        stopped=stopped[table][1] if table in stopped else None,
        checks=[_check(check) for check in declared.checks], explain=f"tidemark explain {table}",
    )  # fmt: skip
    if declared.checks_module:
        view.checks.append(CheckLine(check=f"{_OF_TABLES[1]}{declared.checks_module}", consequence="as it says"))
    _add_hours(view, settings, state)
    found = find_table(settings, *table.split(".", 1))
    if found is not None:
        with reading(table):
            _add_metadata(view, found)
    if key:
        _ask_for(view, key)
    return view


def _ask_for(view: TableView, key: Sequence[str]) -> None:
    """The command for a row: whatever stands in the key, a shell reads it as one word, and the command as no option."""
    view.asked = list(key)
    if len(key) != len(view.key):
        view.explain_problem = f"Its key has {len(view.key)} columns, not {len(key)}."
    elif not all(map(str.isprintable, key)):
        view.explain_problem = "A key with characters that do not print cannot be copied from a page."
    else:
        view.explain = shlex.join([*view.explain.split(), "--", *key])


def _add_hours(view: TableView, settings: Settings, state: FeedState) -> None:
    if state.newest_hour is None:
        return
    newest: dict[str, Receipt] = {}
    found: list[CheckLine] = []
    for receipt in load_receipts_from(settings, state, state.newest_hour.plus(1 - _HOURS)):
        newest[receipt.hour] = receipt
    for hour, receipt in sorted(newest.items()):
        part = next((one for one in receipt.tables if one.table == view.table), None)
        counts = part.counts if part is not None else None
        view.hours.append(
            TableHour(
                hour=hour,
                applied=counts.applied + counts.released_applied if counts is not None else 0,
                rows_written=part.rows_written if part is not None else 0,
                rows_deleted=part.rows_deleted if part is not None else 0,
                warnings=part.warnings if part is not None else [],
            )
        )
        view.failing = part.waiting if part is not None else 0
        if part is not None:
            found = [CheckLine(**result.model_dump()) for result in part.checks] or found
    if found:
        view.checks = found + [line for line in view.checks if line.check.startswith(_OF_TABLES)]


def _add_metadata(view: TableView, found: IcebergTable) -> None:
    """What Iceberg's metadata say. Every deleted row is in a deletion vector, which counts it once."""
    snapshot = found.current_snapshot()
    numbers: dict[str, Any] = dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {}
    if "total-records" in numbers:
        view.rows = int(numbers["total-records"]) - int(numbers.get("total-position-deletes", 0))
        view.files, view.bytes = int(numbers.get("total-data-files", 0)), int(numbers.get("total-files-size", 0))
    schema = found.schema()
    if snapshot is not None and snapshot.schema_id is not None and "tidemark.schema-before" in found.properties:
        schema = found.schemas()[snapshot.schema_id]  # an hour in the making has changed the columns already
    view.key = json.loads(found.properties.get("tidemark.key", "[]"))
    view.columns = [
        Column(name=field.name, type=str(field.field_type), key=field.name in view.key)
        for field in schema.fields
        if field.name != TIDEMARK
    ]
    tags = {name.removeprefix("hour_").replace("_", "-") for name in found.refs() if name.startswith("hour_")}
    view.more_cuts = max(0, len(tags) - _CUTS)
    for tag in sorted(tags, reverse=True)[:_CUTS]:
        hour = Hour.parse(tag)
        sql = f"SELECT * FROM {view.table} VERSION AS OF '{hour.tag}'"  # noqa: S608 - for a person
        view.cuts.append(CutLine(hour=hour, sql=sql, command=f"tidemark show {view.table} --as-of {hour}"))


def _check(check: Check) -> CheckLine:
    rules = [
        "not null" if check.not_null else "",
        f"at least {check.min}" if check.min is not None else "",
        f"at most {check.max}" if check.max is not None else "",
        f"one of {', '.join(map(str, check.isin))}" if check.isin else "",
        f"matches {check.pattern}" if check.pattern else "",
        f"{_OF_TABLES[0]}{', '.join(check.unique)}" if check.unique else "",
    ]
    told = "; ".join(rule for rule in rules if rule)
    return CheckLine(check=f"{check.column}: {told}" if check.column else told, consequence=check.consequence)
