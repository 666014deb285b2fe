"""What an hour costs as a feed gets older: ``python -m benchmarks.ageing history``.

Two feeds have published the same first hour; the state and the receipts of one say that it was the hundredth, those of the
other that it was the ten thousandth. Then each publishes some hours more, in turn. The last line, ``history RATIO``, is an
hour of the old feed against one of the young, in CPU seconds; the one before it says how many Spark jobs each took.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.late import event, feed_of, write
from benchmarks.measure import measure
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.session import full_name, open_session
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import load_receipt
from tidemark.ledger.state_store import load_state, save_state
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

HOME = Path(__file__).resolve().parent.parent
CACHE = HOME / ".tidemark/bench-ageing"
FIRST = Hour("2026-11-20T00")
YOUNG, OLD = 100, 10_000
#: Hours that warm the JVM up.
WARM_UPS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("history",), help="what grows as the feed gets older")
    parser.add_argument("--hours", type=int, default=10, help="measured hours of each feed")
    options = parser.parse_args()
    shutil.rmtree(CACHE, ignore_errors=True)
    settings = Settings(home=HOME, lake=str(CACHE / "lake"), driver_memory="2g", spark_master="local[2]")
    spark, console = open_session(settings, "benchmark"), Console()
    hours = [FIRST.plus(number) for number in range(WARM_UPS + options.hours + 1)]
    for number, hour in enumerate(hours):
        write(hour, events(number), CACHE)
    feeds = {published: feed_of(f"after_{published}", CACHE) for published in (YOUNG, OLD)}
    for published, feed in feeds.items():
        run_hour(feed, FIRST, settings)
        grow_old(spark, feed, published, settings)
    cpu: dict[int, list[float]] = {published: [] for published in feeds}
    jobs: dict[int, list[int]] = {published: [] for published in feeds}
    for hour in hours[1:]:
        for published, feed in feeds.items():
            before = _jobs(spark)
            cost = measure(lambda feed=feed, hour=hour: run_hour(feed, hour, settings))  # type: ignore[misc]
            cpu[published].append(cost.cpu)
            jobs[published].append(_jobs(spark) - before)
            console.print(f"{hour} after {published} hours: {cost.cpu:.2f} CPU s, {jobs[published][-1]} Spark jobs")
    ratios = [old / young for old, young in zip(cpu[OLD][WARM_UPS:], cpu[YOUNG][WARM_UPS:], strict=True)]
    console.print(
        f"Spark jobs of an hour: {sorted(set(jobs[YOUNG]))} after {YOUNG}, {sorted(set(jobs[OLD]))} after {OLD}"
    )
    sys.stdout.write(f"history {median(ratios):.2f}\n")
    return 0


def events(number: int) -> Iterator[dict[str, Any]]:
    """An hour's changes: new rows, and one of the hour before changed."""
    for key in range(200):
        yield event("c", number * 200 + key, number + 1)
    if number:
        yield event("u", number * 200 - 1, number + 1)


def grow_old(spark: SparkSession, feed: Feed, published: int, settings: Settings) -> None:
    """Have the feed's state and receipts say that its one hour follows so many others, one after the other."""
    receipt = load_receipt(settings, feed.feed, FIRST)
    assert receipt is not None
    table = full_name("tidemark", "receipts")
    fields = [name for name in spark.table(table).columns if name not in ("hour", "sequence", "receipt")]
    of_feed = spark.table(table).where(F.col("feed") == feed.feed).select(*fields)
    listed = [
        receipt.model_copy(update={"hour": FIRST.plus(number - published), "sequence": number, "cut_by": number})
        for number in range(1, published + 1)
    ]
    rows = [(one.hour, one.sequence, one.model_dump_json()) for one in listed]
    receipts = spark.createDataFrame(rows, "hour string, sequence bigint, receipt string").crossJoin(of_feed)
    receipts.select(*spark.table(table).columns).coalesce(1).writeTo(table).overwrite(F.col("feed") == feed.feed)
    now = load_state(settings, feed.feed)
    old = FeedState.of(feed.feed, listed)
    save_state(settings, old.model_copy(update={"revision": now.revision, "rows_written": now.rows_written}))


def _jobs(spark: SparkSession) -> int:
    """How many jobs Spark has begun so far."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


if __name__ == "__main__":
    sys.exit(main())
