"""What log rows come to, folded without regard to what is stored: rows as a table, or the cut of one, should have them."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.fold import keyless
from tidemark.fold.colliding_keys import colliding_keys
from tidemark.fold.fold_rows import fold
from tidemark.fold.key_changes import with_ancestors
from tidemark.fold.owed_copies import match_owed
from tidemark.fold.typed_rows import TableShape, in_one_notation, key_is_whole, keyed_rows, settle
from tidemark.formats import load_format
from tidemark.formats.contract import MarksLoads, SharesPositions, TellsDeliveries
from tidemark.ledger.change_log import published_by
from tidemark.ledger.feed_state import FeedState


def keyed_log_rows(shape: TableShape, log_rows: DataFrame, state: FeedState) -> DataFrame:
    """Log rows of a table with a key → ROWS that :func:`fold_keyed` takes. ``state``: what has published them."""
    rows = keyed_rows(log_rows, shape, expand=True, came=published_by(state)).where(key_is_whole(shape))
    return rows.withColumn("counts", F.lit(False))


def fold_keyed(shape: TableShape, rows: DataFrame, targets: DataFrame, hour: str) -> DataFrame:
    """SETTLED of the keys in ``targets``, from all ROWS of their table."""
    colliding = colliding_keys(rows, F.lit(False)).localCheckpoint()
    return settle(fold(with_ancestors(rows, targets, colliding, shape), partial=True), shape, hour, whole=True)


def fold_keyless(shape: TableShape, log_rows: DataFrame, feed: Feed, state: FeedState, hour: str) -> DataFrame:
    """SETTLED of a table without a key: one for each copy. ``state``: what has published its log rows."""
    rows = with_other_content(in_one_notation(log_rows, shape), feed, state).where("not other_content")
    every = keyless.effective(rows, shared_positions(feed))
    changes = every.drop("taken").localCheckpoint()
    images = keyless.copies(changes).localCheckpoint()
    if not images.where("lowest < 0").isEmpty():
        images = match_owed(every, images, shape)
    present = keyless.present_copies(keyless.added_copies(changes), images)
    return keyless.settle_copies(present, shape, hour, everything=True)


def with_other_content(rows: DataFrame, feed: Feed, state: FeedState) -> DataFrame:
    """Log rows of a table without a key, their texts in one notation, with ``other_content``
    (:func:`tidemark.fold.keyless.other_content`)."""
    other = keyless.other_content(published_by(state)) if numbers_changes(feed) else F.lit(False)
    return rows.withColumn("other_content", other)


def numbers_changes(feed: Feed) -> bool:
    """Whether the number of a log row in its transaction is the change's own. Where transactions come in parts of other sizes
    it is the part's: another row may stand at the same place of another part of that number."""
    return not isinstance(load_format(feed.format["type"]), TellsDeliveries)


def shared_positions(feed: Feed) -> keyless.SharedPositions | None:
    """Which log rows without a key of the feed share their positions with equal ones; None: a position names one change."""
    format_ = load_format(feed.format["type"])
    loads = None
    if isinstance(format_, MarksLoads):
        of_load = format_.of_load()
        loads = keyless.SharedPositions(shared=of_load, of_load=of_load, read=format_.read_of_load())
    if not isinstance(format_, SharesPositions):
        return loads
    shared = format_.shares_position(feed.format_options)
    if loads is None:
        return keyless.SharedPositions(shared=shared, begins_again=format_.begins_again)
    return replace(loads, shared=shared | loads.of_load, begins_again=format_.begins_again)
