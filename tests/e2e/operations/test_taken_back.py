"""A table that somebody takes back to an older snapshot, as an audit advises: later hours bring all of it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, HOURS, event, line, row
from tests.e2e.feed_pair import FeedPair
from tidemark.lake.session import full_name
from tidemark.operations.audit import audit
from tidemark.operations.maintenance import maintain
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings

pytestmark = [pytest.mark.full, pytest.mark.promise(2)]

TABLES = {
    "s.items": {"columns": COLUMNS},
    "s.lines": {"columns": {"id": "bigint", "n": "int"}, "key": []},
    "s.folders": {"columns": COLUMNS},
}


def test_the_advice_of_the_audit_brings_a_table_back(tmp_path: Path, spark: SparkSession, settings: Settings) -> None:
    pair = FeedPair("tb", tmp_path, spark, settings, **DEBEZIUM, tables=TABLES)
    name, feed = pair.fixed, pair.feed(pair.fixed)
    of_folders = {"table": "folders"}
    for hour, records in {
        HOURS[0]: [event("c", 1, row(1, 1)), event("c", 2, row(2, 2)), line(3, 7), event("c", 4, row(1, 1), **of_folders)],
        HOURS[1]: [event("u", 11, row(1, 5)), event("d", 12, None, key={"id": 2}), event("c", 13, row(3, 3)), line(14, 7),
                   event("u", 15, row(1, 2), **of_folders)],
        HOURS[2]: [event("c", 22, row(4, 4)), line(23, 8)],
        HOURS[3]: [event("u", 32, row(4, 5)), line(33, 7, "d"), event("c", 34, row(2, 9), **of_folders)],
    }.items():  # fmt: skip
        pair.export(hour, records)
    pair.run_right(HOURS[:3])
    pair.run(HOURS[0])
    items = spark.table(full_name(name, "items"))
    items.where("id = 1").withColumn("id", F.lit(77)).writeTo(full_name(name, "items")).append()
    pair.run(HOURS[1])
    (finding,) = audit(feed, settings).findings
    assert "too many" in finding.found and f"rollback_to_snapshot('{name}.items'" in finding.fix

    for table in ("items", "lines", "folders"):
        (right,) = spark.sql(
            f"SELECT snapshot_id FROM {full_name(name, table)}.refs WHERE name = '{HOURS[0].tag}'"  # noqa: S608
        ).collect()
        spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}.{table}', {right[0]})")
    behind = [finding for finding in audit(feed, settings).findings if "readers see" in finding.found]
    assert len(behind) == 3 and all("set_current_snapshot" in finding.fix for finding in behind)
    receipt = pair.run(HOURS[2])
    assert {table.table for table in receipt.tables if "folded again from the change log" in "".join(table.warnings)} == {
        f"{name}.items", f"{name}.lines"
    }  # fmt: skip
    for table in ("items", "lines"):
        assert pair.rows(pair.fixed, table) == pair.rows(pair.right, table)
    shown = [list(json_lines(*read_snapshot(settings, f"{of}.folders", HOURS[2]))) for of in (pair.fixed, pair.right)]
    assert shown[0] == shown[1], "the cut of a table that the hour did not touch"

    maintain(feed, settings)
    pair.run_right(HOURS[3:4])
    receipt = pair.run(HOURS[3])
    assert [table.table for table in receipt.tables if table.warnings] == [f"{name}.folders"]
    pair.same("items", "lines", "folders")
    assert [finding for finding in audit(feed, settings).findings if finding.kind == "table"] == []


def test_a_column_that_somebody_drops_comes_back_with_its_values(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Also where the changes to come do not send it, in a table with a key and in one without."""
    pair = FeedPair("tc", tmp_path, spark, settings, **DEBEZIUM, tables=TABLES)
    name, feed = pair.fixed, pair.feed(pair.fixed)
    pair.export(HOURS[0], [event("c", 1, row(1, 1)), event("c", 2, row(2, 2)), line(3, 7)])
    pair.export(HOURS[1], [event("c", 11, row(3, 3)), line(14, 8)])
    pair.run_right(HOURS[:2])
    pair.run(HOURS[0])
    for table in ("items", "lines"):
        spark.sql(f"ALTER TABLE {full_name(name, table)} DROP COLUMN n")
    found = [finding.found for finding in audit(feed, settings).findings if finding.kind == "table"]
    assert [one for one in found if "are gone" in one] == 2 * ["columns that were published are gone: n"]
    receipt = pair.run(HOURS[1])
    assert all("columns of it had been dropped" in "".join(table.warnings) for table in receipt.tables)
    pair.same("items", "lines")
    assert [finding for finding in audit(feed, settings).findings if finding.kind == "table"] == []
