"""The same exports read by two feeds: one whose file was wrong at first, and one whose file was right from the start."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.receipts import Receipt
from tidemark.pipeline.hour import replay_hour, run_hour
from tidemark.settings import Settings
from tidemark.tables.published_table import PublishedTable

Row = dict[str, Any]


class FeedPair:
    """Exports of one topic ``t`` and the two feeds that read them. Tables: ``<feed>.<table>``."""

    def __init__(self, name: str, exports: Path, spark: SparkSession, settings: Settings, **usual: Any) -> None:
        self.fixed, self.right = f"{name}_fixed", f"{name}_right"
        self._exports, self._spark, self._settings, self._usual = exports, spark, settings, usual

    def export(self, hour: str, records: Sequence[Row | bytes], topic: str = "t") -> None:
        """One more object of the hour."""
        folder = self._exports / f"{topic}/dt={Hour.parse(hour).date}/hr={Hour.parse(hour).clock}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        part = folder / f"part-{len(list(folder.iterdir()))}.jsonl.gz"
        part.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))

    def feed(self, name: str, **changes: Any) -> Feed:
        """The feed of this name; ``changes`` of its keys."""
        definition = {
            "feed": name, "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": f"{self._exports}/{{topic}}/dt={{date}}/hr={{hour}}/*", "marker": None, "settle": "0s",
                        "missing": "empty"},
            "container": {"type": "kafka_json"}, **self._usual, **changes,
        }  # fmt: skip
        definition["tables"] = {
            source: {"name": f"{name}.{source.split('.')[1].lower()}", **table}
            for source, table in definition["tables"].items()
        }
        return Feed.model_validate(definition)

    def run(self, hour: str, **changes: Any) -> Receipt:
        """The hour by the feed whose file is fixed later."""
        return run_hour(self.feed(self.fixed, **changes), hour, self._settings)

    def replay(self, hour: str, **changes: Any) -> Receipt | None:
        """Replay the hour by the fixed feed."""
        return replay_hour(self.feed(self.fixed, **changes), hour, self._settings)

    def run_right(self, hours: Sequence[str], **changes: Any) -> None:
        """The hours by the feed that was right from the start."""
        for hour in hours:
            run_hour(self.feed(self.right, **changes), hour, self._settings)

    def rows(self, feed: str, table: str) -> list[Row]:
        """What is published, with each row's sort key and what nobody has sent of it yet."""
        published = PublishedTable(self._spark, f"{feed}.{table}", feed)
        rows = published.read().select(
            *published.columns(),
            F.col(f"{TIDEMARK}.sort_key").alias("sort_key"),
            F.col(f"{TIDEMARK}.absent").alias("absent"),
        )
        return sorted((row.asDict(recursive=True) for row in rows.collect()), key=lambda row: str(row))

    def account(self, feed: str) -> dict[str, Row]:
        """What the newest receipt of each hour says became of the records."""
        published = load_history(self._settings, feed)
        accounts = {}
        for hour in published.hours:
            receipt = published.of_hour(hour)
            assert receipt is not None
            receipt.balance()
            counts = receipt.counts
            accounts[hour] = {
                "landed": receipt.landed, "split": receipt.split, "control": receipt.control, "held": receipt.held,
                "quarantined": receipt.quarantined,
                # what counts as late depends on what is published by then
                "in tables": counts.applied + counts.duplicate + counts.superseded,
            }  # fmt: skip
        return accounts

    def same(self, *tables: str) -> None:
        """Assert that both feeds have come to the same tables and accounts."""
        for table in tables:
            right = self.rows(self.right, table)
            assert right, table
            assert self.rows(self.fixed, table) == right, table
        assert self.account(self.fixed) == self.account(self.right)
