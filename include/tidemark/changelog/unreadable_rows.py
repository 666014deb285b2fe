"""Rows that the change log has under a type of before, with a text that is no value of the type that their column has now.

No row is left out, and none is shown without its value: a table that would have to be made of such rows stops. A feed that
had declared the type from the start would have such a change in quarantine.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.changelog.folded_log import fold_keyed, fold_keyless, keyed_log_rows
from tidemark.errors import SchemaError
from tidemark.feeds.model import Feed
from tidemark.fold.typed_rows import TableShape, in_one_notation, unreadable_in
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import record_place


def sends_unreadable(shape: TableShape) -> Column:
    """Whether a log row, its texts in one notation, brings a row with a text that is no value of its column's type."""
    return F.col("op").isin("insert", "update") & (unreadable_in(shape, F.col("after")) != "")


def refuse_unreadable_rows(shape: TableShape, log_rows: DataFrame, feed: Feed, table: str, state: FeedState) -> None:
    """SchemaError where rows that are there by all of a table's log rows hold a text that is none of its column's type.
    ``state``: what has published them."""
    if shape.key:
        rows = keyed_log_rows(shape, log_rows, state).localCheckpoint()
        settled = fold_keyed(shape, rows, rows.select("key").distinct().localCheckpoint(), "")
    else:
        settled = fold_keyless(shape, log_rows, feed, state, "")
    refuse_unreadable(settled, shape, log_rows, feed, table)


def refuse_unreadable(settled: DataFrame, shape: TableShape, log_rows: DataFrame, feed: Feed, table: str) -> None:
    """SchemaError where SETTLED rows that are made of the log rows have ``unreadable`` columns: it names those of the first
    such row, and how many rows have the same."""
    first_name = F.substring_index("unreadable", ", ", 1)
    sent_at = F.coalesce(F.try_element_at("tidemark.newer", first_name), "tidemark.base_sort_key")
    # Behind the position a sort key has what kind of change it is, or the copy's image and number.
    position = F.regexp_replace(sent_at, "#[^#]*$" if shape.key else "#[^#]*#[^#]*$", "")
    of_columns = settled.where("unreadable <> ''").groupBy("unreadable")
    found = of_columns.agg(F.count(F.lit(1)), F.min(position)).orderBy("unreadable").first()
    if found is None:
        return
    names, count, first = found
    rows = in_one_notation(log_rows.where(F.col("position") == first), shape).where(sends_unreadable(shape))
    record = rows.orderBy("object", "record").select(record_place()).first()
    kinds = ", ".join(dict.fromkeys(shape.columns[name].spark for name in names.split(", ") if name in shape.columns))
    raise SchemaError(
        f"column {names}: {count} {'row' if count == 1 else 'rows'} of before would be read as {kinds}, and cannot be: the "
        f"text is no such value{f'; the first is in {record[0]}' if record else ''}",
        fix="declare a type that holds these texts too. Or let the feed file be as it was, have the source correct these "
        "rows, and declare the type once that is published",
        feed=feed.feed,
        table=table,
    )
