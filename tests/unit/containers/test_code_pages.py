"""IBM's code pages: the lists against Java's own charsets, and records in mixed pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.containers import raw
from tidemark.containers.code_pages import code_page
from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed
from tidemark.formats.ibm import decode as ibm

MARKS = [chr(byte) for byte in range(0x20, 0x7F) if not chr(byte).isalnum()] + list("¢£¦§¬€")
MIXED = ("930", "933", "935", "937", "939", "1364")


def java_text(spark: SparkSession, page: str, content: bytes) -> str:
    return str(spark._jvm.java.lang.String(content, page))


def in_page(spark: SparkSession, page: str, text: str) -> bytes:
    """A text's bytes; a tab is written as X'25', the line feed of messages, for which Java writes X'15'."""
    encoded = spark._jvm.java.nio.charset.Charset.forName(page).encode(text)
    return bytes(encoded.array()[: encoded.limit()]).replace(b"\x05", b"\x25")


def ebcdic_of_java(spark: SparkSession) -> list[str]:
    """Java's charsets that write EBCDIC's digits and capitals, and have characters of one byte."""
    names = list(spark._jvm.java.nio.charset.Charset.availableCharsets().keySet())
    return [
        name for name in names if "ibm" in name.lower() and java_text(spark, name, b"\xc9\xc2\xd4\xf0\xf9") == "IBM09"
    ]


def test_every_ebcdic_page_of_java_is_known_and_where_its_marks_stand(spark: SparkSession) -> None:
    names = ebcdic_of_java(spark)
    assert len(names) > 40
    for name in names:
        page = code_page(name)
        assert (page.java, page.kind in ("ebcdic", "mixed")) == (name, True)
        text = java_text(spark, name, bytes(range(0x40, 0x100)))
        assert len(text) == 0xC0, name
        for char in [*MARKS, *"0123456789IBM"]:
            found = [chr(0x40 + at) for at, there in enumerate(text) if there == char]
            if found:
                assert [page.view(char)] == found, (name, char)
            else:
                with pytest.raises(ValueError, match="not known"):
                    page.view(char)
        assert java_text(spark, name, b"\x25") in ("\n", "\x85"), name
        assert page.view("\n\t\x1e") == "\x25\x05\x1e"


def test_pages_that_hold_ascii_do(spark: SparkSession) -> None:
    ascii_text = bytes(range(0x20, 0x7F))
    for number in (437, 737, 775, 813, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 869, 874, 912, 914, 915, 916,
                   920, 921, 922, 923, 1089, *range(1250, 1259), 819):  # fmt: skip
        page = code_page(f"ibm-{number}")
        assert page.kind == "ascii"
        assert java_text(spark, page.java, ascii_text) == ascii_text.decode() == page.view(ascii_text.decode()), number
        assert len(java_text(spark, page.java, bytes(range(256)))) == 256, number
    for number in (932, 942, 943, 948, 949, 950, 954, 964, 970, 1381, 1383, 1386):
        assert code_page(str(number)).kind == "source"
        assert spark._jvm.java.nio.charset.Charset.isSupported(code_page(str(number)).java), number


COLUMNS = {"ID": "INTEGER", "NAME": "VARCHAR(20)", "NOTE": "GRAPHIC(4)"}
# Wide characters whose bytes are those of the column delimiter X'6B', of the string delimiter X'7F', and of both.
COMMA, QUOTE = "\N{FULLWIDTH COMMA}", "\N{FULLWIDTH QUOTATION MARK}"
NAMES = [
    f'{COMMA}{QUOTE}"",',
    f"{QUOTE}",
    f"a{COMMA}{QUOTE}b{QUOTE}{QUOTE}{COMMA}",
    f"{QUOTE}\ttwo{COMMA}\t{QUOTE}",
    "",
]


def feed(container: dict[str, Any], options: dict[str, Any]) -> Feed:
    return Feed.model_validate(
        {
            "feed": "payroll", "description": "-", "owner": "-", "topics": ["t"],
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "container": container | options,
            "format": {"type": "ibm"} | options, "tables": {"TEST.T": {"key": ["ID"], "columns": COLUMNS}},
        }
    )  # fmt: skip


def record(number: int, name: str) -> str:
    return (
        '10,"IBM","2006181","182318000005","TEST","T","ISRT","0000:0000:0000:0000:0001","0000:0000:0000:0000:0001",'
        f'"2006-06-30-18.00.52",,0000,,,,{number},"{name}","{QUOTE}"'
    )


def one_message(spark: SparkSession, message: bytes) -> DataFrame:
    return spark.createDataFrame([("a", 1, message, "t", 0, 5, None, None, message, None, None)], RECORDS)


@pytest.mark.parametrize(
    ("page", "column_delimiter"),
    [
        *(pytest.param(page, ",", marks=() if page in ("930", "939") else pytest.mark.full) for page in MIXED),
        ("939", "|"),
    ],
)
def test_two_byte_characters_are_no_delimiters(
    spark: SparkSession, tmp_path: Path, page: str, column_delimiter: str
) -> None:
    java = code_page(page).java
    texts = [record(n, name).replace(",", column_delimiter) for n, name in enumerate(NAMES)]
    message = b"\x25".join(in_page(spark, java, text) for text in texts)
    assert message.count(b"\x6b\x42\x7f") > 1
    assert message.count(b"\x7f\x0f") > 2
    (tmp_path / "a.del").write_bytes(message + b"\x25" + message + b"\x25")
    given = {"code_page": page, "column_delimiter": column_delimiter}
    back_to_back = feed({"type": "raw"}, given)
    records = raw.read(spark, [str(tmp_path / "a.del")], back_to_back.container_options)
    rows = ibm.decode(records, back_to_back, back_to_back.format_options).orderBy("record", "entry").collect()
    wanted = [name.replace('""', '"').replace(",", column_delimiter).replace("\t", "\n") for name in NAMES]
    assert [(row.problem, row.after and row.after["NAME"]) for row in rows] == [(None, name) for name in wanted * 2]
    options = ibm.Options.model_validate(given)
    rows = ibm.decode(one_message(spark, message), feed({"type": "lines"}, {}), options).orderBy("entry").collect()
    assert [(row.problem, row.after and row.after["NAME"], row.entry) for row in rows] == [
        (None, name, entry) for entry, name in enumerate(wanted)
    ]
    assert {row.after["NOTE"] for row in rows} == {QUOTE}


def test_a_run_that_is_not_shifted_in_again_spoils_its_record_alone(spark: SparkSession, tmp_path: Path) -> None:
    java = code_page("939").java
    good = in_page(spark, java, record(1, QUOTE))
    shifted = good.replace(b"\x0e\x42\x7f\x0f\x7f\x6b", b"\x0e\x42\x7f\x7f\x6b", 1)
    odd = good.replace(b"\x0e\x42\x7f\x0f\x7f\x6b", b"\x0e\x42\x7f\x42\x0f\x7f\x6b", 1)
    assert len({good, shifted, odd}) == 3
    message = b"\x25".join([good, shifted, good, odd, good])
    (tmp_path / "a.del").write_bytes(message)
    one = feed({"type": "raw"}, {"code_page": "939"})
    records = raw.read(spark, [str(tmp_path / "a.del")], one.container_options)
    back_to_back = ibm.decode(records, one, one.format_options).orderBy("record")
    in_one = ibm.decode(one_message(spark, message), feed({"type": "lines"}, {}), one.format_options).orderBy("entry")
    for rows in (back_to_back.collect(), in_one.collect()):
        assert [row.op for row in rows] == ["insert", "bad", "insert", "bad", "insert"]
        assert {row.problem for row in rows if row.problem} == {"the record is not text in 939"}
