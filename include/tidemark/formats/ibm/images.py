"""The images of an IBM change-data record: its values under the names the feed declares, without what was not sent.

The header's identifier may say that a row holds invalid character data. In its HEX form every character column of the
row is the hexadecimal of its bytes; in its NULL form character columns were sent as null because they could not be
sent. LOB and XML columns are sent as null in both. Graphic columns are taken as sent in the first form, since nothing
says whether they count as character columns, and as not sent in the second: a stored value is kept rather than lost.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.ibm_records import Layout, is_text, text_of
from tidemark.formats.ibm.types import is_time

_HEADER = 12
_INVALID = r"^IBM-INVALID-COLUMN-(\d{1,5})-?([AB])-(HEX|NULL)$"


def value(token: Column, layout: Layout) -> Column:
    """A field's value: nothing between two delimiters is null, two string delimiters are the empty string."""
    quote = layout.string_delimiter
    inside = F.substring(token, F.lit(2), F.length(token) - 2)
    undoubled = F.replace(inside, F.lit(quote * 2), F.lit(quote))
    return F.when(token != "", F.when(token.startswith(quote), undoubled).otherwise(token))


def fits(width: Column) -> Column:
    """Whether a record has two values, before and after, for each of ``width`` columns."""
    fields = F.size("tokens") - _HEADER
    # The manual's diagram ends a record with a column delimiter, its samples do not: both are taken.
    return (fields == 2 * width) | ((fields == 2 * width + 1) & (F.element_at("tokens", -1) == ""))


def with_images(rows: DataFrame, layout: Layout) -> DataFrame:
    """Adds the images, and the columns that the notes and the rules of :mod:`tidemark.formats.ibm.problems` read.

    `before_image`, `after_image` (column to text), `image` (the one that holds the row: after, or before of a DLET);
    `values` is null where a record's fields do not fit its table.
    """
    c, width = F.col, F.size("names")
    values = F.transform(F.slice("tokens", _HEADER + 1, 2 * width), lambda token: value(token, layout))
    with_values = (
        rows.withColumn("form", F.regexp_extract("identifier", _INVALID, 3))
        .withColumn("sent", F.when(c("whole") & fits(width), values))
        .withColumn("hex", F.when(c("form") == "HEX", F.filter("sent", _of_character_columns)))
        .withColumn("bad_hex", _any(c("hex"), lambda sent: ~sent.rlike("^(?:[0-9A-Fa-f]{2})*$")))
        .withColumn("bad_text", _any(c("hex"), lambda sent: ~is_text(F.unhex(sent), layout.page)))
        .withColumn("values", F.when(c("form") == "HEX", _from_hex(layout)).otherwise(c("sent")))
        .withColumn("lost", _families_not_sent())
    )
    before, after = F.slice("values", 1, width), F.slice("values", width + 1, width)
    return (
        with_values.withColumn("has_before", _holds_a_value(before))
        .withColumn("has_after", _holds_a_value(after))
        # A REPL whose before values are all null: they were not captured.
        .withColumn("before_image", F.when((c("kind") != "REPL") | c("has_before"), _image(before)))
        .withColumn("after_image", _image(after))
        .withColumn("image", F.when(c("kind") == "DLET", c("before_image")).otherwise(c("after_image")))
    )


def _holds_a_value(values: Column) -> Column:
    return F.coalesce(F.exists(values, lambda sent: sent.isNotNull()), F.lit(False))


def _any(values: Column, wrong: Callable[[Column], Column]) -> Column:
    """Whether a value that is not null is so; false where there are none."""
    return F.coalesce(F.size(F.filter(values, lambda sent: sent.isNotNull() & wrong(sent))) > 0, F.lit(False))


def _is_character(index: Column) -> Column:
    return F.get("families", index % F.size("names")) == "character"


def _of_character_columns(sent: Column, index: Column) -> Column:
    return sent.isNotNull() & _is_character(index)


def _from_hex(layout: Layout) -> Column:
    def decoded(sent: Column, index: Column) -> Column:
        return F.when(_is_character(index), text_of(F.unhex(sent), layout.page)).otherwise(sent)

    return F.transform("sent", decoded)


def _families_not_sent() -> Column:
    """The families of columns whose nulls were not sent; null for an ordinary record."""
    form = F.col("form")
    return F.when(form == "HEX", F.array(F.lit("lob"))).when(
        form == "NULL", F.array(F.lit("lob"), F.lit("character"), F.lit("graphic"))
    )


def _image(values: Column) -> Column:
    columns = F.arrays_zip(F.col("names").alias("name"), F.col("families").alias("family"), values.alias("value"))
    sent = F.filter(columns, lambda x: x["value"].isNotNull() | ~F.array_contains(F.col("lost"), x["family"]))
    partial = F.map_from_entries(F.transform(sent, lambda x: F.struct(x["name"], x["value"])))
    return F.when(F.col("lost").isNull(), F.map_from_arrays("names", values)).otherwise(partial)


def key_of(image: Column) -> Column:
    """The values of the key columns in an image, in the order of `keys`."""
    return F.transform("keys", lambda name: F.try_element_at(image, name))


def lacks_key(image: Column) -> Column:
    """Whether a key column was not sent."""
    sent = F.when(F.col("lost").isNotNull(), F.map_keys(image)).otherwise(F.when(image.isNotNull(), F.col("names")))
    return F.coalesce(F.size(F.array_except("keys", sent)) > 0, F.lit(True))


def not_sent() -> Column:
    """The columns that the row's image lacks."""
    return F.when(F.col("lost").isNotNull(), F.array_except("names", F.map_keys("image"))).otherwise(F.array())


def notes() -> Column:
    """Flags for people: values that were decoded in a special way, and values that are impossible."""
    c = F.col
    side = F.when(F.regexp_extract("identifier", _INVALID, 2) == "A", " (after)").otherwise(" (before)")
    column = F.concat(F.regexp_extract("identifier", _INVALID, 1).cast("int").cast("string"), side)
    odd = F.filter("times", lambda name: ~is_time(F.try_element_at(c("image"), name)))
    flags = F.array(
        F.when(c("form") == "HEX", F.concat(F.lit("hex-decoded column "), column)),
        F.when(c("bad_text"), F.lit("hexadecimal that is no text in the code page: U+FFFD in its place")),
        F.when(c("form") == "NULL", F.concat(F.lit("character data not sent, column "), column)),
        F.when(
            c("committed_at").isNull(),
            F.concat(F.lit("impossible commit time "), F.coalesce("commit_time", F.lit("null"))),
        ),
    )
    return F.array_compact(F.concat(flags, F.transform(odd, lambda name: F.concat(F.lit("impossible time in "), name))))
