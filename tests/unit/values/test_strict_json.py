"""A text that is not one JSON object and nothing more is broken, wherever it is spoilt."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from tidemark.values.strict_json import NOT_UTF_8, broken, is_broken, one_document

KIND = "struct<a: bigint, b: string, c: struct<x: boolean>, l: array<string>>"
#: What may stand behind a document that was cut, joined to another one or carried on.
BEHIND = ("}", "]", ",", "{}", ' {"a":2}', ',{"a":2}', "x", "//x", "#", '"', "null", "\x00", "0", ":", "}{")


def parsed(
    spark: SparkSession, texts: list[str | None], *, exact: bool = False
) -> list[tuple[bool, dict[str, Any] | None]]:
    """Of each text: whether it is broken, and what was read of it."""
    frame = spark.createDataFrame(list(enumerate(texts)), "i int, text string")
    found = frame.select("i", one_document(F.col("text"), KIND, exact=exact).alias("v"))
    rows = found.select("i", is_broken(F.col("v")).alias("broken"), "v.d").orderBy("i").collect()
    return [(row.broken, row.d and row.d.asDict(recursive=True)) for row in rows]


def document(pick: random.Random) -> dict[str, Any]:
    """An object with some of the fields, and with others."""
    whole = {
        "a": pick.choice((0, -1, 2**63 - 1, None)),
        "b": pick.choice(("", "x", '"}', '{"a":1}', ',"closed":0}', "é\n\\", None)),
        "c": pick.choice(({"x": True}, {}, {"x": None, "y": [1]}, None)),
        "l": pick.choice(([], ["x", None, "]"], None)),
        "other": pick.choice((1.5, {"a": "no number"}, [[]], "closed")),
        "closed": pick.choice((0, 1, None, {})),
    }
    return {name: whole[name] for name in pick.sample(sorted(whole), pick.randrange(len(whole) + 1))}


def is_one_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("exact", [False, True])
def test_a_document_is_read_and_what_is_spoilt_is_broken(spark: SparkSession, exact: bool) -> None:
    pick = random.Random(20261120)
    good = [document(pick) for _ in range(150)]
    spaced = [pick.choice(("", " ", "\n", "\r\n\t")) for _ in range(300)]
    whole = [f"{spaced[2 * i]}{json.dumps(one)}{spaced[2 * i + 1]}" for i, one in enumerate(good)]
    cut = [text[: pick.randrange(len(text))] for text in whole for _ in range(3)]
    longer = [text + behind for text in whole[:40] for behind in BEHIND]
    before = [front + text for text in whole[:40] for front in ("x", "{", "[", '"', "{}", "\ufeff", "1 ")]
    texts = [*whole, *cut, *longer, *before]
    found = parsed(spark, [*texts], exact=exact)
    assert [not broken for broken, _ in found] == [is_one_object(text) for text in texts]
    for (_, read), sent in zip(found, good, strict=False):
        assert read is not None
        assert (read["a"], read["b"], read["l"]) == (sent.get("a"), sent.get("b"), sent.get("l"))
        assert (read["c"] or {}).get("x") == (sent.get("c") or {}).get("x")


NO_OBJECTS = (
    None, "", " ", "null", "true", "1", '"x"', "[]", '[{"a":1}]',
    '{"a":"1"}', '{"a":1.5}', '{"a":9223372036854775808}', '{"a":{}}', '{"a":NaN}', '{"c":1}', '{"c":{"x":1}}',
    '{"c":{"x":"true"}}', '{"l":{}}', '{"a":01}', '{"a":1,}', '{a:1}', '{"b":"\x01"}',
)  # fmt: skip


@pytest.mark.parametrize("exact", [False, True])
def test_what_is_no_object_of_these_fields_is_broken(spark: SparkSession, exact: bool) -> None:
    found = parsed(spark, list(NO_OBJECTS), exact=exact)
    whole = [text for text, (broken, _) in zip(NO_OBJECTS, found, strict=True) if not broken]
    assert whole == []


def beside_keys(spark: SparkSession, keys: Sequence[str | None]) -> list[Row]:
    """What is read of a good text beside each of the keys: ``k``, ``a`` and ``broken``."""
    frame = spark.createDataFrame([(i, key, '{"a":7}') for i, key in enumerate(keys)], "i int, key string, text string")
    found = frame.select("i", one_document(F.col("text"), KIND, F.col("key")).alias("v"))
    return found.orderBy("i").select("v.k", "v.d.a", is_broken(F.col("v")).alias("broken")).collect()


#: Keys, and what is read of them.
KEYS: dict[str | None, dict[str, str] | None] = {
    '{"id":1,"day":"x"}': {"id": "1", "day": "x"},
    ' {"id":12345678901234567890}\n': {"id": "12345678901234567890"},
    "{}": {},
    None: None,
    "": None,
    "17": None,
    "[1]": None,
    '{"id":': None,
}


def test_a_key_is_read_with_the_text(spark: SparkSession) -> None:
    found = beside_keys(spark, list(KEYS))
    assert [(row.k, row.a, row.broken) for row in found] == [(read, 7, False) for read in KEYS.values()]


def test_a_broken_key_makes_the_document_broken(spark: SparkSession) -> None:
    keys = ['{"id":1}}', '{"id"}', '{{"id":1}', '{"id":1} {"id":2}']
    assert [key for key, row in zip(keys, beside_keys(spark, keys), strict=True) if not row.broken] == []


def test_nothing_in_a_key_stands_for_the_text(spark: SparkSession) -> None:
    (row,) = beside_keys(spark, ['{},"d":{"a":9},"x":{}'])
    assert row.a == 7


#: A text in JSON whose escapes are whole characters, and what it says.
WHOLE = {
    r"\ud83d\ude00\uD83D\uDE01": "\U0001f600\U0001f601",
    r"\\ud83d": r"\ud83d",
    r"\\\\ud83d": r"\\ud83d",
    r"\\\ud83d\ude00": "\\\U0001f600",
    r"\ud7ff\ue000 \u0075d83d": "\ud7ff\ue000 ud83d",
    "\\\\" * 400_000 + r"\ud83d\ude00": "\\" * 400_000 + "\U0001f600",
}
HALVES = [
    r"\ud83d", r"\UD83D\uD83D".replace("U", "u", 1), r"\ude00", r"\ude00\ud83d", r"\ud83d\ud83d\ude00", r"\ud83d\ude00\ude00",
    r"\ud83d \ude00", r"\ud83d\\ude00", r"\\ud83d\ude00", r"\\\ud83d", r"\ud83d\n\ude00", "x" * 800_000 + r"\udBff",
]  # fmt: skip


def test_an_escape_of_half_a_character_is_no_text(spark: SparkSession) -> None:
    texts = [*WHOLE, *HALVES]
    frame = spark.createDataFrame(list(enumerate(f'{{"b":"{text}"}}' for text in texts)), "i int, text string")
    found = frame.select("i", one_document(F.col("text"), KIND).alias("v")).select(
        "*", broken(F.col("v"), "other").alias("why")
    )
    rows = {row.i: (row.why, row.v.d and row.v.d.b) for row in found.collect()}
    read = dict(zip(texts, (rows[i] for i in range(len(texts))), strict=True))
    assert read == {text: (None, said) for text, said in WHOLE.items()} | dict.fromkeys(HALVES, (NOT_UTF_8, None))


LONG = '\\\\\\"\\n' * 200_000
#: A number in a place of a document, and what is read there.
EXACT: dict[str, tuple[str, Any]] = {
    "a text": ('{"b": 1.50}', "1.50"),
    "an exponent": ('{"b":1E+400 }', "1E+400"),
    "a negative zero": ('{"b":-0}', "-0"),
    "sixty digits": (f'{{"b":{"7" * 60}}}', "7" * 60),
    "behind texts like numbers": ('{"x":"\\\\", "y": ":1.50,", "z":",\\" 2.50 ,","b":1.50}', "1.50"),
    "inside JSON": ('{"b":{"x":[1.50, "1.50", {"y":2e5}]}}', '{"x":[1.50,"1.50",{"y":2e5}]}'),
    "behind a long text": (f'{{"x":"{LONG}","b":1.50}}', "1.50"),
    "beside what JSON does not know": ('{"x":-Infinity,"y":NaN,"b":1.50}', "1.50"),
    "no number": ('{"x":1.50,"b":"1.50"}', "1.50"),
    "beside another mark": ('{"x":1.50,"b":"\\ufffe"}', "\ufffe"),
}


def test_numbers_are_read_as_they_were_sent(spark: SparkSession) -> None:
    found = parsed(spark, [text for text, _ in EXACT.values()], exact=True)
    read = {name: row and row["b"] for name, (_, row) in zip(EXACT, found, strict=True)}
    assert read == {name: value for name, (_, value) in EXACT.items()}


def test_what_holds_the_mark_of_numbers_is_broken_not_another_text(spark: SparkSession) -> None:
    texts: list[str | None] = ['{"b":"\uffff1.5","x":1.50}', '{"b":"\\uFFFF1.5","x":1.50}']
    assert [broken for broken, _ in parsed(spark, texts, exact=True)] == [True, True]
