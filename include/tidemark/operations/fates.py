"""What became of what landed: the one answer that is given of a row's changes and of a transaction's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Row
from pyspark.sql import functions as F

from tidemark.changelog.folded_log import numbers_changes
from tidemark.changelog.table_log import TableLog
from tidemark.changelog.table_view import emptied_below
from tidemark.changelog.ties import tied_log
from tidemark.ledger.change_log import rolled_back
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import kept_back
from tidemark.ledger.quarantine import ENTRY
from tidemark.ledger.system_tables import held_transactions, waiting_entries
from tidemark.operations.held import missing_parts

#: The fates. What follows a colon is why.
APPLIED, DUPLICATE, GONE, HELD, KEPT = "applied", "duplicate", "gone", "held", "in quarantine"
ROLLED_BACK, ANOTHER, UNPUBLISHED = "rolled back", "another delivery counts", "its hour is not published yet"
LATER = "it came after its hour was published, and is not published yet"

#: A change as a table counts it once: the table, the position, the operation, and the key; without a key the images.
Same = tuple[str | None, str, str, str | int | None]

#: Where an entry is: its object, its record there, and its number in that.
Place = tuple[str, int, int]


def place_of(row: Row) -> Place:
    """Where a log row is."""
    return row.object, row.record, row.entry


#: A change of a table without a key that its transaction numbers: the table, its transaction, its number there, the position
#: and the operation.
Numbered = tuple[str | None, str, int, str, str]


@dataclass
class Copies:
    """Equal changes of a table without a key at one position: all of one delivery are real."""

    most: int = 0
    """How many the delivery has that has most of them."""
    now: int = 0
    """How many of this delivery were told of."""
    last: int | None = None
    """The number of the last of them in its transaction."""

    def is_new(self, number: int | None) -> bool:
        """Whether one more of them is there, and none of another delivery: each numbers its changes upwards."""
        if self.last is None or number is None or number <= self.last:
            self.now = 0
        self.now, self.last = self.now + 1, number
        if self.now <= self.most:
            return False
        self.most = self.now
        return True


@dataclass(kw_only=True)
class Fates:
    """What is known of some of a feed's log rows."""

    state: FeedState
    """What the feed has published."""
    counted: Collection[Place]
    """Those that are part of a table, or were before it was emptied."""
    kept: Mapping[Place, str]
    """Those in quarantine, and why."""
    waiting: Collection[Place]
    """Those that wait for metadata."""
    lacks: Mapping[str, str]
    """Of their transactions, those that are held, and what each lacks."""
    rolled_back: Collection[str]
    """Of their transactions, those that the source rolled back."""
    numbered: bool = True
    """Whether their numbers are the changes' own (:func:`tidemark.changelog.folded_log.numbers_changes`)."""
    seen: set[Same] = field(default_factory=set)
    """The changes that were told of."""
    copies: dict[Same, Copies] = field(default_factory=dict)
    """Of those without a key."""
    images: dict[Numbered, int] = field(default_factory=dict)
    """Of those that their transaction numbers, what the first one says."""

    def of(self, row: Row, table: str | None) -> str:
        """What became of a change of a published table. ``row``: ENTRY, ``hour``, ``tx``, ``position``, ``op``, ``key`` (as
        JSON), ``published``; where it may have no key, ``images`` (a hash) and ``tx_ordinal``. Of the same change, the first
        that is asked for is applied, and the others are duplicates."""
        place = place_of(row)
        if row.published and place in self.counted:
            return self._counted(row, table)
        # A replay gives an entry the hour's new version: as of an earlier cut, only the quarantine tells that it was there.
        if place in self.kept:
            return f"{KEPT}: {self.kept[place]}"
        if not row.published:
            return LATER if self.state.has(row.hour) else UNPUBLISHED
        if place in self.waiting:
            return f"{HELD}: it waits for metadata"
        if row.tx in self.rolled_back:
            return ROLLED_BACK
        return f"{HELD}: it lacks {self.lacks[row.tx]}" if row.tx in self.lacks else ANOTHER

    def _counted(self, row: Row, table: str | None) -> str:
        change: Same = table, row.position, row.op, row.images if row.key is None else row.key
        if row.key is None and self._is_other(row, table):
            new = False
        elif row.key is None:
            new = self.copies.setdefault(change, Copies()).is_new(row.tx_ordinal)
        else:
            new = change not in self.seen
            self.seen.add(change)
        if not new:
            return DUPLICATE
        known = self.state.table(table or "")
        ended = emptied_below(self.state, known.sources, known.truncated)
        if ended is None or row.op == "truncate" or row.position >= ended:
            return APPLIED
        return f"{GONE}: the table was emptied at {ended}"

    def _is_other(self, row: Row, table: str | None) -> bool:
        """See :func:`tidemark.fold.keyless.other_content`."""
        if not self.numbered or row.tx is None or row.tx_ordinal is None:
            return False
        numbered = table, row.tx, row.tx_ordinal, row.position, row.op
        return bool(self.images.setdefault(numbered, row.images) != row.images)


def read_fates(log: TableLog, rows: Sequence[Row], counted: Collection[Place]) -> Fates:
    """What became of log rows (ENTRY, ``tx``), of which these are ``counted``; why others are not is read with Spark."""
    spark, feed, state = log.spark, log.feed.feed, log.state
    others = [(*place_of(row), row.tx) for row in rows if place_of(row) not in counted]
    fates = Fates(
        state=state, counted=counted, kept={}, waiting=(), lacks={}, rolled_back=(), numbered=numbers_changes(log.feed)
    )
    if not others:
        return fates
    entries = F.broadcast(spark.createDataFrame(others, "object string, record bigint, entry int, tx string"))
    names = entries.select("tx").distinct()
    kept = kept_back(spark, feed, state).join(entries, ENTRY, "left_semi").select(*ENTRY, "reason")
    fates.kept = {place_of(row): row.reason for row in kept.collect()}
    if (waits := waiting_entries(spark, feed, state)) is not None:
        fates.waiting = {place_of(row) for row in waits.join(entries, ENTRY, "left_semi").select(*ENTRY).collect()}
    if (held := held_transactions(spark, feed, state)) is not None:
        found = held.join(names, "tx", "left_semi").collect()
        fates.lacks = {row.tx: missing_parts(row.asDict()) for row in found}
    if (gone := rolled_back(tied_log(spark, log.feed, state), state)) is not None:
        fates.rolled_back = {row.tx for row in gone.join(names, "tx", "left_semi").collect()}
    return fates
