"""Where a row comes from: every change that ever spoke of its key, in the source's order, what became of each, and which one
gave each of its values.

Read from the change log with Spark, by the same reading as the tables are made by; what the changes come to is worked out
here, one by one, for a person to follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidemark.changelog.places import awaits_place
from tidemark.changelog.table_history import load_definitions
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.table_view import published_state
from tidemark.errors import ConfigError
from tidemark.feeds.loading import feed_names, find_feed
from tidemark.feeds.problems import nearest
from tidemark.fold.fold_rows import sort_key
from tidemark.fold.typed_rows import in_one_notation
from tidemark.hours import Hour
from tidemark.identifiers import quote
from tidemark.lake.session import open_session
from tidemark.ledger.change_log import changes_table, is_published, published_by
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.image_names import names_of
from tidemark.ledger.publication_history import PublicationHistory, load_history
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.source_transactions import source_transaction
from tidemark.ledger.state_store import load_state
from tidemark.operations.fates import APPLIED, place_of, read_fates
from tidemark.operations.key_index import hours_of_key, key_types
from tidemark.operations.listing import Listing
from tidemark.operations.listing import Row as ListingRow
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable
from tidemark.values.whole_json import whole_json

#: A row that comes from more keys than these is followed no further.
_MOST_MOVES = 20
#: So many columns of a change are named.
_FEW_COLUMNS = 4
#: The key that a row had before, where a message of another hour says it: the row after an update in two messages.
_UNTOLD = "{}"
#: Fields of a change by which rows are told apart, and which tell a person nothing more.
_HOW_TO_FOLLOW = ("before", "source_tx")
#: More changes of one key than a person reads.
_MOST_CHANGES = 10_000


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that spoke of a key."""

    place: str
    """Its sort key: the place in the source's order, and the operation's."""
    op: str
    """insert, update or delete; of a key change that one message tells, a delete of the old key and an insert of the new."""
    key: str
    """The key that it speaks of, as JSON."""
    came_from: str | None = None
    """The key that its row had before, as JSON; None: its own; ``{}``: its message does not say, and holds the whole row."""
    hour: str
    """The hour that it landed in."""
    tx: str | None = None
    """Its transaction, as the change log names it; None: of none that is known."""
    object: str
    """The landed object that holds it."""
    record: int
    """The number of its record in the object, from 1."""
    entry: int = 0
    """Its number in a record that holds several changes, from 0."""
    sent: Mapping[str, str | None] = field(default_factory=dict)
    """The columns that it sets, as texts of its message."""
    unsent: Sequence[str] = ()
    """The columns that it leaves alone, as far as it says so."""
    before: Mapping[str, str | None] = field(default_factory=dict)
    """The row before it, as texts of its message, as far as this shows it."""
    source_tx: str | None = None
    """What tells the source's transaction, its name or its time; None: nothing does."""
    fate: str
    """``applied``, or why it counts for nothing."""

    @property
    def counts(self) -> bool:
        return self.fate == APPLIED


@dataclass(frozen=True)
class Explanation:
    """What a row comes from."""

    changes: list[Change]
    """The changes of its key, and of the keys that it came from, in the source's order."""
    given: dict[str, Change] | None
    """The columns of the row as it is, and which change gave each its value. A column that nobody has sent yet is not in it.
    None: there is no row."""
    left: Mapping[str, dict[str, Change]] = field(default_factory=dict)
    """The same of the rows that left the key, by the places of the changes that took them."""

    def gives(self, change: Change) -> list[str]:
        """The columns of the row that have their values from a change."""
        return sorted(name for name, giver in (self.given or {}).items() if giver == change)

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The changes for programs: what each does, and the columns that the row has from it (``gives``)."""
        found = [asdict(one) | {"gives": self.gives(one)} for one in self.changes]
        return [{name: value for name, value in one.items() if name not in _HOW_TO_FOLLOW} for one in found]


@dataclass(frozen=True)
class RowsOfKey:
    """What the changes of one key come to."""

    last: dict[str, Change] | None
    """Which of them gave each column of the row that the key has its value; None: it has no row."""
    left: Mapping[str, dict[str, Change]]
    """The same of the rows that left the key, by the places of the changes that took them."""


def explain_row(
    settings: Settings, table: str, key: Sequence[str], as_of: Hour | None = None, column: str | None = None
) -> Explanation:
    """What a published table's row with this key, in the key's order, comes from: now, or as an hour's cut shows it.
    ConfigError for a table that is not there, that has no key, or for another number of values; and for a ``column`` that
    neither the table has nor a change of the row sent."""
    feed_name, state = _publisher(settings, table)
    feed = find_feed(feed_name, settings)
    if as_of is not None:
        state = state_at_cut(load_history(settings, feed_name), state, as_of)
        if table not in state.tables:
            raise ConfigError(f"the cut of {as_of} has no table {table}", fix="give a later hour")
    spark = open_session(settings, f"explain {table}", small=state.has_small_tables)
    landed = spark.table(changes_table(feed_name)).where(is_published(state))
    definitions = load_definitions(landed.withColumn("landed_this_hour", F.lit(False)), feed, state.with_statements)
    # A table that the feed file has given to another of the source's goes on as that one.
    sources = sorted(state.table(table).sources, key=lambda source: feed.published_name(source) != table)
    log = TableLog(
        spark=spark, feed=feed, state=state, definitions=definitions, table=table, sources=tuple(sources)
    )  # fmt: skip
    published = PublishedTable(spark, table, feed.feed)
    types = key_types(published)
    if len(key) != len(types):
        names = ", ".join(types) or "none, so that no row of it can be named"
        raise ConfigError(f"the key of {table} is {names}", fix="give a value for each of its columns, in this order")
    values = (_shown_value(text, types[name]).alias(name) for name, text in zip(types, key, strict=True))
    found = _followed(_Row(log, published, types, F.struct(*values)))
    columns = {*published.columns(), *(name for change in found.changes for name in (*change.sent, *change.unsent))}
    if column is not None and column not in columns:
        raise ConfigError(
            f"{table} has no column {column}, and no change of the row sent one",
            fix=nearest(column, sorted(columns)) or f"it has: {', '.join(sorted(columns))}",
        )
    return found


def _shown_value(text: str, type_: str) -> Column:
    """A value of a key as ``tidemark show`` prints it; null where the text is none."""
    if type_ == "binary":
        return F.try_to_binary(F.lit(text), F.lit("base64"))
    if type_.startswith(("array<", "struct<")):
        return F.from_json(F.lit(text), type_)
    return F.lit(text).try_cast(type_)


def state_at_cut(history: PublicationHistory, state: FeedState, hour: Hour) -> FeedState:
    """The feed's state when an hour's cut was made. ConfigError for an hour without one, and for a cut that was made when a
    later hour was published already: what was held and waited then is not what the cut lacks."""
    history = history.with_unrecorded(state)
    made_by = history.cut(hour).made_by
    if not made_by:
        raise ConfigError(f"hour {hour} has no cut", fix="`tidemark receipts` lists the published hours")
    shown = history.in_cut(hour)
    if [one.sequence for one in history.receipts if one.sequence <= made_by] != [
        one.sequence for one in shown.receipts
    ]:
        raise ConfigError(
            f"the cut of {hour} was made when a later hour was published already: where its values come from cannot be told",
            fix="`tidemark show TABLE --as-of HOUR` shows them; without --as-of every change is told as it counts now",
        )
    return shown.state


def rows_of_key(changes: Iterable[Change], before: Mapping[tuple[str, str], Mapping[str, Change]]) -> RowsOfKey:
    """Which of the changes of one key gave each column its value. Changes that do not count are passed over. ``before``: by
    the key that a row came from and the place at which it left it, what it had there.

    Within a transaction rows move onto keys that are still taken: by the rule of :mod:`tidemark.fold.colliding_keys`.
    """
    steps = sorted((one for one in changes if one.counts), key=lambda one: one.place)
    arrived: dict[str | None, str] = {}
    for step in steps:
        if step.came_from is not None and step.source_tx is not None:
            arrived.setdefault(step.source_tx, step.place)
    collides = any(step.op == "delete" and arrived.get(step.source_tx, "~") < step.place for step in steps)
    present, left = list[_Present](), dict[str, dict[str, Change]]()
    for step in steps:
        if len(present) > 1 and not _are_together(present[-1].came_by, step):
            present = present[-1:]
        of = _row_of(present, step)
        if step.op == "delete":
            if of is not None:
                left[step.place] = of.given
                present = [one for one in present if one is not of]
            continue
        kept: Mapping[str, Change] = of.given if of is not None and step.op == "update" else {}
        if step.came_from is not None:
            kept = before.get((step.came_from, step.place), {})
        unsent = {name: giver for name, giver in kept.items() if name in step.unsent}
        given = unsent | dict.fromkeys(step.sent, step)
        if step.op == "update" and of is not None:
            present = [_Present(given, of.came_by) if one is of else one for one in present]
        else:
            others = present if collides and step.came_from is not None else []
            present = [*others, _Present(given, step)]
    return RowsOfKey(present[-1].given if present else None, left)


@dataclass(frozen=True)
class _Present:
    """One of the rows that a key has."""

    given: dict[str, Change]
    """Which change gave each of its columns its value."""
    came_by: Change
    """The change that brought it."""

    def agrees(self, step: Change) -> int:
        """In how many columns the row before a change has the same values."""
        return sum(name in self.given and self.given[name].sent.get(name) == text for name, text in step.before.items())


def _row_of(present: Sequence[_Present], step: Change) -> _Present | None:
    """Which of a key's rows a change is of: the one that its row before shows; where that does not tell, a delete takes the
    one that was there first, an update the newest."""
    if not present:
        return None
    in_order = present if step.op == "delete" else present[::-1]
    return max(in_order, key=lambda one: one.agrees(step))


def _are_together(one: Change, other: Change) -> bool:
    """Whether the source made two changes in one transaction."""
    return one.source_tx is not None and one.source_tx == other.source_tx


def explanation_listing(table: str, key: Sequence[str], found: Explanation, column: str | None) -> Listing:
    """The changes for a person, one a line. ``column``: only those that set it, with their values; None: all."""
    rows: list[ListingRow] = []
    for one in found.changes:
        if column is not None and column not in one.sent and one.op != "delete":
            continue
        names = sorted(one.sent)
        sets = ", ".join(names) if len(names) <= _FEW_COLUMNS else f"{len(names)} columns"
        given = found.gives(one)
        rows.append(
            [
                one.hour,
                one.op if one.came_from in (None, _UNTOLD) else f"{one.op}, moved from {one.came_from}",
                sets if column is None else one.sent.get(column, "null") if one.op != "delete" else "",
                ("every column" if given == names and len(names) > _FEW_COLUMNS else ", ".join(given))
                if column is None
                else ("yes" if column in given else ""),
                f"record {one.record} of {one.object.rpartition('/')[2]}",
                one.tx,
                one.fate,
            ]
        )
    there = "there is no row" if found.given is None else f"{len(found.changes)} changes"
    head = [
        "hour",
        "operation",
        "sets" if column is None else column,
        "gives the row",
        "landed as",
        "transaction",
        "fate",
    ]
    return Listing(f"{table} {', '.join(key)}: {there}", head, rows)


def _publisher(settings: Settings, table: str) -> tuple[str, FeedState]:
    """The feed that publishes a table, and its state."""
    states = {name: load_state(settings, name) for name in feed_names(settings.path(settings.feeds))}
    for name, state in states.items():
        if table in state.tables:
            now = {state.names.get(source, table) for source in state.table(table).sources}
            if now and table not in now:
                raise ConfigError(
                    f"{table} is published as {' and '.join(sorted(now))} now",
                    fix="explain the row there: it goes on there",
                )
            return name, state
    published = [name for state in states.values() for name in state.tables]
    raise ConfigError(f"there is no published table {table}", fix=nearest(table, published) or "see `tidemark tables`")


@dataclass(frozen=True)
class _Row:
    """A key of a published table, and where to look for it."""

    log: TableLog
    """What the change log holds of its table."""
    published: PublishedTable
    """The table, whose key it is."""
    types: Mapping[str, str]
    """The key's columns, in its order, each with its type."""
    key: Column
    """The key: a struct of these columns."""


def _followed(row: _Row, *, until: str = "~", moves: int = 0) -> Explanation:
    """The changes of a key up to a place, with those of the keys that its rows came from."""
    own = _changes(row, until)
    changes, before = list(own), {}
    for arrival in own:
        if arrival.counts and arrival.came_from not in (None, _UNTOLD) and moves < _MOST_MOVES:
            kind = "struct<" + ", ".join(f"{quote(name)}: {type_}" for name, type_ in row.types.items()) + ">"
            there = replace(row, key=F.from_json(F.lit(arrival.came_from), kind))
            position = arrival.place.partition("#")[0]
            # With the half of the key change that takes the row from there: of several rows it tells which. It is not shown.
            came = _followed(there, until=f"{position}#1", moves=moves + 1)
            before[arrival.came_from, arrival.place] = came.left.get(f"{position}#0", came.given or {})
            changes += [one for one in came.changes if one not in changes and one.place < f"{position}#"]
    found = rows_of_key(own, before)
    return Explanation(sorted(changes, key=lambda one: one.place), found.last, found.left)


def _changes(of: _Row, until: str) -> list[Change]:
    """All that landed of a key, below a place."""
    log, key = of.log, of.key
    wanted = log.spark.range(1).select(whole_json(key).alias("key")).collect()[0].key
    if len(json.loads(wanted)) < len(of.types):  # what is no value of its type is left out
        types = ", ".join(f"{name} ({type_})" for name, type_ in of.types.items())
        raise ConfigError(f"no key of {log.table}: {types}", fix="write its values as `tidemark show` prints them")
    if (hours := hours_of_key(log, key, of.types)) is not None:
        log = replace(log, only=F.col("hour").isin(hours))
    state = published_state(log, of.published, log.state)
    shape = state.shape

    def of_key(rows: DataFrame) -> DataFrame:
        typed = {"typed": shape.key_struct(F.col("key")), "left": shape.key_struct(F.col("prior_key"))}
        found = in_one_notation(rows, shape).withColumns(typed)
        return found.where((F.col("typed") == key) | (F.col("left") == key))

    def below(rows: DataFrame) -> DataFrame:
        return of_key(rows).withColumn("at", sort_key(F.col("position"), F.col("op"))).where(F.col("at") < until)

    # First only where they are, by narrow columns; then all of them, of what lies there. Their places in the source's order,
    # for which some rows need others, do not matter yet.
    anywhere = of_key(replace(log, stand_alone=True).known_rows())
    where = anywhere.select("hour", *ENTRY, awaits_place(log.feed, log.state.places_until).alias("awaits"))
    places = where.limit(_MOST_CHANGES + 1).collect()
    if len(places) > _MOST_CHANGES:  # some of them would give another answer
        raise ConfigError(f"more than {_MOST_CHANGES} changes speak of {wanted}", fix="read the change log with Spark")
    if not places:
        return []
    stand_alone = log.state.began_again is None and not any(row.awaits for row in places)
    log = replace(log, only=_near(places), stand_alone=stand_alone)
    # What a statement behind a change gives its row, the change did not send.
    of_its_own = F.map_filter("after", lambda name, _: F.array_contains(names_of(F.col("after_names")), name))
    found = below(log.known_rows()).select(
        *ENTRY, "hour", "tx", "at", "position", "op", "published", "absent", published_by(log.state).alias("came"),
        "before", source_transaction().alias("source_tx"),
        whole_json("typed").alias("key"), whole_json("left").alias("left"),
        F.coalesce(of_its_own, F.create_map().cast("map<string, string>")).alias("sent"),
    )  # fmt: skip
    rows = sorted(found.collect(), key=lambda row: (not row.published, row.came, *place_of(row)))
    counted = {place_of(row) for row in below(log.rows(None)).select(*ENTRY).collect()}
    fates = read_fates(log, rows, counted)
    return [change for row in rows for change in _halves(row, wanted, fates.of(row, log.table))]


def _near(places: Sequence[Row]) -> Column:
    """Log entries that stand where these do, and few others: Iceberg opens the files of their hours alone, and reads of
    them the row groups of their objects and records."""
    return reduce(
        and_, (F.col(name).isin(sorted({row[name] for row in places})) for name in ("hour", "object", "record"))
    )


def _halves(row: Row, key: str, fate: str) -> list[Change]:
    """A log row as what it says of one key: an update that moves a row is a delete of its old key."""
    common = {
        "hour": row.hour,
        "tx": row.tx,
        "object": row.object,
        "record": row.record,
        "entry": row.entry,
        "before": row.before or {},
        "source_tx": row.source_tx,
        "fate": fate,
    }
    moves = row.left is not None and row.left != row.key
    if row.key == key:
        op = "insert" if moves and row.op == "update" else row.op
        place = row.at if op == row.op else f"{row.position}#1"
        sent = (
            {} if op == "delete" else {name: text for name, text in row.sent.items() if name not in (row.absent or ())}
        )
        came_from = row.left if moves else None
        return [Change(place=place, op=op, key=key, came_from=came_from, sent=sent, unsent=row.absent or (), **common)]
    if row.op == "update":
        return [Change(place=f"{row.position}#0", op="delete", key=key, **common)]
    return []  # the delete of the old key has a row of its own
