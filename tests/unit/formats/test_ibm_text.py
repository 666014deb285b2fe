"""The text of IBM records: code pages, delimiters, declarations, and that any text comes back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.formats.ibm_messages import INSERT, MESSAGES, TABLES, feed, in_page, record, records_of
from tidemark.containers.code_pages import code_page, is_text, text_of
from tidemark.errors import ConfigError
from tidemark.formats.contract import CHANGES
from tidemark.formats.ibm import decode as ibm


def test_java_reads_what_the_code_pages_write(spark: SparkSession) -> None:
    printable = "".join(map(chr, range(0x20, 0x7F))) + "\n§éß¬"
    for name in ("utf-8", "latin-1", "cp037", "cp500", "cp1047", "cp1140"):
        page = code_page(name)
        raw = F.lit(in_page(printable, name))
        (row,) = (
            spark.range(1)
            .select(text_of(raw, page).alias("text"))
            .select("text", is_text(raw, F.col("text"), page))
            .collect()
        )
        assert tuple(row) == (printable, True), name


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"column_delimiter": '"'}, "must differ"),
        ({"decimal_character": ","}, "must differ"),
        ({"string_delimiter": "x"}, "a letter or digit"),
        ({"record_delimiter": "7"}, "a letter or digit"),
        ({"column_delimiter": "::"}, "exactly one character"),
        ({"column_delimiter": ""}, "exactly one character"),
        ({"column_delimiter": "§"}, "not one byte in utf-8"),
        ({"column_delimiter": "€", "code_page": "cp037"}, "not one byte in cp037"),
        ({"code_page": "klingon"}, "Known are utf-8, latin-1"),
        ({"source_code_page": "klingon"}, "Known are utf-8, latin-1"),
        ({"code_page": "943"}, "messages sent in another page, like 1208"),
        ({"code_page": "290", "column_delimiter": "¦"}, "not one byte in 290"),
        ({"code_page": "420", "string_delimiter": "^"}, "not one byte in 420"),
        ({"code_page": "939", "column_delimiter": "\x0e"}, "begins or ends two-byte characters in 939"),
        ({"code_page": "939", "record_delimiter": "|"}, "two-byte characters can hold its byte"),
        ({"delimiter": ";"}, "Extra inputs"),
    ],
)
def test_delimiters_that_cannot_be(options: dict[str, str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ibm.Options.model_validate(options)


@pytest.mark.parametrize(
    "name",
    [
        "UTF-8",
        "utf8",
        "IBM-1208",
        "cp037",
        "IBM037",
        "ibm-037",
        "37",
        "Cp1047",
        "CCSID 1141",
        "x-IBM939",
        "5026",
        "IBM-Thai",
        "cp00858",
        "IBM01140",
        "1140",
        "ISO-8859-1",
    ],
)
def test_code_pages_by_any_name(name: str) -> None:
    assert ibm.Options(code_page=name).page.java in {
        "UTF-8", "IBM037", "IBM1047", "IBM01140", "ISO-8859-1", "IBM01141", "x-IBM939", "x-IBM930", "IBM-Thai", "IBM00858",
    }  # fmt: skip


def test_declarations_that_cannot_be_used(spark: SparkSession) -> None:
    records = records_of(spark, {"x": INSERT.encode()})
    for tables, why in (
        ({"TEST.T": {"key": ["ID"]}}, "messages do not name columns"),
        ({"TEST.T": {"key": ["NO"], "columns": {"ID": "INTEGER"}}}, r"\['NO'\] are no columns"),
    ):
        with pytest.raises(ConfigError, match=why):
            ibm.decode(records, feed(MESSAGES, tables), ibm.Options())
    with pytest.raises(ConfigError, match="differ in column_delimiter"):
        ibm.decode(records, feed({"type": "raw", "column_delimiter": ";"}), ibm.Options())


def test_schema_is_the_contracts(spark: SparkSession) -> None:
    expected = [(field.name, field.dataType.simpleString()) for field in CHANGES]
    for tables in (TABLES, {}):
        assert ibm.decode(records_of(spark, {}), feed(MESSAGES, tables), ibm.Options()).dtypes == expected


# Text that is rich in what the format is made of.
_text = st.text(st.sampled_from("\",\n;'.|a1é“日\\ \x00") | st.characters(exclude_categories=["Cs"]), max_size=12)
_rows = st.lists(st.tuples(st.none() | _text, st.none() | _text), min_size=1, max_size=60)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(messages=st.lists(_rows, min_size=20, max_size=60))
def test_any_text_comes_back(spark: SparkSession, messages: list[list[tuple[str | None, str | None]]]) -> None:
    def field_(value: str | None) -> str:
        return "" if value is None else '"' + value.replace('"', '""') + '"'

    sent = {
        f"{i:04}": "\n".join(
            record("ISRT", f",,,,{n},{field_(a)},{field_(b)},") for n, (a, b) in enumerate(rows)
        ).encode()
        for i, rows in enumerate(messages)
    }
    changes = ibm.decode(records_of(spark, sent), feed(MESSAGES), ibm.Options())
    got: dict[str, list[tuple[str | None, str | None]]] = {name: [] for name in sent}
    for row in changes.orderBy("object", "entry").select("object", "problem", "after.NAME", "after.NOTE").collect():
        assert row.problem is None
        got[row.object].append((row.NAME, row.NOTE))
    assert list(got.values()) == messages
