"""Reloads that an operator has named: where each stands in the source's order.

A reload begins with the first row of its load that landed in the hour that was named, or in a later one. Where all of the
feed's tables are reloaded, and of a table no row of a load lands in that hour, only a row that shows that all of the table
is read begins it later: others may be of a part of it, and nothing says that the operator meant them. It stands just
behind all that was sent of the table before that row: what landed in hours before, and in that hour what comes before the
load's rows in their partitions. What stands before that place is gone, as by a truncate there. Only offsets tell what comes
before the load within the hour; without them, or where no row shows that a load has read it, the hour's own changes come
behind it.

Where the source's positions begin again with the load, the load's rows and all behind them count from that place on: see
:mod:`tidemark.changelog.places`. Of a source table that is empty no row will come: its reload begins with the hour.

The place depends on what has landed, and on nothing else: an older hour that comes late may push it further, and then all
rows of the table are folded again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.places import (
    landed_before,
    of_load,
    of_whole_load,
    placed,
    shows_loads,
    topic_partition,
)
from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import LOADED_AT, MarksLoads
from tidemark.hours import Hour
from tidemark.ledger.change_log import is_row
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.quarantine import ENTRY, STOPPED
from tidemark.ledger.receipts import Reload
from tidemark.ledger.reloads import ALL, BEGIN_AGAIN, EMPTY, bare, parse_declaration

#: Behind a position: a place that is higher than it, and lower than every position that is higher than it. It sorts behind
#: the ``#`` of sort keys.
_BEHIND = "+"
_MOST_NAMED = 5

#: By the source's table, its reloads.
Reloads = Mapping[str, Sequence[Reload]]


@dataclass(frozen=True)
class HourReloads:
    """The reloads of a feed when an hour is made."""

    before: Reloads = field(default_factory=dict)
    """All that had begun before it."""
    begun: Reloads = field(default_factory=dict)
    """All that have begun, of whatever hour."""
    altered: Mapping[str, str] = field(default_factory=dict)
    """The source's tables of which the hour brings, moves or takes back reloads, or brings rows from before their positions
    began again; and where the newest reload stands then. Empty: nowhere."""

    def recorded(self, stopped: Collection[str], feed: Feed) -> dict[str, list[Reload]]:
        """All that have begun once the hour is published. Tables that are ``stopped`` keep what they had: an hour in which
        they go on brings them the others."""
        now = {source: found for source, found in self.begun.items() if feed.published_name(source) not in stopped}
        now |= {source: found for source, found in self.before.items() if feed.published_name(source) in stopped}
        return {source: list(found) for source, found in now.items()}


def hour_reloads(manifest: Manifest, landed: DataFrame, log: DataFrame, state: FeedState, feed: Feed) -> HourReloads:
    """The reloads when an hour is made. ``landed``: the hour's new log entries; ``log``: the published ones, and these."""
    hour, names = manifest.hour, manifest.reloads
    begun = find_reloads(hour, _named(hour, names, state), landed, log, state, feed)
    again = _newest_places(_beginning_again(hour, landed, begun), begun)
    return HourReloads(state.reloads, begun, altered(state.reloads, begun) | again)


def _named(hour: str, names: Sequence[str] | None, state: FeedState) -> dict[str, list[str]]:
    """Hours with the tables that are reloaded from them on, the hour in the making among them. ``names``: its own; None:
    it names none."""
    named = {each: tables for each, tables in state.named_reloads.items() if each != hour}
    return named | ({hour: list(names)} if names else {})


def find_reloads(
    hour: str,
    named: Mapping[str, Sequence[str]],
    landed: DataFrame,
    log: DataFrame,
    state: FeedState,
    feed: Feed,
) -> dict[str, list[Reload]]:
    """All reloads that have begun, of those that are ``named``. The log is only searched where the hour can alter one, or a
    table is stopped, which may not have had all of its reloads yet. No reload begins with a row that waits."""
    known = {source: list(found) for source, found in state.reloads.items()}
    if not named and not known:
        return {}
    if named == state.named_reloads and not state.stopped_tables and not _may_alter(hour, named, landed, state, feed):
        return known
    rows = log.where(is_row())
    if state.stopped:
        kept = kept_back(log.sparkSession, feed.feed, state)
        waiting = kept.where((F.col("stage") == STOPPED) & (F.col("hour") != hour)).select(*ENTRY)
        rows = rows.join(waiting, ENTRY, "left_anti").select(*rows.columns)
    found: dict[str, list[Reload]] = {}
    for first, tables in sorted(named.items()):
        for source, reload in _begun(first, tables, placed(rows, log, feed, found), feed).items():
            found.setdefault(source, []).append(reload)
    return found


def altered(before: Reloads, now: Reloads) -> dict[str, str]:
    """The source's tables whose reloads have other places than before, and where the newest stands now; empty: nowhere."""

    def places(of: Reloads, source: str) -> list[Reload]:
        return [reload.model_copy(update={"hour": reload.began}) for reload in of.get(source, [])]

    changed = {source for source in {*before, *now} if places(before, source) != places(now, source)}
    return _newest_places(changed, now)


def _newest_places(sources: Collection[str], reloads: Reloads) -> dict[str, str]:
    return {
        source: max((reload.position for reload in reloads.get(source, [])), default="") for source in sorted(sources)
    }


def _beginning_again(hour: str, landed: DataFrame, reloads: Reloads) -> list[str]:
    """The source's tables with new rows from before positions began again, or from that hour: one that came again since may
    prove to be of before."""
    late = [
        source
        for source, found in reloads.items()
        if any(reload.begins_again and hour <= reload.began for reload in found)
    ]
    if not late:
        return []
    changed = landed.where(is_row() & F.col("source_table").isin(late)).select("source_table").distinct()
    return [row.source_table for row in changed.collect()]


def reload_notes(
    hour: str, names: Sequence[str], reloads: Reloads, stopped: Collection[str], state: FeedState, feed: Feed
) -> list[str]:
    """What the hour's receipt says of reloads. ``names``: those that the hour names; ``reloads``: all that have begun once it
    is published; ``stopped``: tables of which the receipt says why nothing begins. ``state``: what was published before."""
    began = {source for source, found in reloads.items() for reload in found if reload.began == hour}
    notes = [
        f"{feed.published_name(source)} was reloaded in this hour: what was sent before its load is gone"
        for source in sorted(began)
    ]
    notes += [
        f"positions of {feed.published_name(source)} begin again with that load: where neither offsets nor a row of the load "
        f"tell, a change of this hour was taken for one of before if its position is above {reload.highest_before}"
        for source, found in sorted(reloads.items())
        for reload in found
        if reload.began == hour and reload.begins_again and reload.highest_before
    ]
    begun = {source for source, found in reloads.items() for reload in found if reload.hour == hour}
    waiting = [feed.published_name(name) for name in map(bare, names) if name not in {*begun, ALL}]
    has_not_begun = "has not begun: no row of its load has landed yet"
    notes += [f"the reload of {name} {has_not_begun}" for name in waiting if name not in stopped]
    if ALL not in map(bare, names):
        return notes
    if not begun:
        return [*notes, f"the reload of all tables {has_not_begun}"]
    left = (
        name
        for name, table in state.tables.items()
        if table.highest and (table.first_hour or hour) < hour and begun.isdisjoint(table.sources)
    )
    return notes + _left_out(hour, sorted({*left} - {*waiting, *stopped}), feed)


def _left_out(hour: str, tables: Sequence[str], feed: Feed) -> list[str]:
    """What to say of the ``tables`` that have not begun where all are reloaded."""
    if not tables:
        return []
    later = f"name the hour in which it lands: `tidemark reload {feed.feed} TABLE --hour H`"
    if shows_loads(feed):
        later = (
            f"it begins then; if none will, `tidemark reload {feed.feed} --hour {hour} --revoke`, and name the others"
        )
    more = ", …" if len(tables) > _MOST_NAMED else ""
    return [
        f"the reload of all tables has not begun of {', '.join(tables[:_MOST_NAMED])}{more}: no row of their load has landed "
        f"yet. If one will, {later}"
    ]


def behind_changes(stats: TableStats, state: FeedState) -> bool:
    """Whether a full load of a table stands behind what is published of it, rows of the same load not counted."""
    highest = state.table(stats.table).highest
    return stats.loaded is not None and highest is not None and highest < stats.loaded


def unended_load(stats: TableStats, hour: str, state: FeedState, feed: Feed) -> str | None:
    """What to say of a table of which a load was read behind its changes, and nothing ends what was there before; None: it
    was not, or something does. Whichever of the two comes first. ``state``: with the reloads that have begun, the hour's
    among them."""
    before = state.table(stats.table)
    loads = [(place, of) for place, of in ((before.loaded, before.loaded_in), (stats.loaded, hour)) if place and of]
    if not loads:
        return None
    loaded, loaded_in = max(loads)
    changed = before.highest if behind_changes(stats, state) else stats.changed
    behind = changed is not None and changed < loaded
    ended = max(filter(None, (before.truncated, stats.truncated)), default="")
    reloads = [reload for source in stats.sources for reload in state.reloads.get(source, [])]
    # Where rows of the load have waited, the hour is not that in which it landed: what the reload ends tells, too.
    named = any(reload.began == loaded_in or reload.position >= (changed or loaded) for reload in reloads)
    if not (stats.twice or behind) or ended >= loaded or named:
        return None
    twice = "" if stats.keyed else ", and without a key those that it read again are there twice"
    return (
        "rows of a snapshot landed behind changes of the table, and no row has ended it so far: rows that were deleted while "
        f"nobody listened stay{twice}. If all of the table was read anew, and no row of a later hour ends it: "
        f"`tidemark reload {feed.feed} {stats.table} --hour {loaded_in}`"
    )


def unplaced_load(stats: TableStats, hour: str, state: FeedState, feed: Feed) -> str | None:
    """What to say of a table of which a load landed behind changes, though its rows have no place but before all changes.
    None: none did, or it is a reload; or the hour that brings it comes late itself. ``state``: as :func:`unended_load` has
    it."""
    format_, before, loaded_in = load_format(feed.format["type"]), state.table(stats.table), Hour.parse(hour)
    if not isinstance(format_, MarksLoads) or format_.LOADS_HAVE_PLACES:
        return None
    behind = stats.loaded is not None and (before.highest or "") > f"{stats.loaded}{LOADED_AT}~"
    behind = behind and hour >= (state.newest_hour or hour)
    if stats.changed is not None and before.loaded_in is not None and hour < before.loaded_in:
        behind, loaded_in = True, before.loaded_in
    if not behind or any(r.began <= loaded_in for source in stats.sources for r in state.reloads.get(source, [])):
        return None
    return (
        "rows of a full load landed behind changes of the table, and replace nothing: if the source loaded it anew, "
        f"`tidemark reload {feed.feed} {stats.table} --hour {loaded_in}`"
    )


def unread_note(hour: str, stats: Sequence[TableStats], state: FeedState, feed: Feed) -> str | None:
    """What to say of the feed's other tables where a load was read behind the changes of some; None: there are none. A table
    that is empty now sends no row, as one does that was not read."""
    read = [one.table for one in stats if behind_changes(one, state)]
    loaded = {one.table for one in stats if one.loaded is not None}
    unread = sorted(name for name, table in state.tables.items() if table.highest and name not in loaded)
    if not read or not unread or hour < (state.newest_hour or hour):
        return None
    more = ", …" if len(unread) > _MOST_NAMED else ""
    return (
        f"a snapshot read {read[0]} anew, and in this hour no row of it landed of {', '.join(unread[:_MOST_NAMED])}{more}: "
        f"where such a table is empty at its source, its rows stay until `tidemark reload {feed.feed} TABLE --hour {hour} "
        "--empty`"
    )


def _may_alter(hour: str, named: Mapping[str, Sequence[str]], landed: DataFrame, state: FeedState, feed: Feed) -> bool:
    """Whether the hour's new rows can begin a reload, or come before one that has begun."""
    if not named:
        return False
    begin = (
        F.count_if(_begins(first, dict(map(parse_declaration, tables)), feed)).alias(first)
        for first, tables in named.items()
    )
    for row in landed.where(is_row()).groupBy("source_table").agg(*begin).collect():
        for first, tables in named.items():
            if _names([bare(name) for name in tables], row.source_table):
                known = [one for one in state.reloads.get(row.source_table, []) if one.hour == first]
                if hour <= known[0].began if known else row[first]:
                    return True
    return False


def _begins(first: str, named: Mapping[str, Collection[str]], feed: Feed) -> Column:
    """Whether a log row may be the one that begins the reload of its table. ``first``: the hour that was named; ``named``: by
    table, what is said of its reload."""
    told = F.col("source_table").isin([name for name in named if name != ALL]) | _is_said(BEGIN_AGAIN, named)
    shown = of_load(feed) & ((F.col("hour") == first) | told | of_whole_load(feed))
    return _is_said(EMPTY, named) | ((F.col("hour") >= first) & shown)


def _begun(first: str, tables: Sequence[str], rows: DataFrame, feed: Feed) -> dict[str, Reload]:
    """Of the tables that are reloaded from an hour on, those whose load has begun. ``rows``: placed log rows."""
    named = dict(map(parse_declaration, tables))
    if ALL not in named:
        rows = rows.where(F.col("source_table").isin(list(named)))
    again = _is_said(BEGIN_AGAIN, named)
    begins = _begins(first, named, feed)
    began_at = F.when(_is_said(EMPTY, named), F.lit(first)).when(begins, F.col("hour"))
    began = rows.groupBy("source_table").agg(F.min(began_at).alias("began")).where("began is not null")
    partition = ["source_table", "topic", "partition"]
    with_began = rows.join(F.broadcast(began), "source_table")
    beginning = with_began.where((F.col("hour") == F.col("began")) & of_load(feed) & begins)
    offsets = beginning.groupBy(*partition).agg(F.min("offset").alias("begins"))
    both = with_began.join(F.broadcast(offsets), partition, "left")
    # That the positions of an hour's first rows are lower than those of before tells where offsets do not.
    higher = F.lit(False)
    if any(BEGIN_AGAIN in words for words in named.values()):
        earlier = with_began.where(again & (F.col("hour") < F.col("began")))
        highest = earlier.groupBy("source_table").agg(F.max("position").alias("highest"))
        both = both.join(F.broadcast(highest), "source_table", "left")
        higher = again & (F.col("position") > F.col("highest"))
    else:
        both = both.withColumn("highest", F.lit(None).cast("string"))
    before = (F.col("hour") < F.col("began")) | (
        (F.col("hour") == F.col("began")) & landed_before(feed, F.col("begins"), higher)
    )
    told = again & (F.col("hour") == F.col("began")) & F.col("begins").isNotNull() & F.lit(shows_loads(feed))
    found = both.groupBy("source_table", "began", "highest").agg(
        F.max(F.when(before, F.col("position"))).alias("before"),
        F.first(again).alias("again"),
        F.collect_set(F.when(told, F.struct(topic_partition().alias("partition"), "begins"))).alias("begins"),
    )
    return {
        row.source_table: Reload(
            hour=Hour.parse(first), began=Hour.parse(row.began), position=row.before + _BEHIND if row.before else "",
            begins_again=row.again, highest_before=row.highest,
            begins={one.partition: one.begins for one in sorted(row.begins)},
        )
        for row in found.collect()
    }  # fmt: skip


def _is_said(word: str, named: Mapping[str, Collection[str]]) -> Column:
    """Whether a word is said of the reload of a log row's table. ``named``: by table, what is said; of a table's own
    declaration rather than of that of all."""
    own = F.col("source_table").isin([name for name, words in named.items() if word in words])
    if word not in named.get(ALL, ()):
        return own
    return own | ~F.col("source_table").isin([name for name in named if name != ALL])


def _names(tables: Collection[str], source: str) -> bool:
    return ALL in tables or source in tables
