"""The images of an IBM change-data record: its values under the names the feed declares, without what was not sent.

The header's identifier may say that a row holds invalid character data: bytes that could not be converted to the
message's code page. In its HEX form every character column of the row is the hexadecimal of its bytes, in the code page
of the source; where that is not known, or they are no text in it, the column counts as not sent. In the NULL form
character columns were sent as null because they could not be sent. LOB and XML columns are sent as null in both. Graphic
columns are taken as sent in the first form, since nothing says whether they count as character columns, and as not sent
in the second: a stored value is kept rather than lost.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.containers.code_pages import CodePage, is_text, text_of
from tidemark.containers.ibm_records import Layout
from tidemark.formats.ibm.fields import HEADER, value
from tidemark.formats.ibm.types import is_time

_INVALID = r"^IBM-INVALID-COLUMN-(\d{1,5})-?([AB])-(HEX|NULL)\z"


def fits(width: Column) -> Column:
    """Whether a record has two values, before and after, for each of ``width`` columns."""
    fields = F.size("tokens") - HEADER
    # The manual's diagram ends a record with a column delimiter, its samples do not: both are taken.
    return (fields == 2 * width) | ((fields == 2 * width + 1) & (F.element_at("tokens", -1) == ""))


def with_images(rows: DataFrame, layout: Layout, source: CodePage | None) -> DataFrame:
    """Adds the images, and the columns that the notes and the rules of :mod:`tidemark.formats.ibm.problems` read.
    ``source``: the code page of the source's character data.

    `before_image`, `after_image` (column to text), `image` (the one that holds the row: after, or before of a DLET);
    `values` is null where a record's fields do not fit its table.
    """
    c, width = F.col, F.size("names")
    values = F.transform(F.slice("tokens", HEADER + 1, 2 * width), lambda token: value(token, layout))
    with_values = (
        rows.withColumn("form", F.regexp_extract("identifier", _INVALID, 3))
        .withColumn("sent", F.when(c("whole") & fits(width), values))
        .withColumn("hex", F.when(c("form") == "HEX", F.filter("sent", _of_character_columns)))
        .withColumn("bad_hex", _any(c("hex"), lambda sent: ~sent.rlike(r"^(?:[0-9A-Fa-f]{2})*\z")))
        .withColumn("values", F.when(c("form") == "HEX", _from_hex(source)).otherwise(c("sent")))
        .withColumn("unread", F.when(c("form") == "HEX", F.filter("names", _is_unread)))
        .withColumn("lost", _families_not_sent())
    )
    first, second = F.lit(1), width + 1
    return (
        with_values.withColumn("has_before", _holds_a_value(F.slice("sent", first, width)))
        .withColumn("has_after", _holds_a_value(F.slice("sent", second, width)))
        # A REPL whose before values are all null: they were not captured.
        .withColumn("before_image", F.when((c("kind") != "REPL") | c("has_before"), _image(first)))
        .withColumn("after_image", _image(second))
        .withColumn("image", F.when(c("kind") == "DLET", c("before_image")).otherwise(c("after_image")))
    )


def _holds_a_value(values: Column) -> Column:
    return F.array_max(values).isNotNull()


def _any(values: Column, wrong: Callable[[Column], Column]) -> Column:
    """Whether a value that is not null is so; false where there are none."""
    return F.coalesce(F.size(F.filter(values, lambda sent: sent.isNotNull() & wrong(sent))) > 0, F.lit(False))


def _is_character(index: Column) -> Column:
    return F.get("families", index % F.size("names")) == "character"


def _of_character_columns(sent: Column, index: Column) -> Column:
    return sent.isNotNull() & _is_character(index)


def _from_hex(source: CodePage | None) -> Column:
    """The values of a row in the HEX form; null for those that cannot be read."""

    def decoded(sent: Column, index: Column) -> Column:
        return F.when(~_is_character(index) | (sent == ""), sent).otherwise(_text_or_null(F.unhex(sent), source))

    return F.transform("sent", decoded)


def _text_or_null(raw: Column, page: CodePage | None) -> Column:
    if page is None:
        return F.lit(None).cast("string")
    text = text_of(raw, page)
    return F.when(is_text(raw, text, page), text)


def _is_unread(name: Column, index: Column) -> Column:
    """Whether a column was sent in an image of the row, and cannot be read."""
    before, after = (
        F.get("sent", at).isNotNull() & F.get("values", at).isNull() for at in (index, index + F.size("names"))
    )
    return before | after


def _families_not_sent() -> Column:
    """The families of columns whose nulls were not sent; null for an ordinary record."""
    form = F.col("form")
    return F.when(form == "HEX", F.array(F.lit("lob"))).when(
        form == "NULL", F.array(F.lit("lob"), F.lit("character"), F.lit("graphic"))
    )


def _image(first: Column) -> Column:
    """The image whose values begin at the ``first``, without the columns that were not sent."""
    width, c = F.size("names"), F.col
    values, sent = (F.slice(name, first, width) for name in ("values", "sent"))
    columns = F.arrays_zip(
        c("names").alias("name"), c("families").alias("family"), values.alias("value"), sent.alias("sent")
    )
    there = F.filter(
        columns,
        lambda x: x["value"].isNotNull() | (x["sent"].isNull() & ~F.array_contains(c("lost"), x["family"])),
    )
    partial = F.map_from_entries(F.transform(there, lambda x: F.struct(x["name"], x["value"])))
    return F.when(c("lost").isNull(), F.map_from_arrays("names", values)).otherwise(partial)


def key_of(image: Column) -> Column:
    """The values of the key columns in an image, in the order of `keys`."""
    return F.transform("keys", lambda name: F.try_element_at(image, name))


def lacks_key(image: Column) -> Column:
    """Whether a key column was not sent."""
    lacking = F.coalesce(F.size(F.array_except("keys", F.map_keys(image))) > 0, F.lit(True))
    return F.when(F.col("lost").isNotNull(), lacking).otherwise(image.isNull())  # every column has its value


def not_sent(image: str = "image") -> Column:
    """The columns that the row's image lacks."""
    return F.when(F.col("lost").isNotNull(), F.array_except("names", F.map_keys(image))).otherwise(F.array())


def notes(source_page: str | None) -> Column:
    """Flags for people: values that were decoded in a special way, and values that are impossible. ``source_page``: the
    name of the source's code page."""
    c = F.col
    side = F.when(F.regexp_extract("identifier", _INVALID, 2) == "A", " (after)").otherwise(" (before)")
    column = F.concat(F.regexp_extract("identifier", _INVALID, 1).cast("int").cast("string"), side)
    odd = F.filter("times", lambda name: ~is_time(F.try_element_at(c("image"), name)))
    unread = F.array_join("unread", ", ")
    why = f" is no text in {source_page}" if source_page else ": the feed does not name the source's code page"
    flags = F.array(
        F.when(c("form") == "HEX", F.concat(F.lit("hexadecimal of the source's bytes, column "), column)),
        F.when(F.size("unread") > 0, F.concat(F.lit(f"taken as not sent, for its hexadecimal{why}: "), unread)),
        F.when(c("form") == "NULL", F.concat(F.lit("character data not sent, column "), column)),
        F.when(
            c("committed_at").isNull(),
            F.concat(F.lit("impossible commit time "), F.coalesce("commit_time", F.lit("null"))),
        ),
    )
    found = F.array_compact(
        F.concat(flags, F.transform(odd, lambda name: F.concat(F.lit("impossible time in "), name)))
    )
    nothing = (c("form") == "") & c("committed_at").isNotNull() & (F.size("times") == 0)
    return F.when(nothing, F.array().cast("array<string>")).otherwise(found)
