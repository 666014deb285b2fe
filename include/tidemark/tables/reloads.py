"""Reloads that an operator has named: where each stands in the source's order.

A reload begins with the first row of its load that landed in the hour that was named, or in a later one. It stands just
behind all that was sent of the table before that row: what landed in hours before, and in that hour what comes before the
load's rows in their partitions. What stands before that place is gone, as by a truncate there. Only offsets tell what comes
before the load within the hour; without them, or where no row shows that a load has read it, the hour's own changes come
behind it.

The place depends on what has landed, and on nothing else: an older hour that comes late may push it further, and then all
rows of the table are folded again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.formats import load_format
from tidemark.formats.contract import MarksLoads
from tidemark.hours import Hour
from tidemark.ledger.change_log import is_row
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.receipts import Reload
from tidemark.ledger.reloads import ALL
from tidemark.tables.places import placed

#: Behind a position: a place that is higher than it, and lower than every position that is higher than it. It sorts behind
#: the ``#`` of sort keys.
_BEHIND = "+"

#: By the source's table, its reloads.
Reloads = Mapping[str, Sequence[Reload]]


@dataclass(frozen=True)
class HourReloads:
    """The reloads of a feed when an hour is made. ``begun``: all that have begun; ``altered``: the source's tables of which
    the hour brings, moves or takes back reloads, and where the newest stands then (empty: nowhere); ``notes``: for the
    hour's receipt."""

    begun: Reloads = field(default_factory=dict)
    altered: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def hour_reloads(
    manifest: Manifest, loads: Sequence[tuple[str, str]], landed: DataFrame, log: DataFrame, state: FeedState,
    feed: Feed,
) -> HourReloads:  # fmt: skip
    """The reloads when an hour is made. ``loads``: as :func:`unplaced_loads` finds them; ``landed``: the hour's new log
    entries; ``log``: the published ones, and these."""
    hour, names = manifest.hour, manifest.reloads
    begun = find_reloads(hour, _named(hour, names, state), landed, log, state, feed)
    notes = _notes(hour, names, begun, feed) + _warnings(hour, loads, begun, state, feed)
    return HourReloads(begun, altered(state.reloads, begun), notes)


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
    """All reloads that have begun, of those that are ``named``. The log is only searched where the hour can alter one."""
    known = {source: list(found) for source, found in state.reloads.items()}
    if not named and not known:
        return {}
    if named == state.named_reloads and not _may_alter(hour, named, landed, state, feed):
        return known
    found: dict[str, list[Reload]] = {}
    for first, tables in sorted(named.items()):
        for source, reload in _begun(first, tables, placed(log.where(is_row()), log, feed, found), feed).items():
            found.setdefault(source, []).append(reload)
    return found


def altered(before: Reloads, now: Reloads) -> dict[str, str]:
    """The source's tables whose reloads have other places than before, and where the newest stands now; empty: nowhere."""

    def places(of: Reloads, source: str) -> list[tuple[str, str]]:
        return [(reload.began, reload.position) for reload in of.get(source, [])]

    changed = {source for source in {*before, *now} if places(before, source) != places(now, source)}
    return {source: max((position for _, position in places(now, source)), default="") for source in sorted(changed)}


def _notes(hour: str, names: Sequence[str] | None, reloads: Reloads, feed: Feed) -> list[str]:
    """What the hour's receipt says of reloads."""
    began = {source for source, found in reloads.items() for reload in found if reload.began == hour}
    notes = [
        f"{feed.published_name(source)} was reloaded in this hour: what was sent before its load is gone"
        for source in sorted(began)
    ]
    begun = {source for source, found in reloads.items() for reload in found if reload.hour == hour}
    waiting = [name for name in names or () if name not in begun and not (name == ALL and begun)]
    shown = ("all tables" if name == ALL else feed.published_name(name) for name in waiting)
    return notes + [f"the reload of {name} has not begun: no row of its load has landed yet" for name in shown]


def unplaced_loads(feed: Feed) -> Column:
    """An aggregate of log entries: tables of which they hold rows of a load without a place, each with the place of a first
    load."""
    format_ = load_format(feed.format["type"])
    without_place = format_.without_place() if isinstance(format_, MarksLoads) else F.lit(False)
    return F.collect_set(F.when(is_row() & without_place, F.struct("source_table", "position")))


def _warnings(hour: str, loads: Sequence[tuple[str, str]], reloads: Reloads, state: FeedState, feed: Feed) -> list[str]:
    """What the hour's receipt says of rows of loads that landed behind changes of their tables, without a reload that they
    could be of. ``loads``: as :func:`unplaced_loads` finds them."""
    notes = []
    for source, place in sorted(loads):
        table = feed.published_name(source)
        changed = (state.table(table).highest or "") > place + "#9" and hour >= (state.newest_hour or hour)
        if changed and not any(reload.began <= hour for reload in reloads.get(source, [])):
            notes.append(
                f"rows of a full load of {table} landed behind changes of it, and replace nothing: if the source loaded it "
                f"anew, `tidemark reload {feed.feed} {table} --hour {hour}`"
            )
    return notes


def _may_alter(hour: str, named: Mapping[str, Sequence[str]], landed: DataFrame, state: FeedState, feed: Feed) -> bool:
    """Whether the hour's new rows can begin a reload, or come before one that has begun."""
    counted = landed.where(is_row()).groupBy("source_table").agg(F.count_if(_of_load(feed)).alias("loaded")).collect()
    for row in counted:
        for first, tables in named.items():
            if _names(tables, row.source_table):
                known = [one for one in state.reloads.get(row.source_table, []) if one.hour == first]
                if (known and hour <= known[0].began) or (not known and row.loaded and hour >= first):
                    return True
    return False


def _begun(first: str, tables: Sequence[str], rows: DataFrame, feed: Feed) -> dict[str, Reload]:
    """Of the tables that are reloaded from an hour on, those whose load has begun. ``rows``: placed log rows."""
    if ALL not in tables:
        rows = rows.where(F.col("source_table").isin(list(tables)))
    of_load = _of_load(feed)
    loads = rows.where((F.col("hour") >= first) & of_load)
    began = loads.groupBy("source_table").agg(F.min("hour").alias("began"))
    partition = ["source_table", "topic", "partition"]
    beginning = loads.join(F.broadcast(began), "source_table").where(F.col("hour") == F.col("began"))
    offsets = beginning.groupBy(*partition).agg(F.min("offset").alias("begins"))
    both = rows.join(F.broadcast(began), "source_table").join(F.broadcast(offsets), partition, "left")
    in_hour = (F.col("hour") == F.col("began")) & ~of_load & (F.col("offset") < F.col("begins"))
    before = F.coalesce((F.col("hour") < F.col("began")) | in_hour, F.lit(False))
    found = (
        both.groupBy("source_table", "began").agg(F.max(F.when(before, F.col("position"))).alias("before")).collect()
    )
    return {
        row.source_table: Reload(
            hour=Hour.parse(first), began=Hour.parse(row.began), position=row.before + _BEHIND if row.before else ""
        )
        for row in found
    }


def _names(tables: Collection[str], source: str) -> bool:
    return ALL in tables or source in tables


def _of_load(feed: Feed) -> Column:
    format_ = load_format(feed.format["type"])
    return format_.of_load() if isinstance(format_, MarksLoads) else F.lit(True)
