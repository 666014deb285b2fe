"""Why an IBM change-data record cannot be decoded, in words for the person who looks at the quarantine."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.containers.ibm_records import Layout

#: Quotation marks that word processors and web pages put in the place of ``"``.
_TYPOGRAPHIC = "[“”„‟«»]"
_SHOWN = 60


def problem(layout: Layout) -> Column:
    """The first thing that is wrong with a record, from the columns that :mod:`tidemark.formats.ibm.decode` makes of it.

    Null when nothing is: every rule that must hold before a record becomes a change is here.
    """
    rules = (*_of_text(layout), *_of_header(), *_of_values())
    return F.coalesce(*(F.when(F.coalesce(wrong, F.lit(True)), _text(why)) for wrong, why in rules))


_Rules = list[tuple[Column, Column | str]]


def _text(why: Column | str) -> Column:
    return F.lit(why) if isinstance(why, str) else why


def _of_text(layout: Layout) -> _Rules:
    text, quote = F.col("text"), layout.string_delimiter
    has_typographic = (F.octet_length(text) > F.length(text)) & text.rlike(_TYPOGRAPHIC)
    is_open = (F.length(text) - F.length(F.replace(text, F.lit(quote), F.lit("")))) % 2 == 1
    in_bare_value = F.exists("tokens", lambda token: ~token.startswith(quote) & token.rlike(_TYPOGRAPHIC))
    return [
        (F.col("own").isNull(), "the record is empty"),
        (~F.col("is_text"), f"the record is not text in {layout.code_page}"),
        (~F.col("typed"), "it does not begin with the header of a change-data record"),
        (
            has_typographic & (~F.col("whole") | in_bare_value),
            f"a typographic quotation mark stands where the string delimiter {quote} belongs",
        ),
        (~F.col("whole") & is_open, "a string is not closed: cut short, or a string delimiter inside it not doubled"),
        (~F.col("whole"), "a value goes on after its closing string delimiter: one inside the value is not doubled"),
        (text.endswith("\r"), "it ends in a carriage return: something changed the line ends on the way"),
    ]


def _of_header() -> _Rules:
    c = F.col
    known = (c("identifier") == "IBM") | (c("form") != "")
    operations = c("kind").isin("ISRT", "REPL", "DLET")
    fields = F.size("tokens").cast("string")
    return [
        (F.size("tokens") < 12, F.concat(F.lit("cut short: "), fields, F.lit(" of the 12 header fields"))),
        (~known, _not("identifier", "identifier", "IBM, or one of invalid character data")),
        (~operations, _not("operation", "kind", "ISRT, REPL or DLET")),
        (c("unit").isNull(), "the transaction identifier is not 5 to 8 groups of 4 hexadecimal digits"),
        (c("lsn").isNull(), "the commit LSN is not 5 to 8 groups of 4 hexadecimal digits"),
        (c("segment").isNull(), "the segment number is not 4 digits"),
        (c("source_table").isNull(), "the header names no table"),
    ]


def _of_values() -> _Rules:
    c = F.col
    table = F.substring("source_table", 1, _SHOWN)
    unknown = F.concat(F.lit("table "), table, F.lit(" is not in the feed file, and messages do not name columns"))
    widths = F.array_join(F.transform("widths", lambda width: width.cast("string")), " or ")
    fields = F.array_join(F.transform("widths", lambda width: (2 * width).cast("string")), " or ")
    misfit = F.concat(
        (F.size("tokens") - 12).cast("string"), F.lit(" values: "), table, F.lit(" has "), widths,
        F.lit(" columns in the feed file, so a record has "), fields,
    )  # fmt: skip
    mismatch = "the columns in the feed file are not the table's"
    return [
        (c("names").isNull(), unknown),
        (c("values").isNull(), misfit),
        ((c("kind") == "ISRT") & c("has_before"), f"an ISRT with before values: {mismatch}"),
        ((c("kind") == "DLET") & c("has_after"), f"a DLET with after values: {mismatch}"),
        (c("bad_hex"), "its identifier says that character columns are hexadecimal, and one is not"),
        (
            c("lacks_key") & (c("form") == "HEX"),
            "a key column is in hexadecimal, and `source_code_page` of the feed's format names no page in which it is text: "
            "nothing tells which row it is",
        ),
        (c("lacks_key"), "a key column was not sent, so nothing tells which row it is"),
        (
            c("lacks_column"),
            "the row holds invalid character data, so that not all columns were sent, and its table has no key: nothing "
            "tells which row it is",
        ),
        (
            c("no_before"),
            "its before values are all null, and its table has no key: either they were not sent (BEFORE_VALUES in "
            "IBMQREP_SUBS), or it was a row of nulls: nothing tells which row it is",
        ),
        (
            c("unseen"),
            "its table has no key, and a LOB, of which images before hold nothing: nothing tells which row it is",
        ),
    ]


def _not(name: str, column: str, allowed: str) -> Column:
    shown = F.coalesce(F.substring(column, 1, _SHOWN), F.lit("null"))
    return F.concat(F.lit(f"{name} "), shown, F.lit(f" is not {allowed}"))
