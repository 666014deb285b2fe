"""An hour's part of the change log is replaced by whoever read it last, and by nobody who stood still since."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidemark.errors import ConflictError
from tidemark.feeds.model import Feed
from tidemark.ledger.change_log import changes_table, create_log, is_decoded, log_snapshot, write_hour
from tidemark.settings import Settings

FEED, HOUR, OTHER = "unit_change_log", "2026-11-20T07", "2026-11-20T08"
FILE = Feed.model_validate(
    {
        "feed": FEED, "description": "d", "owner": "o", "topics": ["t"], "exports": {"path": "x/{date}/{hour}/*"},
        "container": {"type": "kafka_json"}, "format": {"type": "debezium"},
    }
)  # fmt: skip


def test_who_read_before_another_has_replaced_it_is_refused(spark: SparkSession, settings: Settings) -> None:
    def entries(hour: str, version: int) -> DataFrame:
        schema = spark.table(changes_table(FEED)).schema
        values = {"hour": hour, "version": version, "op": "insert", "record": version}
        return spark.createDataFrame([tuple(values.get(name) for name in schema.names)], schema)

    def held() -> list[tuple[str, int]]:
        rows = spark.table(changes_table(FEED)).select("hour", "version").collect()
        return sorted((row.hour, row.version) for row in rows)

    assert log_snapshot(spark, FEED) is None
    create_log(spark, FEED)
    before_all = log_snapshot(spark, FEED)
    write_hour(entries(HOUR, 1), FILE, HOUR, 1, before_all)
    stale = log_snapshot(spark, FEED)
    write_hour(entries(HOUR, 2), FILE, HOUR, 2, stale)
    for since in (before_all, stale):
        with pytest.raises(ConflictError, match="another run has written the same rows meanwhile"):
            write_hour(entries(HOUR, 1), FILE, HOUR, 1, since)
    assert held() == [(HOUR, 2)]
    write_hour(entries(OTHER, 1), FILE, OTHER, 1, stale)
    assert held() == [(HOUR, 2), (OTHER, 1)], "hours do not hinder each other"
    write_hour(entries(HOUR, 3), FILE, HOUR, 3, log_snapshot(spark, FEED))
    assert held() == [(HOUR, 3), (OTHER, 1)]

    known = [
        (hour, version) for hour in (HOUR, OTHER) for version in (1, 2, 3) if is_decoded(settings, FILE, hour, version)
    ]
    assert known == [(HOUR, 3), (OTHER, 1)]
    assert not is_decoded(settings, FILE.model_copy(update={"undeclared": "quarantine"}), HOUR, 3), "by another file"
