"""Feeds: one YAML file each, read into the models below.

The models are the reference of every key (``docs/feed-reference.md`` is generated from them). All mistakes of a file
are reported together (:func:`tidemark.feeds.loading.load_feed`), each with its path in the file, what was expected
and how to fix it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from tidemark.containers import load_container
from tidemark.feeds.export_model import KAFKA_CONTAINER, Duration, Exports, Model
from tidemark.feeds.notifiers import class_path, some_time
from tidemark.feeds.validators import (
    feed_name,
    first_hour,
    hourly_line,
    module_and_class,
    published_name,
    safe_age,
    topic_name,
)
from tidemark.formats import load_format
from tidemark.identifiers import default_name

Name = Annotated[str, AfterValidator(feed_name)]
PublishedName = Annotated[str, AfterValidator(published_name)]
Topic = Annotated[str, AfterValidator(topic_name)]
HourlyLine = Annotated[str, AfterValidator(hourly_line)]
FirstHour = Annotated[datetime, BeforeValidator(first_hour)]
ModuleAndClass = Annotated[str, AfterValidator(module_and_class)]
ClassPath = Annotated[str, AfterValidator(class_path)]
#: ``true`` is no number, and text stays text: ``0001`` keeps its zeros.
Value = StrictInt | StrictFloat | StrictStr


class Check(Model):
    """One check of a table, with what a failure does."""

    consequence: Literal["stop", "quarantine", "warn"] = Field(
        "stop",
        description="stop: nothing of the hour is published. quarantine: a change that sends a failing value "
        "waits, and its row keeps its last good version. warn: noted in the receipt.",
    )
    column: str | None = Field(None, description="The column checked. Not for `unique`.")
    not_null: bool = Field(False, description="No null.")
    min: Value | None = Field(None, description="Smallest value allowed. A fraction of more than 15 digits in quotes.")
    max: Value | None = Field(None, description="Largest value allowed. A fraction of more than 15 digits in quotes.")
    isin: list[StrictInt | StrictStr] | None = Field(None, min_length=1, description="The set of values allowed.")
    pattern: str | None = Field(None, description="A regular expression (Java's) found in every value.")
    unique: list[str] | None = Field(
        None, min_length=1, description="Columns that together are unique over the whole table."
    )


class Table(Model):
    """One table of a feed."""

    name: PublishedName | None = Field(
        None,
        description="The published schema.table. Default: the source's, in lower case; of three names the last two.",
    )
    topic: str | None = Field(None, description="The topic that carries it, where messages do not name their table.")
    key: list[str] | None = Field(
        None, description="The key columns, where the messages do not carry the key. []: the table has no key."
    )
    columns: dict[str, str] = Field(
        default_factory=dict,
        description="Columns in the source's order with the source's types, where the messages do not carry them: "
        "`balance: numeric(14,2)`.",
    )
    earlier_columns: list[dict[str, str]] = Field(
        default_factory=list,
        description="For `ibm`, whose records do not name columns: the columns that the table had before it was altered, "
        "each time all of them. A record is read by the list that has as many columns as the record has values.",
    )
    format_version: Literal[2, 3] = Field(
        3,
        description="Iceberg's format version, which counts when the table is made: 3, or 2 for readers that know no "
        "deletion vectors.",
    )
    parquet: bool = Field(
        False,
        description="Whether each publication copies the table to a Parquet folder too, for readers that know no Iceberg.",
    )
    checks: list[Check] = Field(default_factory=list, description="Checks with their consequences.")
    checks_module: ModuleAndClass | None = Field(
        None,
        description="`module:ClassName` of a pandera model in the checks folder, for checks that YAML cannot express.",
    )

    @property
    def checked(self) -> bool:
        """Whether anything is checked of its rows, beside the types of declared columns."""
        return bool(self.checks or self.checks_module)

    @property
    def all_columns(self) -> dict[str, str]:
        """The table's columns, and those that only earlier records have."""
        return self.columns | {
            name: kind for columns in self.earlier_columns for name, kind in columns.items() if name not in self.columns
        }


class Quarantine(Model):
    """How many bad records an hour may hold before it stops."""

    limit: float = Field(0.01, ge=0, le=1, description="Share of the hour's records.")
    at_least: int = Field(
        10, ge=0, description="This many bad records are always allowed, whatever share of the hour they are."
    )


class Transactions(Model):
    """What happens to a transaction that does not complete, or of which a change is refused."""

    bad: Literal["hold", "split"] = Field(
        "hold",
        description="What happens to a transaction of which a change is refused (a value that cannot be read, a failed check "
        "with the consequence quarantine, a record that cannot be decoded but says what it is of). hold: all of it waits "
        "in quarantine. split: the refused changes wait, the others are published, and the receipt names the transaction.",
    )

    alarm: Duration = Field(
        timedelta(hours=24),
        description="A transaction held for longer is overdue: `tidemark held` and the receipt say so.",
    )
    overdue: Literal["hold", "apply", "quarantine"] = Field(
        "hold",
        description="What happens to an overdue transaction. One that lacks metadata, or what of it is in quarantine, waits "
        "on.",
    )
    tables_outside: bool = Field(
        False,
        description="The source's transactions also touch tables that this feed does not read, and nothing in its messages "
        "says which (Qlik's counters): a transaction of which an hour has brought nothing more is published as it is.",
    )


class Retention(Model):
    """What maintenance removes, and when."""

    tombstones: Duration = Field(
        timedelta(days=30),
        description="How long a table keeps the sort key of a deleted row (a tombstone). After that, a change of the row "
        "that comes late costs more: its key is looked up in the change log.",
    )
    cuts: Duration | None = Field(
        None, description="How long the cut of an hour can be read back after it was made. null: forever."
    )
    orphans: Annotated[Duration, AfterValidator(safe_age)] = Field(
        timedelta(days=3),
        description="The age from which files that nothing refers to are removed; at least 1d. A run that takes "
        "longer than this would lose its files.",
    )


class Tell(Model):
    """Whom one notifier tells, and of what."""

    notifier: ClassPath = Field(
        description="The class of one of Airflow's notifiers, like "
        "`airflow.providers.smtp.notifications.smtp.SmtpNotifier`; one of your own lies in Airflow's folder of plugins."
    )
    events: list[Literal["late", "failed", "quarantined"]] = Field(
        min_length=1,
        description="late: an hour is not published after `late_after`. failed: a task of the feed failed and is not tried "
        "again, or a run lasted too long. quarantined: an hour was published with something in quarantine.",
    )
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="What the class is made with. Its templates know the message: `{{ tidemark.subject }}`, "
        "`{{ tidemark.message }}`, `{{ tidemark.html }}`. No secrets: name one of Airflow's connections.",
    )


class Alerts(Model):
    """Whom Airflow tells of what goes wrong."""

    late_after: Annotated[Duration, AfterValidator(some_time)] | None = Field(
        None,
        description="How long after its end an hour on schedule may be unpublished before it is late. null: it is not told.",
    )
    tell: list[Tell] = Field(default_factory=list, description="Notifiers, each with the events it tells of.")

    def tells(self, event: str) -> bool:
        """Whether anybody is told of an event."""
        return any(event in entry.events for entry in self.tell)


#: What decode reads of a feed file; of its tables what formats read (:class:`tidemark.formats.contract.DeclaredTable`), and
#: the published name.
_READ_BY_DECODE: dict[str, Any] = {
    **dict.fromkeys(("topics", "container", "format", "undeclared"), True),
    "tables": {"__all__": {"name", "topic", "key", "columns", "earlier_columns"}},
}


class Feed(Model):
    """One replication task or connector: its topics, tables, format and settings. One file, one DAG."""

    feed: Name = Field(description="The feed's name, the same as the file's: `shop` in shop.yaml.")
    description: str = Field(description="What this feed is, for the people who see its DAG.")
    owner: str = Field(description="The person or team who is responsible for it.")
    tags: list[str] = Field(default_factory=list, description="Airflow tags.")
    start: FirstHour | None = Field(
        None,
        description="The first hour on schedule, like 2026-11-20T00:00:00Z. Default: only by trigger and backfill.",
    )
    schedule: HourlyLine | None = Field(
        "0 * * * *", description="Cron line of a minute of every hour (UTC); null: only by trigger and backfill."
    )
    topics: list[Topic] = Field(min_length=1, description="The topics whose exports are read.")
    exports: Exports = Field(description="Where an hour's records are and when they are all there: `path` or `kafka`.")
    container: dict[str, Any] = Field(
        description="How an export wraps records: `type` and the container's own options. Left out with `exports.kafka`, "
        "whose container is fixed."
    )
    format: dict[str, Any] = Field(description="What a record says: `type` and the format's own options.")
    tables: dict[str, Table] = Field(default_factory=dict, description="Tables by their source's schema.table.")
    undeclared: Literal["publish", "quarantine"] = Field(
        "publish",
        description="A table that messages carry and this file does not name: publish it, or quarantine its rows. What "
        "messages state of its columns and its name is read either way.",
    )
    on_table_stop: Literal["feed", "table"] = Field(
        "feed",
        description="What stops when one table cannot go on (a type or a key that becomes another, a statement that cannot "
        "be followed). feed: the hour, nothing of it is published. table: that table alone. It stays as it was, its changes "
        "and their transactions wait in quarantine, the other tables are published, and the receipt says so.",
    )
    quarantine: Quarantine = Field(Quarantine(), description="How many bad records an hour may hold.")
    transactions: Transactions = Field(
        Transactions(),
        description="What happens to transactions that do not complete, or of which a change is refused.",
    )
    cuts: Literal["keep", "amend"] = Field(
        "keep",
        description="What becomes of the cuts of an hour, and of the hours after it, when it runs late or again. keep: they "
        "stay as they were made, and may have been cited. amend: they are made again, so that each shows all that is now "
        "known of its hour and of hours before it; the receipt says which.",
    )
    retention: Retention = Field(Retention(), description="What maintenance removes, and when.")
    alerts: Alerts = Field(Alerts(), description="Whom Airflow tells of what goes wrong.")
    retries: int = Field(
        3, ge=0, description="How often Airflow tries a task again after an error that can pass by itself."
    )

    stage_timeout: Duration = Field(
        timedelta(hours=6), description="How long one try of a task may take before Airflow ends it."
    )

    @model_validator(mode="before")
    @classmethod
    def _container_of_kafka(cls, data: Any) -> Any:
        """What is read from Kafka lands in one container, so that the file need not name it."""
        exports = data.get("exports") if isinstance(data, dict) else None
        if isinstance(exports, dict) and exports.get("kafka") is not None and "container" not in data:
            return {**data, "container": KAFKA_CONTAINER}
        return data

    @property
    def on_schedule(self) -> bool:
        """Whether its hours run by themselves, each in its time."""
        return self.start is not None and self.schedule is not None

    def published_name(self, source_table: str) -> str:
        """The published ``schema.table`` of a source's table."""
        table = self.tables.get(source_table)
        return table.name if table and table.name else default_name(source_table)

    def declared(self, published_table: str) -> Table:
        """The file's entry for a published table; one with defaults only where the file does not name the table."""
        named = (table for source, table in self.tables.items() if self.published_name(source) == published_table)
        return next(named, Table())

    @property
    def decoded_by(self) -> str:
        """A hash of all that decode reads of the file."""
        return sha256(self.model_dump_json(include=_READ_BY_DECODE).encode()).hexdigest()[:16]

    @property
    def contained_by(self) -> str:
        """A hash of what the file says of how an export wraps records."""
        return sha256(self.model_dump_json(include={"container"}).encode()).hexdigest()[:16]

    @property
    def folded_by(self) -> str:
        """A hash of the whole file."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:16]

    @cached_property
    def container_options(self) -> BaseModel:
        """The container's ``Options``. Imports the container, and so Spark, on first use."""
        return block_options(load_container(self.container["type"]).Options, self.container)

    @cached_property
    def format_options(self) -> BaseModel:
        """The format's ``Options``. Imports the format, and so Spark, on first use."""
        return block_options(load_format(self.format["type"]).Options, self.format)


def block_options(model: type[BaseModel], block: dict[str, Any]) -> BaseModel:
    """A ``container`` or ``format`` block as the ``Options`` of the module it names. Raises pydantic's error."""
    return model.model_validate({key: value for key, value in block.items() if key != "type"})
