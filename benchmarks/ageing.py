"""What an hour costs as a feed gets older, and what it takes to explain a row: ``python -m benchmarks.ageing history``, and
``late`` and ``explain`` in its place.

*history*: two feeds have published the same first hour; the state and the receipts of one say that it was the hundredth,
those of the other that it was the ten thousandth. Then each publishes some hours more, in turn. The last line, ``history
RATIO``, is an hour of the old feed against one of the young, in CPU seconds; the one before it says how many Spark jobs each
took.

*late*: the tables of two feeds, and their change logs, are given many rows. Then pairs of hours are published, of ten keys
each, the second of a pair before the first. The last line, ``late RATIO``, is an hour that comes late against one in order,
of the larger table; the one before it is an hour in order of the larger table against one of the smaller.

*explain*: a feed has published a month of hours, over which the inserts of a large table are spread, and has been maintained.
Then rows of it are explained, each of another hour. The last line, ``explain SECONDS``, is the median, on the clock, in a
session that is warm.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import yaml
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.late import event, feed_of, write
from benchmarks.measure import measure
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import TIDEMARK
from tidemark.lake.session import full_name, open_session
from tidemark.ledger.change_log import changes_table
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.publication_history import load_receipt
from tidemark.ledger.state_store import load_state, save_state
from tidemark.operations.explain_row import Explanation, explain_row
from tidemark.operations.key_index import index_keys
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

HOME = Path(__file__).resolve().parent.parent
CACHE = HOME / ".tidemark/bench-ageing"
FIRST = Hour("2026-11-20T00")
YOUNG, OLD = 100, 10_000
#: Hours over which a table is spread that is explained.
MONTH = 720
#: Hours that warm the JVM up.
WARM_UPS = 4
#: Keys of a first hour that is multiplied.
TEMPLATES = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("history", "late", "explain"), help="what grows as the feed gets older")
    parser.add_argument("--hours", type=int, default=10, help="measured hours of each kind; explain: measured rows")
    parser.add_argument("--rows", type=int, nargs=2, default=(200_000, 20_000_000), help="late: of the two tables")
    parser.add_argument("--explained", type=int, default=10_000_000, help="explain: rows of the table")
    parser.add_argument("--keys", type=int, default=10, help="late: changes of an hour")
    options = parser.parse_args()
    shutil.rmtree(CACHE, ignore_errors=True)
    settings = Settings(home=HOME, lake=str(CACHE / "lake"), driver_memory="4g", spark_master="local[2]")
    spark = open_session(settings, "benchmark")
    if options.what == "history":
        found = measure_history(spark, options.hours, settings)
    elif options.what == "late":
        found = measure_late(spark, options.hours, options.rows, options.keys, settings)
    else:
        found = measure_explain(spark, options.hours, options.explained, settings)
    sys.stdout.write(f"{options.what} {found:.2f}\n")
    return 0


def measure_history(spark: SparkSession, measured: int, settings: Settings) -> float:
    """An hour of the old feed against one of the young."""
    console, hours = Console(), [FIRST.plus(number) for number in range(WARM_UPS + measured + 1)]
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
    console.print(
        f"Spark jobs of an hour: {sorted(set(jobs[YOUNG]))} after {YOUNG}, {sorted(set(jobs[OLD]))} after {OLD}"
    )
    return _over(cpu[OLD][WARM_UPS:], cpu[YOUNG][WARM_UPS:])


def measure_late(spark: SparkSession, measured: int, sizes: Sequence[int], keys: int, settings: Settings) -> float:
    """A late hour against one in order, of the larger table."""
    console, rng = Console(), Random(7)
    hours = [FIRST.plus(number) for number in range(2 * (WARM_UPS + measured) + 1)]
    write(hours[0], (event("c", key, 1) for key in range(TEMPLATES)), CACHE)
    for number, hour in enumerate(hours[1:], 11):
        write(hour, (event("u", key, number) for key in sorted(rng.sample(range(min(sizes)), keys))), CACHE)
    feeds = {rows: feed_of(f"of_{rows}", CACHE) for rows in sizes}
    for rows, feed in feeds.items():
        run_hour(feed, hours[0], settings)
        cost = measure(lambda feed=feed, rows=rows: grow(spark, feed, rows))  # type: ignore[misc]
        console.print(f"made {rows:,} rows: {cost.cpu:.0f} CPU s")
    cpu: dict[tuple[int, str], list[float]] = {(rows, which): [] for rows in sizes for which in ("in order", "late")}
    for late, in_order in zip(hours[1::2], hours[2::2], strict=True):
        for rows, feed in feeds.items():
            for which, hour in (("in order", in_order), ("late", late)):
                before = _jobs(spark)
                cost = measure(lambda feed=feed, hour=hour: run_hour(feed, hour, settings))  # type: ignore[misc]
                cpu[rows, which].append(cost.cpu)
                jobs = _jobs(spark) - before
                console.print(f"{hour} of {rows:,} rows, {which}: {cost.cpu:.2f} CPU s, {jobs} Spark jobs")
    measured_cpu = {of: costs[WARM_UPS:] for of, costs in cpu.items()}
    small, large = sizes
    late_of_small = _over(measured_cpu[small, "late"], measured_cpu[small, "in order"])
    larger = _over(measured_cpu[large, "in order"], measured_cpu[small, "in order"])
    console.print(f"of {small:,} rows, late against in order: {late_of_small:.2f}")
    console.print(f"in order, {large:,} rows against {small:,}: {larger:.2f}")
    return _over(measured_cpu[large, "late"], measured_cpu[large, "in order"])


def measure_explain(spark: SparkSession, measured: int, rows: int, settings: Settings) -> float:
    """Seconds to explain a row, the median."""
    console, rng, feed = Console(), Random(7), feed_of("explained", CACHE)
    write(FIRST, (event("c", key, 1) for key in range(TEMPLATES)), CACHE)
    run_hour(feed, FIRST, settings)
    grow_old(spark, feed, MONTH, settings)
    cost = measure(lambda: grow(spark, feed, rows, [FIRST.plus(-number) for number in range(MONTH)]))
    console.print(f"made {rows:,} rows of {MONTH} hours: {cost.cpu:.0f} CPU s")
    cost = measure(lambda: index_keys(spark, feed, load_state(settings, feed.feed)))
    console.print(f"indexed their keys: {cost.cpu:.0f} CPU s")
    spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]  # what was only there to make them goes
    (CACHE / "feeds").mkdir()
    (CACHE / "feeds/explained.yaml").write_text(yaml.safe_dump(feed.model_dump(mode="json", exclude_unset=True)))
    settings, seconds = settings.model_copy(update={"feeds": CACHE / "feeds"}), []
    told: list[Explanation] = []
    for key in (*rng.sample(range(rows), WARM_UPS), *rng.sample(range(rows), measured)):
        cost = measure(lambda key=key: told.append(explain_row(settings, f"{feed.feed}.items", [str(key)])))  # type: ignore[misc]
        assert [(one.op, one.fate) for one in told[-1].changes] == [("insert", "applied")] and told[-1].given
        seconds.append(cost.wall)
        console.print(f"row {key}: {cost.wall:.2f} s, {cost.cpu:.2f} CPU s")
    return median(seconds[WARM_UPS:])


def grow(spark: SparkSession, feed: Feed, rows: int, hours: Sequence[Hour] = (FIRST,)) -> None:
    """Give the table of a feed that has published its first hour so many rows, and its change log their inserts, each like
    that of a key below :data:`TEMPLATES`, spread over ``hours``."""
    log, table = changes_table(feed.feed), full_name(feed.feed, "items")
    more = spark.range(TEMPLATES, rows, 1, 8).withColumnRenamed("id", "new")
    like, new = (F.col("new") % TEMPLATES), F.col("new")

    def at(position: Column) -> Column:
        """Behind that of the key that it is like: as long as every other."""
        return F.concat(F.substring(position, 1, 29), F.lpad(new.cast("string"), 12, "0"))

    def numbered(image: str) -> Column:
        return F.transform_values(image, lambda name, text: F.when(name == "id", new.cast("string")).otherwise(text))

    inserts = spark.table(log).where("after is not null")
    images = {name: numbered(name) for name in ("key", "after")}
    landed = F.element_at(F.array(*map(F.lit, hours)), (F.hash("new") % len(hours) + len(hours)) % len(hours) + 1)
    places = {"position": at(F.col("position")), "record": F.col("record") + new, "hour": landed}
    logged = more.join(F.broadcast(inserts), like == F.col("after")["id"].cast("bigint")).withColumns(images | places)
    logged.select(*inserts.columns).repartition(8, "hour").sortWithinPartitions("hour").writeTo(log).append()
    sort_key = F.concat(at(F.substring_index(f"{TIDEMARK}.sort_key", "#", 1)), F.lit("#1"))
    stamp = F.col(TIDEMARK).withField("sort_key", sort_key).withField("base_sort_key", sort_key)
    stored = spark.table(table)
    made = more.join(F.broadcast(stored), like == F.col("id")).withColumns({"id": new, TIDEMARK: stamp})
    made.select(*stored.columns).writeTo(table).append()


def _over(costs: Sequence[float], others: Sequence[float]) -> float:
    """The median of the ratios, round by round."""
    return median(one / other for one, other in zip(costs, others, strict=True))


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
    save_state(settings, old.model_copy(update={"revision": now.revision, "rows": now.rows}))


def _jobs(spark: SparkSession) -> int:
    """How many jobs Spark has begun so far."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


if __name__ == "__main__":
    sys.exit(main())
