"""What a feed's stream has stated about its tables so far: the entries of op ``schema`` in the change log, in order.

They are few, and all of them are used whenever rows are read, whatever their hour. So a row means the same in whichever
order hours are run. In rows from before a rename, the column's old name is read as its new one. In rows from before a
drop, the column's values are left out. Rows from before a column was added have the value that the statement gives them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.statements import Statement, statements
from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import BindsRows, SchemaEntry, SharesMoments, TellsTableChanges
from tidemark.ledger.image_names import IMAGE_NAMES, image_names
from tidemark.values.columns import ColumnType, add_in_order
from tidemark.values.table_changes import TableChange

#: More statements than this do not come from people who change tables, and would not fit into the plan of a job.
_MOST_ENTRIES = 100_000


@dataclass(frozen=True, kw_only=True)
class ColumnRename:
    """Columns that are renamed, dropped or added at one position, all at once."""

    position: str
    """Where this happens, in the source's order."""
    names: tuple[tuple[str, str | None], ...]
    """(old, new) of each that is renamed, (old, None) of each that is dropped."""
    filled: tuple[tuple[str, str], ...] = ()
    """Columns that are added, with the text that rows of before have."""
    guarded: frozenset[str] = frozenset()
    """Old names, in lower case, that the table may not have had: what has the new name then keeps it."""
    known_by: str | None = None
    """What its statement is known by: see :class:`tidemark.values.table_changes.TableChange`."""
    again: bool = False
    """Whether its statement is one of before, sent again."""
    partition: int | None = None
    """The partition of its statement, where it is known."""
    said_by: frozenset[tuple[str, str]] = frozenset()
    """The entries that it comes from, as (source's table, position): those about a copy too that takes the table's place."""

    @property
    def id(self) -> str:
        """Of the renames and drops: stands in a receipt once they were applied."""
        return json.dumps([self.position, *self.names], ensure_ascii=False)

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The columns, in lower case, that rows have only before it, and only behind it."""
        old = {name.lower() for name, _ in self.names}
        new = {name.lower() for name in (*(now for _, now in self.names if now), *(name for name, _ in self.filled))}
        return sorted(old - new), sorted(new - old)

    def fill_id(self, column: str) -> str:
        """Of a column that is added: stands in a receipt once rows of before were given its value."""
        return json.dumps([self.position, {"filled": column}], ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One table, as the stream defines it."""

    columns: Mapping[str, tuple[ColumnType, ...]] = field(default_factory=dict)
    """By their names now, the types that each was given, oldest first. A dropped column stays in it."""
    key: tuple[str, ...] | None = None
    """The key's columns. Empty: the table has none. None: no statement mentions it."""
    column_renames: tuple[ColumnRename, ...] = ()
    """Renames, drops and filled columns, oldest first, those too that were sent again. How many stand before a row is its
    generation."""
    dropped: frozenset[str] = frozenset()
    """Columns that were dropped, and have not been added again."""
    unfilled: tuple[tuple[str, str, str], ...] = ()
    """Columns that were added with a value for rows of before that is not known: position, column, why."""

    @cached_property
    def names_now(self) -> list[dict[str, str | None]]:
        """By generation (how many column renames stand before a row): a column's name in lower case → its name now, None
        for one that was dropped since. The others keep their names."""
        steps = _steps(self.column_renames)
        return [_composed([steps[at] for at in path]) for path in self._paths]

    @cached_property
    def filled_now(self) -> list[dict[str, str]]:
        """By generation: the columns, by their names now, that were added since with a value for rows of before."""
        steps = list(zip(_steps(self.column_renames), self.column_renames, strict=True))
        return [_filled([steps[at] for at in path]) for path in self._paths]

    @cached_property
    def _paths(self) -> list[list[int]]:
        """By generation: the column renames that rows of it go through, each statement once, in the source's order.

        A source that sends a statement again sends again all that followed it. So the next statement behind a row says
        how far the source was when it wrote the row: rows that stand between a statement and its repetition are of
        before the statement, or come again behind it.
        """
        first: dict[str | int, int] = {}
        statements = [first.setdefault(r.known_by or at, at) for at, r in enumerate(self.column_renames)]
        paths = []
        for generation, of_next in enumerate(statements):
            at_of: dict[int, int] = {}
            for at, statement in enumerate(statements):
                if statement >= of_next and at_of.get(statement, -1) < generation:
                    at_of[statement] = at
            paths.append([at_of[statement] for statement in sorted(at_of)])
        return paths

    def name_now(self, name: str, generation: int) -> str | None:
        """The name now of a column of a row of that generation; None where it was dropped since."""
        if generation >= len(self.column_renames):
            return name
        return self.names_now[generation].get(name.lower(), name)


@dataclass(frozen=True)
class Unfollowed:
    """A statement about a table that cannot be followed."""

    why: str
    """The reason, with the statement, for a person."""
    unsent: str | None = None
    """The hour in which it landed, where it moves rows that messages do not send; None: it is about columns."""


def _steps(column_renames: Sequence[ColumnRename]) -> list[dict[str, str | None]]:
    """What each column rename makes of the names in it."""
    steps: list[dict[str, str | None]] = []
    for rename in column_renames:
        step: dict[str, str | None] = {old.lower(): new for old, new in rename.names}
        # A column whose name another one takes was dropped before, which the stream may say in an hour that has not run.
        # Not where the same statement comes again, or one that may do nothing.
        gone = [
            new.lower() for old, new in step.items()
            if new is not None and old not in rename.guarded and not _is_renamed_before(old, new, steps)
        ]  # fmt: skip
        steps.append(dict.fromkeys(gone) | step)
    return steps


def _composed(steps: Sequence[Mapping[str, str | None]]) -> dict[str, str | None]:
    """What steps, one after the other, make of the names in them."""
    now: dict[str, str | None] = {}
    for first in {name for step in steps for name in step}:
        name: str | None = first
        for step in steps:
            name = step.get(name.lower(), name) if name is not None else None
        now[first] = name
    return now


def _is_renamed_before(old: str, new: str, steps: Sequence[Mapping[str, str | None]]) -> bool:
    """Whether these steps end with the column under its new name, which it got from the same old one."""
    for step in reversed(steps):
        if (found := step.get(old)) is not None and found.lower() == new.lower():
            return True
        if new.lower() in step:
            return False
    return False


def _filled(steps: Sequence[tuple[Mapping[str, str | None], ColumnRename]]) -> dict[str, str]:
    """The values that a row gets by column renames, one after the other, each with what it makes of the names in it."""
    filled: dict[str, str] = {}
    for step, rename in steps:
        filled = {new: text for name, text in filled.items() if (new := step.get(name.lower(), name)) is not None}
        there = {name.lower() for name in filled}
        filled |= {name: text for name, text in rename.filled if name.lower() not in there}
    return filled


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """What a feed's stream has stated of all of its tables."""

    entries: Sequence[SchemaEntry] = ()
    """The schema entries that this was read from, by table and position."""
    tables: Mapping[str, Definition] = field(default_factory=dict)
    """By the source's table, what is known of it."""
    new: frozenset[str] = frozenset()
    """The source's tables of which the hour itself says something."""
    notes: tuple[str, ...] = ()
    """What a person should know of the hour's statements."""
    problems: Mapping[str, Unfollowed] = field(default_factory=dict)
    """The source's tables of which a statement cannot be followed, and the first of these."""
    unsent: Mapping[str, str] = field(default_factory=dict)
    """Declared tables of which the hour itself says that rows were moved without being sent, and what a person should know of
    it."""
    described_at: Column | None = field(default=None, compare=False)
    """Of a log row, the position of the entry that it names: see :class:`tidemark.formats.contract.BindsRows`. None: no row
    names any."""
    moments: SharesMoments | None = field(default=None, compare=False)
    """The format, where positions of several partitions have no order within a moment. None: they have."""

    def of(self, source_table: str) -> Definition:
        """What is known of one table; an empty definition where the stream has stated nothing."""
        return self.tables.get(source_table, Definition())

    def describes_anew(self, source_table: str) -> bool:
        """Whether rows of before may be of other columns than they were taken for: they may name what has come now."""
        return self.described_at is not None and source_table in self.new and bool(self.of(source_table).column_renames)

    @property
    def fills(self) -> bool:
        """Whether any statement gives a value to rows of before."""
        return any(step.filled for known in self.tables.values() for step in known.column_renames)

    def filled_by(self, statements: Collection[tuple[str, str]]) -> Definitions:
        """The same with the values of these statements alone: the source's table and the position of each."""
        tables, stated = {}, frozenset(statements)
        for table, known in self.tables.items():
            steps = (s if s.said_by <= stated else replace(s, filled=()) for s in known.column_renames)
            tables[table] = replace(known, column_renames=tuple(steps))
        return replace(self, tables=tables)

    @property
    def generation(self) -> Column | None:
        """Of a log row: how many column renames of its table stand before it, or before the entry that describes it. None: no
        table has any."""
        positions = {
            t: [r.position for r in known.column_renames] for t, known in self.tables.items() if known.column_renames
        }
        if not positions:
            return None
        of_table = F.element_at(_literal(positions, "map<string, array<string>>"), F.col("source_table"))
        at = F.col("position") if self.described_at is None else F.coalesce(self.described_at, F.col("position"))
        behind = F.size(F.filter(of_table, lambda position: position <= at))
        number = F.when(of_table.isNotNull(), behind).otherwise(F.lit(0))
        return number if self.moments is None else self._by_columns(number, self.moments)

    def _by_columns(self, number: Column, format_: SharesMoments) -> Column:
        """Of a log row: how many column renames stand before it, ``number`` by its position. In their own moment, and in
        another partition, it is the columns that the row's message lists by which they do."""
        steps = {
            table: [
                {"moment": step.position[: format_.MOMENT], "partition": step.partition,
                 "before": step.sides[0], "behind": step.sides[1]}
                for step in known.column_renames
            ]
            for table, known in self.tables.items()
            if any(step.partition is not None for step in known.column_renames)
        }  # fmt: skip
        if not steps:
            return number
        kind = (
            "map<string, array<struct<moment: string, partition: int, before: array<string>, behind: array<string>>>>"
        )
        of_table = F.element_at(_literal(steps, kind), F.col("source_table"))
        moment = F.substring("position", 1, format_.MOMENT)
        listed = F.transform(format_.listed(), lambda name: F.lower(name))

        def beside(step: Column) -> Column:
            return (step["moment"] == moment) & (step["partition"] != F.col("partition"))

        def is_before(step: Column) -> Column:
            lacks = (F.size(step["before"]) == 0) & (F.size(step["behind"]) > 0)
            lacks &= ~F.arrays_overlap(listed, step["behind"])
            return F.arrays_overlap(listed, step["before"]) | lacks

        def is_behind(step: Column) -> Column:
            has = F.arrays_overlap(listed, step["behind"]) | (F.size(step["before"]) > 0)
            return ~is_before(step) & has

        least = F.array_max(F.transform(of_table, lambda step, at: F.when(beside(step) & is_behind(step), at + 1)))
        most = F.array_min(F.transform(of_table, lambda step, at: F.when(beside(step) & is_before(step), at)))
        return F.when(F.exists(of_table, beside), F.least(F.greatest(number, least), most)).otherwise(number)


def _literal(value: object, kind: str) -> Column:
    """One literal, however much it holds."""
    return F.from_json(F.lit(json.dumps(value)), kind)


def load_definitions(entries: DataFrame, feed: Feed, stated_in: Collection[str] | None = None) -> Definitions:
    """Log entries (``landed_this_hour``: whether they are of the hour that runs) → Definitions. What is collected is
    metadata. ``stated_in``: the hours in which anything is stated, so that the log of no other is opened; None: that is not
    known. A format that sends no such entries costs nothing.

    SchemaError for a statement that cannot be followed, unless the feed file declares the table's columns: then the
    declared columns count, and rows that it moved are told; or says `on_table_stop: table`. SchemaError also for too many
    statements.
    """
    format_ = load_format(feed.format["type"])
    if not isinstance(format_, TellsTableChanges):
        return Definitions()
    if stated_in is not None:
        if not stated_in:
            return define([], feed)
        entries = entries.where(F.col("hour").isin(list(stated_in)))
    text = F.col("message_schema").alias("text")
    statements = entries.where(F.col("op") == "schema").groupBy("source_table", "position", text)
    of_each = [F.bool_or("landed_this_hour").alias("landed_this_hour")]
    of_each += [F.min(name).alias(name) for name in ("hour", "partition")]
    rows = statements.agg(*of_each).limit(_MOST_ENTRIES + 1).collect()
    if len(rows) > _MOST_ENTRIES:
        raise SchemaError(
            f"the stream makes more than {_MOST_ENTRIES} different statements about its tables",
            fix="something writes statements as a source does not: take it off the feed's topics, and begin a new feed",
            feed=feed.feed,
        )
    listed = [SchemaEntry(row.source_table, row.position, row.text, row.partition) for row in rows]
    of_hour = {(row.source_table, row.position) for row in rows if row.landed_this_hour}
    found = define(listed, feed, of_hour, {(row.source_table, row.position): row.hour for row in rows})
    return replace(found, notes=tuple(_unfilled(found, {position for _, position in of_hour})))


def not_understood(feed: Feed, source_table: str, problem: Unfollowed) -> SchemaError:
    """A statement about a table that cannot be followed."""
    fix = (
        f"declare the table's columns as they are now under tables.{source_table}.columns in the feed file: then that "
        "counts, and not this"
    )
    if problem.unsent is not None:
        fix += f"; the table's rows stay as they were, so then {_say_rows(feed, source_table, problem.unsent)}"
    return SchemaError(problem.why, fix=fix, feed=feed.feed, table=source_table)


def _say_rows(feed: Feed, source_table: str, hour: str) -> str:
    """How to have the rows of a table that the source moved without sending them."""
    reload = f"tidemark reload {feed.feed} {feed.published_name(source_table)} --hour"
    return (
        f"`{reload} {hour} --empty` if the source's table was empty behind the statement; if not, have the source load the "
        f"table anew, and `{reload} HOUR` with the hour of that load"
    )


def _unsent_note(feed: Feed, source_table: str, found: Sequence[Unfollowed]) -> str:
    """What the receipt says of a declared table whose rows the source moved without sending them."""
    first = min(found, key=lambda one: one.unsent or "")
    why = re.split(r"\s*['(=<>]", first.why, maxsplit=1)[0]  # what comes then may be values of rows
    more = f" (and {len(found) - 1} more such statements)" if len(found) > 1 else ""
    return (
        f"{feed.published_name(source_table)}: {why}{more}: the table's rows stay as they were, and may not be the source's: "
        f"{_say_rows(feed, source_table, first.unsent or '')}"
    )


def _unfilled(found: Definitions, of_hour: Collection[str]) -> list[str]:
    """The columns that statements of the hour (at these positions) add, and rows of before lack."""
    return [
        f"{source}.{column} is null in rows of before it was added: {why}"
        for source, known in sorted(found.tables.items())
        for position, column, why in known.unfilled
        if position in of_hour
    ]


def define(
    entries: Sequence[SchemaEntry],
    feed: Feed,
    of_hour: Collection[tuple[str, str]] = frozenset(),
    hours: Mapping[tuple[str, str], str] | None = None,
) -> Definitions:
    """What entries, in any order, come to. ``of_hour``: the table and position of those that are new; ``hours``: where each
    landed. SchemaError: see :func:`load_definitions`."""
    tables: dict[str, Definition] = {}
    problems: dict[str, Unfollowed] = {}
    unsent: dict[str, list[Unfollowed]] = {}
    new: set[str] = set()
    sent: dict[tuple[str, str], ColumnRename | None] = {}
    for said in statements(entries, feed):
        table, known = said.source_table, tables.get(said.source_table, Definition())
        new |= {table} if not said.said_by.isdisjoint(of_hour) else set()
        try:
            if said.problem is not None:
                raise ValueError(said.problem)
            tables[table] = _after(known, said, sent)
        except ValueError as error:
            declared = feed.tables.get(table)
            hour = max((hours or {}).get(said_by, "HOUR") for said_by in said.said_by)
            problem = Unfollowed(str(error), hour if said.unsent else None)
            # What is no table of the feed concerns nobody.
            if not declared.columns if declared is not None else feed.undeclared == "publish":
                problems.setdefault(table, problem)
            elif declared is not None and said.unsent and not said.said_by.isdisjoint(of_hour):
                unsent.setdefault(table, []).append(problem)
    if problems and feed.on_table_stop == "feed":
        raise not_understood(feed, *min(problems.items()))
    ordered = sorted(entries, key=lambda entry: (entry.source_table, entry.position, entry.text))
    format_ = load_format(feed.format["type"])
    described_at = format_.described_at(ordered) if isinstance(format_, BindsRows) else None
    notes = {table: _unsent_note(feed, table, moves) for table, moves in unsent.items()}
    return Definitions(
        entries=ordered, tables=tables, new=frozenset(new), problems=problems, unsent=notes, described_at=described_at,
        moments=format_ if isinstance(format_, SharesMoments) else None,
    )  # fmt: skip


def _after(known: Definition, said: Statement, sent: dict[tuple[str, str], ColumnRename | None]) -> Definition:
    """What is known of a table after one more statement. ``sent``: what the statements of before came to, by their table
    and what they are known by; this one is added. ValueError for one that cannot be followed."""
    if said.change is None:
        return known
    name = (said.source_table, said.change.known_by or said.position)
    if said.change.known_by is not None and name in sent:
        first = sent[name]
        if first is None:
            return known
        again = replace(first, position=said.position, partition=said.partition, said_by=said.said_by, again=True)
        return replace(known, column_renames=(*known.column_renames, again))
    now = _changed(known, said)
    sent[name] = now.column_renames[-1] if len(now.column_renames) > len(known.column_renames) else None
    return now


def _changed(known: Definition, said: Statement) -> Definition:
    """What is known of a table after a change of it. Names are the same whatever their case, as they are in MySQL, SQL
    Server, and Db2: the first spelling stays. ValueError for one that cannot be followed."""
    assert said.change is not None, "it changes something"
    change = _of_what_is_missing(known, said.change)
    spelling = {name.lower(): name for name in known.columns}

    def spelt(name: str) -> str:
        return spelling.get(name.lower(), name)

    renamed = {spelt(old): new for old, new in change.renamed.items()}
    deleted = _deleted(known, change, {spelt(name) for name in change.dropped} - set(renamed))
    key = {name.lower() for name in known.key or ()}
    if moved := [name for name in (*renamed, *deleted) if name.lower() in key]:
        raise ValueError(f"a column of the key is renamed or dropped: {', '.join(sorted(moved))}")
    columns: dict[str, tuple[ColumnType, ...]] = {}
    for name, kinds in known.columns.items():
        now = renamed.get(name, name)
        columns[now] = (*columns.get(now, ()), *kinds)
    order, spelling = list(columns), {name.lower(): name for name in columns}
    for name, kind in change.columns.items():
        before = columns.get(spelt(name), ())
        columns[spelt(name)] = before if kind in before else (*before, kind)
    add_in_order(order, list(dict.fromkeys(map(spelt, change.columns))))
    names = tuple(sorted([*renamed.items(), *((name, None) for name in deleted)], key=lambda names: names[0]))
    there = {spelt(name) for name in change.columns} | set(renamed.values())
    filled = tuple(sorted((spelt(name), text) for name, text in change.filled.items()))
    guarded = frozenset(spelt(name).lower() for name in change.guarded)
    unfilled = tuple((said.position, spelt(name), why) for name, why in sorted(change.unfilled.items()))
    step = ColumnRename(position=said.position, names=names, filled=filled, guarded=guarded, known_by=change.known_by,
                        partition=said.partition, said_by=said.said_by)  # fmt: skip
    return Definition(
        columns={name: columns[name] for name in order},
        key=known.key if change.key is None else tuple(spelt(name) for name in change.key),
        column_renames=known.column_renames + ((step,) if names or filled else ()),
        dropped=(known.dropped | deleted) - there,
        unfilled=known.unfilled + unfilled,
    )


def _of_what_is_missing(known: Definition, change: TableChange) -> TableChange:
    """The change without the columns that the table need not get: it has them, and the change takes them from none."""
    gone = {name.lower() for name in (*known.dropped, *change.dropped, *change.renamed)}
    there = {name.lower() for name in known.columns} - gone
    kept = {name for name in change.if_missing if name.lower() in there}
    if not kept:
        return change
    left = {name: kind for name, kind in change.columns.items() if name not in kept}
    filled = {name: text for name, text in change.filled.items() if name not in kept}
    unfilled = {name: why for name, why in change.unfilled.items() if name not in kept}
    return replace(change, columns=left, filled=filled, unfilled=unfilled)


def _deleted(known: Definition, change: TableChange, dropped: set[str]) -> frozenset[str]:
    """The columns that a table loses: those that a statement drops, and those that are not among all there are."""
    if not change.whole:
        return frozenset(dropped)
    there = {name.lower() for name in (*change.columns, *change.renamed)}
    return frozenset(dropped | {n for n in known.columns if n.lower() not in there} - known.dropped)


def with_definitions(rows: DataFrame, definitions: Definitions, feed: Feed) -> DataFrame:
    """Log rows completed by what the stream has stated: same columns. ``problem`` is set where that cannot be done; of a
    format that binds rows there is also ``waits_for``: what such a row still waits for, null where it is no use to wait.
    """
    columns, format_ = rows.columns, load_format(feed.format["type"])
    if isinstance(format_, BindsRows):
        bound, columns = format_.bind(rows, definitions.entries, feed, feed.format_options), [*columns, "waits_for"]
        rows = _with_names(bound, columns)
    generation = definitions.generation
    if generation is None:
        return rows
    now = {table: known.names_now for table, known in definitions.tables.items() if known.column_renames}
    of_table = F.element_at(_literal(now, "map<string, array<map<string, string>>>"), F.col("source_table"))
    with_names_now = rows.withColumn("now", F.get(of_table, generation))
    images = {
        name: _renamed_image(F.col(name), F.col("now")).alias(name) for name in ("key", "prior_key", "before", "after")
    }
    images["absent"] = _renamed_list(F.col("absent"), F.col("now")).alias("absent")
    others = [name for name in with_names_now.columns if name != "now"]
    renamed = with_names_now.withColumn("generation", generation).select(
        *(images.get(name, F.col(name)) for name in others), "generation"
    )
    named = _with_names(renamed, [*columns, "generation"])
    return _with_values(named, definitions).select(*columns)


def _with_values(rows: DataFrame, definitions: Definitions) -> DataFrame:
    """Rows with the values of columns that were added behind them. The texts of their names do not tell these: they are
    columns of the table once a message or a statement gives them a type."""
    filled = {table: known.filled_now for table, known in definitions.tables.items() if any(known.filled_now)}
    if not filled:
        return rows
    of_table = F.element_at(_literal(filled, "map<string, array<map<string, string>>>"), F.col("source_table"))
    values = F.get(of_table, F.col("generation"))

    def completed(image: Column) -> Column:
        there = F.transform(F.concat(F.map_keys(image), F.coalesce("absent", F.array())), lambda name: F.lower(name))
        lacking = F.map_filter(values, lambda name, _: ~F.array_contains(there, F.lower(name)))
        return F.when(values.isNull() | image.isNull(), image).otherwise(F.map_concat(image, lacking))

    # Of a row with a key the image before may be a part: what it lacks tells nothing of which row it shows.
    before = F.when(F.col("key").isNull(), completed(F.col("before"))).otherwise(F.col("before"))
    return rows.withColumns({"before": before, "after": completed(F.col("after"))})


def _renamed_image(image: Column, now: Column) -> Column:
    """An image by its columns' names now."""

    def stays(name: Column) -> Column:
        return ~F.map_contains_key(now, F.lower(name)) | F.element_at(now, F.lower(name)).isNotNull()

    def renamed(column: Column) -> Column:
        return F.struct(F.coalesce(F.element_at(now, F.lower(column["key"])), column["key"]), column["value"])

    entries = F.filter(F.map_entries(image), lambda column: stays(column["key"]))
    return F.when(now.isNull(), image).otherwise(F.map_from_entries(F.transform(entries, renamed)))


def _renamed_list(names: Column, now: Column) -> Column:
    def renamed(name: Column) -> Column:
        return F.when(F.map_contains_key(now, F.lower(name)), F.element_at(now, F.lower(name))).otherwise(name)

    return F.when(now.isNull(), names).otherwise(F.array_compact(F.transform(names, renamed)))


def _with_names(rows: DataFrame, columns: list[str]) -> DataFrame:
    """The columns of log rows, with the texts of the names in their images rebuilt."""
    names = dict(zip(IMAGE_NAMES, image_names(), strict=True))
    return rows.select(*(names.get(name, F.col(name)) for name in columns))
