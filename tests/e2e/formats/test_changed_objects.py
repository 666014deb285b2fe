"""An object of an hour that lands again, with messages more: its messages mean what they meant beside the hour's other
objects, which do not land again."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.convergence import canal
from tests.convergence.canal import TOPICS
from tests.convergence.histories import KEYLESS
from tests.convergence.wire import Format
from tests.e2e.change_exports import HOURS
from tidemark.feeds.model import Feed
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit import audit
from tidemark.operations.read_table import read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export

pytestmark = [pytest.mark.promise(1, 2), pytest.mark.full]


def test_equal_rows_of_a_batch_stay_as_many(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """A batch of four messages with two rows each, all equal, of which one object holds two and a later one the others."""
    name, form = "objects", Format("canal", canal, "kafka_json")
    feed = Feed.model_validate(form.feed(name, str(tmp_path)))

    def run(*objects: list[Message]) -> Receipt:
        write_export(tmp_path, TOPICS[0], HOURS[0], list(objects), form.container)
        return run_hour(feed, HOURS[0], settings)

    def copies() -> int:
        return len(read_snapshot(settings, f"{name}.{KEYLESS}")[0].to_pylist())

    first = [inserted(1, batch=1), inserted(2, batch=2), inserted(4, batch=2)]
    second = [inserted(0, batch=1), inserted(3, batch=2), inserted(5, batch=2)]
    run(first)
    assert copies() == 6
    run(first, second)
    assert copies() == 12
    receipt = run(first, [*second, inserted(6, batch=3)])
    assert (copies(), receipt.landed + receipt.split, receipt.counts.applied) == (14, 20, 14)
    assert audit(feed, settings).findings == []


def inserted(offset: int, *, batch: int) -> Message:
    """A message with a row twice, the same in all of them."""
    millis, row = 1_795_132_800_000, {"id": "1", "n": "1", "s": "same", "big": None}
    value = {
        "database": "c", "table": KEYLESS, "type": "INSERT", "es": millis, "ts": millis, "id": batch, "isDdl": False,
        "sql": "", "data": [row, row], "old": None, "pkNames": None, "mysqlType": canal._COLUMNS,
    }  # fmt: skip
    return Message(
        topic=TOPICS[0], partition=0, offset=offset, sent_at=datetime(2026, 11, 20), key=None,
        value=json.dumps(value).encode(),
    )  # fmt: skip
