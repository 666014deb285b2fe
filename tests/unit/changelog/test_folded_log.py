"""Which log rows of a table without a key are a change of before that says something else now."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.unit.formats.ibm_messages import feed as ibm
from tests.unit.formats.qlik_messages import feed as qlik
from tidemark.changelog.folded_log import with_other_content
from tidemark.feeds.model import Feed
from tidemark.ledger.feed_state import FeedState

COLUMNS = (
    "hour string, version int, object string, record bigint, entry int, tx string, tx_ordinal bigint, position string, "
    "op string, before map<string, string>, after map<string, string>"
)


@pytest.mark.parametrize(
    ("feed", "others"),
    [
        pytest.param(qlik(), [2], id="the number of a change"),
        pytest.param(ibm({"type": "raw"}), [], id="the number of a segment, which may hold others when it comes again"),
    ],
)
def test_a_change_is_told_by_its_number_where_that_is_its_own(
    spark: SparkSession, feed: Feed, others: list[int]
) -> None:
    place = ("7", 2, "5.00002.000000", "insert", None)
    rows = [("2026-11-20T00", 1, "o", number, 0, *place, {"n": str(number)}) for number in (1, 2)]
    marked = with_other_content(spark.createDataFrame(rows, COLUMNS), feed, FeedState(feed="f"))
    assert [row.record for row in marked.where("other_content").collect()] == others
