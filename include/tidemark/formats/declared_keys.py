"""The key that the feed file declares for a table, of messages that name none of it or another one: the images of a change
hold it too, in formats whose images are whole."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.formats.contract import DeclaredFeed


def declared_key(feed: DeclaredFeed) -> Column | None:
    """The columns of the key that the feed file declares for a row's ``source_table``, null for another table; None: it
    declares no key."""
    keys = {table: key for table, declared in feed.tables.items() if (key := declared.key)}
    names = {table: F.array(*map(F.lit, key)) for table, key in keys.items()}
    return F.coalesce(*(F.when(F.col("source_table") == table, key) for table, key in names.items())) if names else None


def key_names(sent: Column, declared: Column | None, image: Column) -> Column:
    """The columns of a row's key: those that the message names (``sent``; null or empty: none), or the ``declared`` ones,
    where these are not among them and the row's ``image`` has them."""
    if declared is None:
        return sent
    lacks = F.size(F.array_except(declared, F.coalesce(sent, F.array().cast("array<string>")))) > 0
    in_image = F.size(F.array_except(declared, F.map_keys(image))) == 0
    return F.when(lacks & in_image, declared).otherwise(sent)
