"""Tables that somebody has partitioned: ``ALTER TABLE … ADD PARTITION FIELD`` between two hours changes how they lie, not
what they hold."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import HOURS, event, row
from tests.e2e.one_table_feed import OneTableFeed, rows
from tidemark.lake.session import full_name
from tidemark.operations.audit import audit
from tidemark.operations.maintenance import maintain
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]


def test_a_table_may_be_partitioned_between_its_hours(
    run: OneTableFeed, settings: Settings, spark: SparkSession
) -> None:
    """In buckets of its key: hours in order, late and again, a key that moves from bucket to bucket, and maintenance."""
    run(HOURS[0], [event("c", 10 + number, row(number, number)) for number in range(20)])
    spark.sql(f"ALTER TABLE {full_name(*run.table.split('.'))} ADD PARTITION FIELD bucket(4, id)")
    run(HOURS[2], [event("u", 50, row(3, 33)), event("d", 51, None, key={"id": 4}), event("c", 52, row(70, 7))])
    run(HOURS[1], [event("u", 40, row(3, 30)), event("u", 41, row(5, 50)), event("c", 42, row(4, 4))])
    run(HOURS[3], [event("d", 60, None, key={"id": 6}), event("c", 61, row(600, 6)), event("u", 62, row(0, 9))])
    run(HOURS[2], [])
    kept = {number: number for number in range(20) if number not in (4, 6)}
    wanted = kept | {3: 33, 5: 50, 70: 7, 600: 6, 0: 9}
    assert {one["id"]: one["n"] for one in rows(settings, run)} == wanted
    files = spark.table(full_name(*run.table.split("."), "files")).select("partition").distinct().count()
    assert files > 2, "what is written lies in buckets"
    maintain(run.definition(), settings)
    assert {one["id"]: one["n"] for one in rows(settings, run)} == wanted
    assert [str(finding) for finding in audit(run.definition(), settings).findings] == []
