"""What an hour costs as it gets larger: ``python -m benchmarks.scale``.

Hours of 0.1, 1 and 10 M events onto the same table of 300 000 rows, each in a process of its own that has just published the
hour before; then the hour of 1 M on a cluster of one worker and of two, with a core each. Every table is compared with its
truth. The last lines are the largest hour against the middle one: CPU seconds an event, and the JVM's peak of memory.

It takes half an hour, and 30 GB of disk, 15 of them for the exports, which are kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import hour
from benchmarks.folders import CACHE, HOME, new_folder
from benchmarks.generate import Exports, Workload, exports
from benchmarks.measure import measure
from benchmarks.processes import cpu_seconds, family, peak_mb
from benchmarks.run import differences
from tidemark.lake.session import open_session
from tidemark.settings import Settings

SIZES = (100_000, 1_000_000, 10_000_000)
HERE, ONE_WORKER, TWO_WORKERS = "local[2]", "local-cluster[1,1,3072]", "local-cluster[2,1,3072]"
#: The memory of the driver, which here does the work too.
MEMORY = "2g"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="events of the hours")
    parser.add_argument("--one", nargs=2, metavar=("EVENTS", "MASTER"), help="measure one hour in this process")
    options = parser.parse_args()
    if options.one:
        events, master = options.one
        sys.stdout.write(json.dumps(measure_hour(int(events), master)) + "\n")
        return 0
    wanted = [(events, HERE) for events in options.sizes]
    wanted += [(events, master) for events in options.sizes[1:2] for master in (ONE_WORKER, TWO_WORKERS)]
    found = []
    for events, master in wanted:
        exports(Workload(events=events), CACHE)
        found.append(measured_in_a_process(events, master))
        Console().print(f"{events:,} events on {master}: {json.dumps(found[-1])}")
    show(found)
    middle, largest = found[1], found[len(options.sizes) - 1]
    cpu, memory = (largest[name] / middle[name] for name in ("cpu_per_million", "peak_mb"))
    sys.stdout.write(f"cpu an event {cpu:.2f}\npeak of memory {memory:.2f}\n")
    return int(any(one["wrong"] for one in found))


def measured_in_a_process(events: int, master: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", "--one", str(events), master]
    done = subprocess.run(command, cwd=HOME, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_hour(events: int, master: str) -> dict[str, Any]:
    """Seconds of each stage, CPU seconds and the peak of memory (MB) of the driver and of its executors."""
    made = exports(Workload(events=events), CACHE)
    settings = settings_on(master, made)
    spark = open_session(settings, "benchmark")
    try:
        tidemark = hour.Tidemark(spark, settings)
        tidemark.load()
        before = cpu_seconds()
        stages = {name: round(measure(work).wall, 1) for name, work in tidemark.stages()}
        cpu = cpu_seconds() - before
        return {
            "events": events,
            "on": master,
            "seconds": round(sum(stages.values()), 1),
            **stages,
            "cpu_per_million": round(cpu / events * 1e6, 1),
            "peak_mb": max(peak_mb(process) for process in family()),
            "wrong": differences(spark, hour.TABLE, made),
        }
    finally:
        spark.stop()


def settings_on(master: str, made: Exports) -> Settings:
    jars = Settings(home=HOME).jars
    executors = {"spark.executor.extraClassPath": f"{HOME / jars}/*", "spark.executor.memory": MEMORY}
    return Settings(
        home=HOME, feeds=Path("benchmarks/feeds"), lake=str(new_folder("scale")), exports=str(made.root / "gzip"),
        driver_memory=MEMORY, spark_master=master, spark_conf={} if master == HERE else executors,
    )  # fmt: skip


def show(found: list[dict[str, Any]]) -> None:
    columns = [name for name in found[0] if name != "wrong"]
    table = Table(*columns)
    for one in found:
        table.add_row(*(f"{one[name]:,}" if isinstance(one[name], int) else str(one[name]) for name in columns))
    Console().print(table)
    for one in found:
        if one["wrong"]:
            Console().print(f"{one['events']} on {one['on']}: the table differs from the source's: {one['wrong']}")


if __name__ == "__main__":
    sys.exit(main())
