"""What log rows come to, folded without regard to what is stored: rows as a table, or the cut of one, should have them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.merge import keyless
from tidemark.merge.colliding_keys import colliding_keys
from tidemark.merge.fold import fold
from tidemark.merge.key_changes import with_ancestors
from tidemark.merge.typed_rows import TableShape, in_one_notation, key_is_whole, keyed_rows, settle


def keyed_log_rows(shape: TableShape, log_rows: DataFrame) -> DataFrame:
    """Log rows of a table with a key → ROWS that :func:`fold_keyed` takes."""
    rows = keyed_rows(log_rows, shape, expand=True).where(key_is_whole(shape))
    return rows.withColumn("counts", F.lit(False))


def fold_keyed(shape: TableShape, rows: DataFrame, targets: DataFrame, hour: str) -> DataFrame:
    """SETTLED of the keys in ``targets``, from all ROWS of their table."""
    colliding = colliding_keys(rows, F.lit(False)).localCheckpoint()
    return settle(fold(with_ancestors(rows, targets, colliding), partial=True), shape, hour, whole=True)


def fold_keyless(shape: TableShape, log_rows: DataFrame, hour: str) -> DataFrame:
    """SETTLED of a table without a key: one for each copy."""
    images = keyless.copies(keyless.effective(in_one_notation(log_rows, shape))).where("now > 0")
    return keyless.settle_copies(images, shape, hour)
