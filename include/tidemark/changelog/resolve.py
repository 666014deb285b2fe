"""How a table of a feed is shaped: key, columns and types, from the feed file, the messages and what is stored.

A column of a table has one type, however its messages change: the widest of all types that it was ever given. A type
may only widen in place. So a table comes out the same in whichever order hours are run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from tidemark.changelog.column_readings import Told, column_type, written_as
from tidemark.changelog.table_history import Definition, Definitions
from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed, Table
from tidemark.fold.typed_rows import TableShape
from tidemark.formats import load_format
from tidemark.formats.contract import TellsTableChanges
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.image_names import MOST_COLUMNS, names_in
from tidemark.values.columns import ColumnType, Reading, add_in_order
from tidemark.values.encodings import ENCODINGS, REWRITTEN
from tidemark.values.type_changes import fix_of_key

#: How many columns a note names.
_SHOWN = 20


@dataclass(frozen=True)
class LoggedColumns:
    """The columns that published rows of a table carry, needed where these rows are read again."""

    columns: list[list[str]] = field(default_factory=list)
    """Sets of names, as they are now."""
    schemas: list[tuple[str, int]] = field(default_factory=list)
    """Message schemas, each with the generation of its rows, as in :class:`tidemark.ledger.change_stats.TableStats`."""
    unsaid: bool = False
    """Whether there are rows without a message schema."""


@dataclass(frozen=True)
class PublishedReadings:
    """How the columns of a published table were read last."""

    columns: Mapping[str, Reading] = field(default_factory=dict)
    """By column, as far as it was noted."""
    stand: bool = False
    """The table is only read, as it stands: what the feed file says since, and the table cannot follow, does not count."""


def shape_of(
    feed: Feed,
    stats: TableStats,
    definition: Definition,
    stored: dict[str, str],
    stored_key: list[str],
    logged: LoggedColumns | None = None,
    before: PublishedReadings = PublishedReadings(),
) -> TableShape:
    """The shape a table has in this hour. ``stored``: its columns' types as they are.

    Types come from the feed file; else from message schemas and from the stream's ``definition`` of the table; else from
    what is stored, and how it was read ``before``. A column that nothing gives a type is text. SchemaError for what cannot
    be one table: two source tables or two keys, types of a column of which none holds the others, a column that would be
    read in another way than what is published of it, too many columns.
    """
    refuse_other_sources(feed, stats, set())
    logged = logged or LoggedColumns()
    declared, format_ = feed.tables.get(stats.sources[0], Table()), load_format(feed.format["type"])
    wanted: dict[str, ColumnType] = dict(format_.column_types(declared.all_columns, feed.format_options))
    schemas = {
        text: _by_names_now(format_.message_types(text, feed.format_options), definition, generation)
        for text, generation in sorted({*stats.schemas, *logged.schemas}, reverse=True)
    }
    # A truncate carries no key: an hour of truncates alone says nothing about it.
    key = tuple(stored_key) if stats.only_truncates else _key(feed, stats, declared, definition, stored_key)
    sent = [*logged.columns, *(names_in(text) for text in stats.columns), list(key)]
    listed = [list(wanted), *_longest_first(map(list, schemas.values()))]
    if stats.untied and not key:
        _refuse_untied(feed, stats)
    # Statements are written in any case.
    spelling = {name.lower(): name for names in (*sent, *listed, stored) for name in names}
    defined = {spelling.get(name.lower(), name): kinds for name, kinds in definition.columns.items()}
    filled = definition.filled_now[0] if definition.column_renames else {}
    numbers = {spelling.get(name.lower(), name) for name, text in filled.items() if _is_number(text)}
    listed += [list(defined), *_longest_first(sent)]
    _refuse_many(feed, stats.table, {*stored, *(name for names in listed for name in names)})
    names = list(stored)
    for others in listed:
        add_in_order(names, others)
    columns: dict[str, ColumnType] = {}
    rewrites: dict[str | None, dict[str, ColumnType]] = {}
    found: dict[str, Reading] = {}
    for name in names:
        readings = {text: written_as(kinds[name], wanted.get(name)) for text, kinds in schemas.items() if name in kinds}
        told = Told(
            table=stats.table, name=name, stored=stored.get(name), before=before.columns.get(name), declared=wanted.get(name),
            written=declared.all_columns.get(name), readings=list(readings.values()), stated=defined.get(name, ()),
            given_number=name in numbers, unsaid=bool(stats.unsaid or logged.unsaid),
        )  # fmt: skip
        columns[name], found[name] = column_type(feed.feed, told, stand=before.stand)
        if columns[name].encoding == REWRITTEN:
            for text, kind in readings.items():
                rewrites.setdefault(text, {})[name] = kind
            if (of_feed := wanted.get(name)) is not None:
                rewrites.setdefault(None, {})[name] = of_feed
    live = frozenset().union(*listed)
    said = {name: reading for name, reading in found.items() if reading.by != "nobody" or any(name in s for s in sent)}
    return TableShape(
        key=key,
        columns=columns,
        encodings={**ENCODINGS, **format_.ENCODINGS},
        rewrites=rewrites,
        live=live,
        readings=said,
    )


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def told_columns(feed: Feed, stats: TableStats, definition: Definition, stored: Iterable[str]) -> set[str]:
    """In lower case, the columns that the table is known to have, and what they are."""
    declared, format_ = feed.tables.get(stats.sources[0], Table()), load_format(feed.format["type"])
    listed = [stored, definition.columns, declared.all_columns, *map(names_in, stats.columns)]
    listed += [format_.message_types(text, feed.format_options) for text, _ in stats.schemas]
    return {name.lower() for names in listed for name in names}


def unlisted_note(feed: Feed, stats: TableStats, definitions: Definitions, key: Collection[str]) -> str | None:
    """What to say of an hour whose messages list different columns of a table, though none of its statements tells why; None:
    they do not. A message that lists key columns alone tells which row is gone.

    Only where the source sends statements: elsewhere the messages are what tells of a column that comes or goes.
    """
    format_ = load_format(feed.format["type"])
    if not isinstance(format_, TellsTableChanges) or stats.sources[0] in definitions.new:
        return None
    by_generation: dict[int, list[set[str]]] = {}
    for text, generation in stats.schemas:
        if (names := set(format_.message_types(text, feed.format_options))) - set(key):
            by_generation.setdefault(generation, []).append(names)
    lists = by_generation.values()
    missing = sorted({name for of_one in lists for names in of_one for name in set().union(*of_one) - names})
    if not missing:
        return None
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return (
        f"some messages of the hour do not list {', '.join(missing[:_SHOWN])}{more}, others do: it is null in the rows "
        "of those that do not. Where no column came or went meanwhile, the source leaves out what did not change: have it "
        "send whole rows, and reload the table"
    )


def altered_in_another_case(feed: Feed, stats: TableStats, definitions: Definitions) -> set[str]:
    """The source's tables that statements alter under the name of the hour's table, written in another case than its rows.
    Where MySQL does not tell cases apart, rows have the name in lower case, and a statement as it was typed."""
    return {
        source for source, known in definitions.tables.items()
        if known.column_renames and feed.published_name(source) == stats.table
        and source.lower() in {sent.lower() for sent in stats.sources}
    }  # fmt: skip


def refuse_other_sources(feed: Feed, stats: TableStats, before: set[str]) -> None:
    """SchemaError where two of the source's tables would be one. ``before``: those that were published under the name so
    far, or altered; where the feed file gives it to the hour's table by ``name``, it goes on as that one's, unless it gives
    the former one another name."""
    left = {source: feed.published_name(source) for source in sorted(before & feed.tables.keys() - {*stats.sources})}
    for source, name in left.items():
        if name != stats.table:
            raise SchemaError(
                f"it holds the rows of {source}, which the feed file publishes as {name} now",
                fix=f"in the feed file, give {' and '.join(stats.sources)} a `name` that no other table has had",
                feed=feed.feed,
                table=stats.table,
            )
    named = all(source in feed.tables and feed.tables[source].name for source in stats.sources)
    sources = sorted({*stats.sources} if named else {*stats.sources, *before})
    if len(sources) < 2:
        return
    problem = f"the source's tables {' and '.join(sources)} would both be published under this name"
    fix = "give one of them a `name` under tables in the feed file"
    if len({source.lower() for source in sources}) == 1:
        problem += ", and are one where the server does not tell cases apart (lower_case_table_names)"
        fix = (
            f"if they are one, give the one that rows have this name under tables in the feed file (`name: {stats.table}`): "
            "a statement in another case then goes to quarantine; if they are two, give one of them another `name`"
        )
    raise SchemaError(problem, fix=fix, feed=feed.feed, table=stats.table)


def refuse_former_name(feed: Feed, stats: TableStats, names: Mapping[str, str]) -> None:
    """SchemaError where a table that holds rows is given to one of the source's that went on under another name since: it
    lacks what came then. ``names``: see :class:`tidemark.ledger.feed_state.FeedState`."""
    for source in stats.sources:
        if (other := names.get(source, stats.table)) != stats.table:
            raise SchemaError(
                f"{source} was published as {other} since this table got its rows, which lack what came then",
                fix=f"in the feed file, give {source} the `name` {other} again, or one that it never had; or drop this "
                "table: then it is built from the change log",
                feed=feed.feed,
                table=stats.table,
            )


def _refuse_many(feed: Feed, table: str, names: set[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise SchemaError(
            f"the table would have {len(names)} columns, more than {MOST_COLUMNS}",
            fix="no source has as many: find out what writes such rows, and take it off the feed's topics",
            feed=feed.feed,
            table=table,
        )


def _refuse_untied(feed: Feed, stats: TableStats) -> None:
    raise SchemaError(
        f"the table has no key, and {stats.untied} updates and deletes come without the row as it was before: which rows "
        "they change is unknown",
        fix=f"declare the table's key under tables.{stats.sources[0]}.key in the feed file; or export the messages with "
        "their keys; or have the source send whole before images (PostgreSQL: REPLICA IDENTITY FULL) and take a new "
        "snapshot into a new feed",
        feed=feed.feed,
        table=stats.table,
    )


def _longest_first(lists: Iterable[list[str]]) -> list[list[str]]:
    return sorted(lists, key=lambda names: (-len(names), names))


def _by_names_now(types: Mapping[str, ColumnType], definition: Definition, generation: int) -> dict[str, ColumnType]:
    """A message's types by its columns' names now; a column that was dropped since stays,
    but its values are deleted."""
    now = {name: definition.name_now(name, generation) for name in types}
    taken = {new for name, new in now.items() if new is not None and new != name}
    return {(now[name] or name): kind for name, kind in types.items() if now[name] is not None or name not in taken}


def _key(
    feed: Feed, stats: TableStats, declared: Table, definition: Definition, stored_key: list[str]
) -> tuple[str, ...]:
    """The key's columns, in the stored order where they are the stored columns."""
    if declared.key is not None:
        return tuple(declared.key)
    sent = [names_in(text) for text in stats.keys if names_in(text)]
    if not stats.keyed and not definition.key:
        return ()
    spelling = {name.lower(): name for names in [*sent, stored_key] for name in names}
    if definition.key:
        sent.append([spelling.get(name.lower(), name) for name in definition.key])
    if len({frozenset(names) for names in sent}) > 1:
        raise SchemaError(
            f"the key changes: messages name {' and '.join(sorted({', '.join(names) for names in sent}))}",
            fix=fix_of_key(stored_key or min(sent, key=len), sent),
            feed=feed.feed,
            table=stats.table,
        )
    if not sent:
        return tuple(stored_key)
    return tuple(stored_key) if set(stored_key) == set(sent[0]) else tuple(sent[-1])
