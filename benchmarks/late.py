"""What a late hour costs: ``python -m benchmarks.late``.

A feed's table has so many rows, each written in a first hour and again in a third. Then the second hour comes, late,
and touches a few keys, in a way that only folding their changes again can tell. Next to it: what running all hours again,
in order, would cost, which is what one would do without.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Cost, measure
from tidemark.feeds.model import Feed
from tidemark.hours import Hour, hours_between
from tidemark.lake.session import open_session
from tidemark.ledger.receipts import Receipt
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

HOME = Path(__file__).resolve().parent.parent
CACHE = HOME / ".tidemark/bench-late"
HOURS = hours_between("2026-11-20T00", "2026-11-20T02")
_UNAVAILABLE = "__debezium_unavailable_value"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=100_000, help="rows of the table")
    parser.add_argument("--touched", type=int, default=10, help="keys that the late hour touches")
    options = parser.parse_args()
    shutil.rmtree(CACHE, ignore_errors=True)
    settings = Settings(home=HOME, lake=str(CACHE / "lake"), driver_memory="2g", spark_master="local[2]")
    write(HOURS[0], (event("c", key, 1) for key in range(options.keys)))
    write(HOURS[1], (event("u", key, 2) for key in range(options.touched)))
    write(HOURS[2], (event("u", key, 3) for key in range(options.keys)))
    open_session(settings, "benchmark")
    done: list[tuple[str, Cost, Receipt]] = []

    def run(what: str, feed: Feed, hour: str) -> None:
        receipts: list[Receipt] = []
        cost = measure(lambda: receipts.append(run_hour(feed, hour, settings)))
        done.append((what, cost, receipts[0]))

    for hour in HOURS:
        run_hour(feed_of("warm"), hour, settings)
    late, rerun = feed_of("late"), feed_of("rerun")
    run("first hour, every key", late, HOURS[0])
    run("third hour, every key", late, HOURS[2])
    run(f"second hour, late, {options.touched} keys", late, HOURS[1])
    for hour in HOURS:
        run(f"all hours again, in order: {hour}", rerun, hour)
    table = Table("", "CPU s", "s", "landed", "applied", "superseded", "rows written")
    for what, cost, receipt in done:
        written = sum(t.rows_written for t in receipt.tables)
        counts = (receipt.landed, receipt.counts.applied, receipt.counts.superseded, written)
        table.add_row(what, f"{cost.cpu:.1f}", f"{cost.wall:.1f}", *map(str, counts))
    console = Console()
    console.print(table)
    again = Cost.sum(cost for what, cost, _ in done if what.startswith("all hours again"))
    console.print(f"the late hour: {done[2][1].over(again).cpu:.2f} of the CPU seconds of running all hours again")
    return 0


def write(hour: Hour, events: Iterable[dict[str, Any]], cache: Path = CACHE) -> None:
    """An hour's export, of one object."""
    folder = cache / f"exports/t/dt={hour.date}/hr={hour.clock}"
    folder.mkdir(parents=True)
    with gzip.open(folder / "part-0.jsonl.gz", "wt", compresslevel=1) as file:
        file.writelines(json.dumps(one) + "\n" for one in events)
    (folder / "_SUCCESS").touch()


def event(op: str, key: int, at: int) -> dict[str, Any]:
    """The newest change of a key leaves out its large column: what that holds, an older one says."""
    lsn = at * 10**9 + key
    large = _UNAVAILABLE if at == 3 else f"large {at} {key} " * 8
    value = {
        "before": None, "after": {"id": key, "n": at, "big": large}, "op": op, "transaction": None,
        "source": {
            "ts_ms": 1795132800000, "sequence": json.dumps([str(lsn - 1), str(lsn)]), "schema": "s", "table": "items",
            "txId": lsn, "lsn": lsn,
        },
    }  # fmt: skip
    return {"topic": "t", "partition": 0, "offset": lsn, "key": json.dumps({"id": key}), "value": json.dumps(value)}


def feed_of(name: str, cache: Path = CACHE) -> Feed:
    return Feed.model_validate(
        {
            "feed": name, "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": f"{cache}/exports/{{topic}}/dt={{date}}/hr={{hour}}/*"},
            "container": {"type": "kafka_json"}, "format": {"type": "debezium"},
            "tables": {"s.items": {"name": f"{name}.items", "columns": {"id": "bigint", "n": "int", "big": "text"}}},
        }
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
