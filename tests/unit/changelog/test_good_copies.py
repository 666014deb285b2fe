"""Which refused changes break their transaction, or the other half of their key change: those without a good copy."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.formats.ibm_messages import feed
from tidemark.changelog.good_copies import without_good_copy
from tidemark.feeds.model import Feed
from tidemark.ledger.feed_state import FeedState

COLUMNS = (
    "object string, record bigint, entry int, tx string, op string, source_table string, position string, tx_part string, "
    "tx_ordinal bigint, tx_count bigint, tx_end boolean, hour string, `table` string"
)
#: An entry: its transaction, operation, position, part and number; its table is named by the part's first letter.
Said = tuple[str | None, str, str | None, str | None, int | None]
END: Said = ("x", "control", None, None, None)
BAD, OTHER, COPY = ("x", "update", "1", "a1", 1), ("x", "insert", "2", "b2", 2), ("x", "update", "1", "a1", 1)

POSTGRES = Feed.model_validate(
    {
        "feed": "f", "description": "-", "owner": "-", "topics": ["t", "tx"],
        "exports": {"path": "{topic}/{date}/{hour}/*"}, "container": {"type": "kafka_json"},
        "format": {"type": "debezium", "transactions": "tx"},
    }
)  # fmt: skip


def entry(number: int, said: Said) -> tuple[Any, ...]:
    tx, op, position, part, ordinal = said
    ends = op == "control"
    table = None if part is None or op == "bad" else part[0]
    return ("o", number, 0, tx, op, table, position, part, ordinal, 2 if ends else None, ends, "h", table)


@pytest.mark.parametrize(
    ("refused", "good", "broken"),
    [
        pytest.param([BAD], [OTHER, END], True, id="there is none"),
        pytest.param([BAD], [OTHER, END, COPY], False, id="there is one"),
        pytest.param([BAD, OTHER], [END, COPY], True, id="of one of two"),
        pytest.param([BAD, OTHER], [END, COPY, OTHER], False, id="of both"),
        pytest.param([BAD, COPY], [OTHER, END, COPY], False, id="of two that are refused"),
        pytest.param([BAD], [OTHER, COPY], True, id="its end has not come"),
        pytest.param([BAD], [END, COPY], True, id="it lacks another change"),
        pytest.param([BAD], [OTHER, END, ("y", *COPY[1:])], True, id="of another transaction"),
        pytest.param([BAD], [OTHER, END, ("x", "update", "1", "c1", 1)], True, id="of another table"),
        pytest.param([BAD], [OTHER, END, ("x", "delete", "1", "a1", 1)], True, id="another operation"),
        pytest.param(
            [("x", "update", "1", "a1 none", 1)], [OTHER, END, COPY], False, id="its key was none, and is another now"
        ),
        pytest.param(
            [("x", "insert", "2", "b2 none", 1)], [OTHER, END], True, id="its place is that of another change, too"
        ),
        pytest.param([("x", "bad", "1", None, None)], [OTHER, END, COPY], False, id="of a record, by its position"),
        pytest.param([("x", "bad", None, "a1|1", 1)], [OTHER, END, COPY], False, id="of a record, by its number"),
        pytest.param([("x", "bad", "1", "a1|1", 1)], [OTHER, END, COPY], False, id="of a record, by both"),
        pytest.param(
            [("x", "bad", "0", "a0|1", 1)], [OTHER, END, COPY], True, id="its number is that of another change, too"
        ),
        pytest.param(
            [("x", "bad", "1", "a1|3", 3)], [OTHER, END, COPY], True, id="its position is that of its other half, too"
        ),
        pytest.param([("x", "bad", None, "a1|1", 3)], [OTHER, END, COPY], True, id="of a record with another number"),
        pytest.param(
            [("x", "bad", None, "a1|1", 1)], [END, COPY], True, id="a record is no part of it beside its copy"
        ),
        pytest.param([(None, *BAD[1:])], [(None, *COPY[1:])], False, id="in no transaction"),
        pytest.param([(None, *BAD[1:])], [(None, *OTHER[1:])], True, id="in no transaction, another change"),
    ],
)
def test_a_refused_change_without_a_good_copy_breaks_its_transaction(
    spark: SparkSession, refused: list[Said], good: list[Said], broken: bool
) -> None:
    rows = [entry(number, said) for number, said in enumerate([*refused, *good])]
    entries = spark.createDataFrame(rows, COLUMNS)
    is_refused = F.col("record") < len(refused)
    found = without_good_copy(
        entries.where(is_refused), entries.where(~is_refused), feed({"type": "raw"}), FeedState(feed="f"), ""
    )
    assert {row.record for row in found.collect()} == (set(range(len(refused))) if broken else set())


def test_where_deliveries_are_told_apart_none_takes_the_place_of_another(spark: SparkSession) -> None:
    entries = spark.createDataFrame([entry(0, BAD), entry(1, COPY), entry(2, OTHER), entry(3, END)], COLUMNS)
    is_refused = F.col("record") == 0
    found = without_good_copy(
        entries.where(is_refused), entries.where(~is_refused), feed({"type": "kafka_json"}), FeedState(feed="f"), ""
    )
    assert found.count() == 1


def test_a_copy_that_was_sent_at_another_place_is_a_good_one(spark: SparkSession) -> None:
    """PostgreSQL's first transaction after a snapshot: where the connector was started again in it, an event names the commit
    before it first and then none. What the hour refuses stands behind the snapshot."""

    def at(*lsns: int) -> str:
        return ".".join(f"{lsn:020d}" for lsn in lsns)

    for op in ("update", "bad"):
        for of_refused, of_copy, broken in (
            (at(5, 7), at(7, 7, 7), False),
            (at(7, 7, 7), at(5, 7), False),
            (at(9, 9, 7), at(7, 7, 7), False),
            (at(9, 9, 7), at(8, 8, 8), True),
        ):
            refused = entry(0, ("x", op, of_refused, "a1" if op == "update" else None, None))
            good = entry(1, ("x", "update", of_copy, "a1", 1)), entry(2, ("x", "insert", at(6, 6, 6), "b2", 2))
            entries = spark.createDataFrame([refused, *good, entry(3, END)], COLUMNS)
            is_refused = F.col("record") == 0
            found = without_good_copy(
                entries.where(is_refused), entries.where(~is_refused), POSTGRES, FeedState(feed="f"), at(9) + "~"
            )
            assert found.count() == broken, (op, of_refused, of_copy)
