"""Which entries of the change log are part of a table's snapshot, and which columns they carry."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.unit.changelog.published import (
    NEXT_HOUR,
    PUBLISHED_HOUR,
    SOURCE,
    TABLE,
    make_feed,
    published,
    write_log,
    write_system_rows,
)
from tidemark.changelog.table_history import Definitions
from tidemark.changelog.table_log import TableLog


def test_what_is_published_of_a_table(spark: SparkSession) -> None:
    feed = make_feed(spark, "unit_table_log")
    image = {"id": "1", "a": "x"}
    change = {"position": "20", "key": {"id": "1"}, "after": image}
    write_log(
        spark,
        feed.feed,
        [
            {"record": 1, **change},
            {"record": 2, **change, "table": "old.name"},
            {"record": 3, **change, "table": "pub.other", "source_table": "s.other"},
            {"record": 4, **change, "hour": str(NEXT_HOUR), "after": {"id": "1", "later": "x"}},
            {"record": 5, **change, "version": 2},
            {"record": 6, **change, "op": "control"},
            {"record": 7, **change, "tx": "open", "after": {"id": "1", "held": "x"}},
            {"record": 8, **change, "after": {"id": "1", "refused": "x"}},
            {"record": 9, **change},
            {"record": 10, **change},
            {"record": 11, **change, "tx": "back", "after": {"id": "1", "taken_back": "x"}},
            {"record": 12, "op": "control", "tx": "back", "tx_end": True, "tx_rollback": True},
            {"record": 13, **change, "position": "03", "after": {"id": "1", "older": "x"}},
            {"record": 14, "op": "truncate", "position": "05"},
            {"record": 15, **change, "tx": "whole"},
            {"record": 16, "op": "truncate", "position": "07"},
            {"record": 17, **change, "after": {"id": "1", "undescribed": "x"}},
            {"record": 18, "op": "truncate", "position": "09", "tx": "open"},
        ],
    )
    write_system_rows(spark, feed.feed, "held", 1, [{"tx": "open", "hours": [str(PUBLISHED_HOUR)]}])
    write_system_rows(spark, feed.feed, "waiting", 1, [{"object": "o", "record": 17, "entry": 0}])
    write_system_rows(
        spark,
        feed.feed,
        "quarantine",
        1,
        [
            {"stage": "screen", "object": "o", "record": 8, "entry": 0, "change": "{}"},
            {"stage": "decode", "object": "o", "record": 9, "entry": 0},
            {"stage": "transaction", "object": "o", "record": 16, "entry": 0, "change": "{}"},
        ],
    )
    # Of a publication that is still being made.
    write_system_rows(spark, feed.feed, "quarantine", 2, [{"object": "o", "record": 10, "entry": 0, "change": "{}"}])
    state = published(feed.feed, held_transactions=1, waiting_entries=1, waiting_since=1, rollbacks=1, bad=1, refused=2)
    log = TableLog(
        spark=spark, feed=feed, state=state,
        definitions=Definitions(), table=TABLE, sources=(SOURCE,),
    )  # fmt: skip
    rows = log.rows("05")
    assert rows.columns == log.columns()
    found = rows.select("record", "landed_this_hour").collect()
    assert sorted(row.record for row in found) == [1, 2, 9, 10, 15]
    assert not any(row.landed_this_hour for row in found)
    assert 13 in {row.record for row in log.rows(None).collect()}
    assert sorted(map(sorted, log.carried().columns)) == [["a", "id"], ["id", "older"]]
    assert log.newest_truncate() == "05", "of what counts"
