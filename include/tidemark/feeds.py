"""Feeds: one YAML file each, read into the models below.

The models are the reference of every key (``docs/feed-reference.md`` is generated from them). All mistakes of a file
are reported together (:func:`load_feed`), each with its path in the file, what was expected and a mend.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(value: object) -> object:
    """``90s``, ``10m``, ``6h``, ``7d`` → timedelta."""
    match = re.fullmatch(r"(\d+)([smhd])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a whole number and one of s, m, h, d, like 10m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _published_name(value: str) -> str:
    schema, _, table = value.partition(".")
    for part in (schema, table):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]{0,127}", part):
            raise ValueError("write schema.table, each of letters, digits, _ and $ (at most 128), not beginning with a digit")
    return value


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
PublishedName = Annotated[str, AfterValidator(_published_name)]


class Model(BaseModel):
    """Unknown keys are mistakes; what is loaded does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Exports(Model):
    """Where an hour's objects lie and when they are all there."""

    path: str = Field(
        description="Path template over {topic}, {date} and {hour}, ending in a file pattern: "
        "`{topic}/dt={date}/hr={hour}/*`. Relative to TIDEMARK_EXPORTS, or absolute, or s3://bucket/…"
    )
    marker: str | None = Field("_SUCCESS", description="The object beside the others that says the hour is complete; null: none.")
    settle: Duration = Field("10m", description="Without a marker: complete when nothing has changed for this long.", validate_default=True)
    wait: Duration = Field("6h", description="How long `land` waits for an hour to be complete before it fails.", validate_default=True)
    missing: Literal["fail", "empty"] = Field(
        "fail", description="An hour in which a topic has no object at all: fail, or an empty hour."
    )


class Check(Model):
    """One check of a table, with what a failure does."""

    consequence: Literal["stop", "quarantine", "warn"] = Field(
        "stop", description="stop: nothing of the hour is published. quarantine: the failing rows keep their last good version. warn: noted in the receipt."
    )
    column: str | None = Field(None, description="The column checked. Not for `unique`.")
    not_null: bool = Field(False, description="No null.")
    min: int | float | str | None = Field(None, description="Smallest value allowed.")
    max: int | float | str | None = Field(None, description="Largest value allowed.")
    isin: list[int | str] | None = Field(None, description="The set of values allowed.")
    pattern: str | None = Field(None, description="A regular expression (Java's) found in every value.")
    unique: list[str] | None = Field(None, description="Columns that together are unique over the whole table.")


class Table(Model):
    """One table of a feed."""

    name: PublishedName | None = Field(None, description="The published schema.table. Default: the source's, in lower case.")
    topic: str | None = Field(None, description="The topic that carries it, where messages do not name their table.")
    key: list[str] | None = Field(None, description="The key columns, where the messages do not carry the key. []: the table has no key.")
    columns: dict[str, str] = Field(
        default_factory=dict, description="Columns in the source's order with the source's types, where the messages do not carry them: `balance: numeric(14,2)`."
    )
    storage: Literal["iceberg", "parquet"] = Field("iceberg", description="What holds the snapshot.")
    checks: list[Check] = Field(default_factory=list, description="Checks with their consequences.")
    checks_module: str | None = Field(
        None, description="`module:ClassName` of a pandera model in the checks folder, for checks that YAML cannot say."
    )


class Quarantine(Model):
    """How many bad records an hour may hold before it stops."""

    limit: float = Field(0.01, ge=0, le=1, description="Share of the hour's records.")
    at_least: int = Field(10, ge=0, description="So many are always allowed.")


class Transactions(Model):
    """What happens to a transaction that does not complete."""

    alarm: Duration = Field("24h", description="A transaction held for longer is overdue: `tidemark held` and the receipt say so.", validate_default=True)
    overdue: Literal["hold", "apply", "quarantine"] = Field("hold", description="What happens to an overdue transaction.")


class Feed(Model):
    """One replication task or connector: its topics, tables, format and settings. One file, one DAG."""

    feed: Name = Field(description="The feed's name, the same as the file's: `shop` in shop.yaml.")
    description: str = Field(description="What this feed is, for the people who see its DAG.")
    owner: str = Field(description="Who answers for it.")
    tags: list[str] = Field(default_factory=list, description="Airflow tags.")
    start: datetime | None = Field(None, description="The first hour on schedule, like 2026-11-20T00:00:00Z. Default: only by trigger and backfill.")
    schedule: str | None = Field("0 * * * *", description="Cron line in UTC; null: only by trigger and backfill.")
    topics: list[str] = Field(min_length=1, description="The topics whose exports are read.")
    exports: Exports = Field(description="Where an hour's objects lie and when they are all there.")
    container: dict[str, Any] = Field(description="How an export wraps records: `type` and the container's own options.")
    format: dict[str, Any] = Field(description="What a record says: `type` and the format's own options.")
    tables: dict[str, Table] = Field(default_factory=dict, description="Tables by their source's schema.table.")
    undeclared: Literal["publish", "quarantine"] = Field(
        "publish", description="A table that messages carry and this file does not name: publish it, or quarantine its records."
    )
    quarantine: Quarantine = Field(Quarantine(), description="How many bad records an hour may hold.")
    transactions: Transactions = Field(Transactions(), description="What happens to transactions that do not complete.")
    retries: int = Field(3, ge=0, description="How often Airflow tries a task again after an error that can pass by itself.")

    def published(self, source_table: str) -> str:
        """The published ``schema.table`` of a source's table."""
        table = self.tables.get(source_table)
        return table.name if table and table.name else source_table.lower()
