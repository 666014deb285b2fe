"""Tables with a key: the hour's changes of each key are folded, and what they come to is joined with what is stored.

A change that comes late needs no other way than one in order: it is joined like it (:mod:`tidemark.fold.row_join`). A row
that moved to another key without all of its columns is joined with the one that it was (:mod:`tidemark.fold.moved_rows`).
Of a key that has two rows for a moment only the changes of the one that stays are folded
(:mod:`tidemark.fold.colliding_keys`).
Only what is in no row's own state is folded again from the change log (:mod:`tidemark.fold.late_changes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.changelog.unreadable_rows import refuse_unreadable
from tidemark.fold import late_changes
from tidemark.fold.colliding_keys import is_arrival, of_other_rows
from tidemark.fold.contract import COUNTED, RESTING
from tidemark.fold.few_keys import FEW_CHANGES, KeyValues, condition, key_texts, key_values, list_keys
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import of_keys, without_changes
from tidemark.fold.materialized import materialize
from tidemark.fold.moved_rows import join_changes_before, join_stored
from tidemark.fold.superseded import deletes_at, late_keys, without_superseded
from tidemark.fold.typed_rows import keyed_rows, settle
from tidemark.ledger.receipts import Counts
from tidemark.logs import get_logger
from tidemark.pipeline.hour_changes import TableChanges
from tidemark.pipeline.repeated_changes import told_of_the_hour
from tidemark.pipeline.table_outcome import TableOutcome

log = get_logger()


@dataclass(frozen=True, kw_only=True)
class SettledSizes:
    """What SETTLED rows come to: sums, and the values of their keys."""

    landed_count: int
    """Changes of the hour that were folded into the rows."""
    landed_duplicates: int
    """Of these, those that are the same change again."""
    released_count: int
    """Changes of earlier hours, released by this one, that were folded into the rows."""
    released_duplicates: int
    """Of these, those that are the same change again."""
    other_content: int
    """Of both, those that say something else than what came before them."""
    unreadable: int
    """Rows with a text that is no value of its column's type any more."""
    written: int
    """Rows that are written."""
    deleted: int
    """Rows that are deleted."""
    unknown_columns: list[str]
    """Columns that some row does not know: its changes never sent them, and it rests on the stored row."""
    key_values: KeyValues
    """The values of the rows' keys, and of the keys that they rest on; empty: they are not listed."""
    resting: int = 0
    """Rows that rest on other keys."""
    chained: bool = False
    """Whether some of these rest on other changes of the hour, or that is not known."""

    @property
    def counts(self) -> Counts:
        """What became of the changes that were folded."""
        return Counts(
            applied=self.landed_count - self.landed_duplicates,
            duplicate=self.landed_duplicates,
            released_applied=self.released_count - self.released_duplicates,
            released_duplicate=self.released_duplicates,
        )


def settle_keyed(changes: TableChanges) -> TableOutcome:
    """Fold the hour's changes of a table with a key. One Spark job, unless the change log is needed."""
    shape, stats, state = changes.shape, changes.stats, changes.state
    rows = keyed_rows(changes.rows, shape, expand=stats.moves > 0)
    if state.needs_log(stats):
        return _fold_from_log(changes, rows)
    late, superseded, counts = state.is_late(stats), Observation(), changes.counts
    few = stats.landed + stats.released <= FEW_CHANGES and not state.ends_rows(stats)
    if stats.collisions:
        rows, of_others = _without_other_rows(changes, rows, few=few)
        counts = counts.plus(of_others)
    texts = key_texts(cast(StructType, rows.schema["key"].dataType)) if few else {}
    if late:
        rows = _join_late(changes, rows, superseded, texts)
    folded = fold(rows, partial=stats.partial > 0, links=stats.links > 0)
    settled, sizes = _settled(settle(folded, shape, changes.run.hour), texts)
    if sizes.resting:
        settled = _join_moved(changes, rows, settled, sizes)
    counts = counts.plus(sizes.counts)
    if late:
        counts = counts.plus(
            Counts(superseded=superseded.get["landed"], released_superseded=superseded.get["released"])
        )
    joined = frozenset(sizes.unknown_columns)
    if late and state.may_be_partial(stats):
        joined = frozenset(shape.columns) - frozenset(shape.key)
    return TableOutcome(
        settled=settled.drop(*RESTING), written=sizes.written, deleted=sizes.deleted, counts=counts, joined=joined,
        key_values=sizes.key_values, warnings=_told_of_repeated(changes, sizes),
    )  # fmt: skip


def _without_other_rows(changes: TableChanges, rows: DataFrame, *, few: bool) -> tuple[DataFrame, Counts]:
    """The hour's ROWS, of keys that collide only those of the row which the key has in the end; and what became of the
    others. ``few``: whether the keys can be listed."""
    arrived, stored = rows.where(is_arrival()).select("key"), changes.state.published.read()
    if values := list_keys(arrived) if few else {}:
        near, there = (
            rows.where(condition(values, "key.")),
            changes.shape.stored_images(stored.where(condition(values))),
        )
    else:
        keys = materialize(arrived.distinct())
        near, there = of_keys(rows, keys), of_keys(changes.shape.stored_images(stored), keys)
    sums = {name: F.sum(name) for name in ("landed", "released")}
    sums |= {f"{name}_once": F.count_if(F.col(name) > 0) for name in sums}
    others = materialize(of_other_rows(near, there, changes.shape), **sums)
    if not others.count:
        return rows, Counts()
    told = others.sums
    counts = Counts(
        applied=told["landed_once"], duplicate=told["landed"] - told["landed_once"],
        released_applied=told["released_once"], released_duplicate=told["released"] - told["released_once"],
    )  # fmt: skip
    return without_changes(rows, others), counts


def _told_of_repeated(changes: TableChanges, sizes: SettledSizes) -> list[str]:
    return told_of_the_hour(changes.rows) if sizes.other_content else []


def _join_moved(changes: TableChanges, rows: DataFrame, settled: DataFrame, sizes: SettledSizes) -> DataFrame:
    """SETTLED rows, those that rest on other keys joined with what these held. ``rows``: the hour's ROWS."""
    shape, state = changes.shape, changes.state
    if sizes.chained:
        settled = join_changes_before(settled, rows, shape, changes.run.hour)
    if state.highest is None:  # nothing is stored
        return settled
    stored = state.published.read()
    if sizes.key_values:
        stored = F.broadcast(stored.where(condition(sizes.key_values)))
    return join_stored(settled, stored, shape.key).localCheckpoint()


def _join_late(
    changes: TableChanges, rows: DataFrame, superseded: Observation, texts: Mapping[str, Column]
) -> DataFrame:
    """The hour's ROWS that can alter what is stored. ``texts``: of keys that are listed; empty: they are too many."""
    state = changes.state
    assert state.highest is not None, "it is late"
    if state.ends_rows(changes.stats):
        assert state.truncated is not None
        under = late_changes.keys_under_a_truncate(state.stored(), state.truncated)
        rows = rows.unionByName(deletes_at(under, state.truncated, rows))
    late = late_keys(rows, state.highest)
    stored = state.stored_near(list_keys(late)) if texts else state.stored(late.distinct())
    return without_superseded(rows, stored, superseded)


def _fold_from_log(changes: TableChanges, rows: DataFrame) -> TableOutcome:
    """Fold with what the change log holds, where the stored rows do not tell enough."""
    shape, stats, hour = changes.shape, changes.stats, changes.run.hour
    published, late = changes.state.published_changes(), changes.state.is_late(stats)
    classified = late_changes.classify(published, rows, stats.links, late=late)
    settled = settle(fold(classified.ordinary, partial=stats.partial > 0), shape, hour)
    if classified.refolded is not None:
        log.info("folding keys again from the change log", reason="changes came late, or rest on another key")
        settled = settled.unionByName(settle(classified.refolded, shape, hour, whole=True))
    refuse = None
    if changes.state.rebuild:
        logged = changes.state.published_rows()
        refuse = partial(refuse_unreadable, shape=shape, log_rows=logged, feed=changes.run.feed, table=stats.table)
    settled, sizes = _settled(settled, {}, refuse)
    counts = classified.counts.plus(sizes.counts)
    return TableOutcome(
        settled=settled, written=sizes.written, deleted=sizes.deleted, counts=changes.counts.plus(counts),
        joined=frozenset(sizes.unknown_columns), warnings=_told_of_repeated(changes, sizes),
    )  # fmt: skip


def _settled(
    settled: DataFrame, texts: Mapping[str, Column], refuse: Callable[[DataFrame], None] | None = None
) -> tuple[DataFrame, SettledSizes]:
    """SETTLED rows, materialised, and what they come to; without those that earlier hours made unreadable, under another
    type: they stay as they are stored. ``texts``: of keys that are listed. ``refuse``: raises for unreadable rows, where
    nothing stays as it is stored."""
    links, key, found = "rests" in settled.columns, cast(StructType, settled.schema["key"].dataType), Observation()
    others = key_texts(key, "rests.key") if links else {}
    every = {name: F.collect_set(text) for name, text in texts.items()}
    every |= {name: F.array_union(every[name], F.collect_set(text)) for name, text in others.items() if texts}
    asked = [F.struct(*(values.alias(name) for name, values in every.items())).alias("keys")] if texts else []
    if links and texts:
        until = F.when(F.col("rests").isNotNull(), F.struct(*others.values(), "rests.until"))
        asked += [F.collect_set(F.struct(*texts.values(), "first")).alias("first"), F.collect_set(until).alias("until")]
    settled = settled.observe(found, *_sums(links=links), *asked).localCheckpoint()
    sums = dict(found.get)
    values = key_values(key, sums.pop("keys").asDict()) if texts else {}
    chained = _chained(sums.pop("first"), sums.pop("until")) if links and texts else links
    sizes = SettledSizes(**sums, key_values=values, chained=chained)
    if sizes.unreadable:
        if refuse is not None:
            refuse(settled)
        settled = settled.where("unreadable = ''")
        again = settled.agg(*_sums(links=links)).first()
        assert again is not None
        sizes = SettledSizes(**again.asDict(), key_values=values, chained=chained)
    return settled.drop("unreadable", *COUNTED), sizes


def _chained(first: list[Row], until: list[Row]) -> bool:
    """Whether rows rest on changes of the hour. ``first``: texts of keys, and the lowest sort key of the changes of each.
    ``until``: texts of keys that rows rest on, and until where."""
    at = {tuple(key): lowest for *key, lowest in sorted(first, reverse=True)}
    return any(at.get(tuple(key), end) < end for *key, end in until)


def _sums(*, links: bool) -> list[Column]:
    without_base = F.col("joins") & F.col("tidemark.base_sort_key").isNull()
    resting = F.col("rests").isNotNull() if links else F.lit(False)
    unknown = F.when(without_base & ~resting, F.col("tidemark.absent"))
    return [
        F.count_if(resting).alias("resting"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in COUNTED),
        F.count_if(F.col("unreadable") != "").alias("unreadable"),
        F.count_if(~F.col("deleted")).alias("written"),
        F.count_if("deleted").alias("deleted"),
        F.array_distinct(F.flatten(F.collect_set(unknown))).alias("unknown_columns"),
    ]
