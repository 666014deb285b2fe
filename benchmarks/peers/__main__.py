"""What other tools need for the same hour: ``python -m benchmarks.peers``.

Each loads the base hour and then the measured one, from the same landed exports, in a process and an environment of its
own, which is made once in ``.tidemark/bench/peers``. Time is that of the measured hour, memory the peak of the
process and of its children. Every table is compared with the source's, by sums. Ratios are of CPU seconds, and so of CPU per
event, against Tidemark's own hour in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.folders import CACHE, HOME, new_folder
from benchmarks.generate import BASE, MEASURED, Workload, exports
from benchmarks.kept import KEPT, keep, load_kept
from benchmarks.truth import differing

SELF = "tidemark"
_DUCKDB, _PSUTIL = "duckdb==2.0.1", "psutil==7.2.2"
#: By tool, the packages of its environment; the project's own needs none more.
PEERS: dict[str, tuple[str, ...]] = {
    SELF: (),
    "dlt": ("dlt[duckdb,parquet]==1.31.0", _DUCKDB, _PSUTIL),
    "pyiceberg": ("pyiceberg[sql-sqlite,pyarrow]==0.12.0", _DUCKDB, _PSUTIL),
    "duckdb": (_DUCKDB, _PSUTIL),
    "delta": ("delta-spark==4.4.0", "pyspark==4.1.4", "numpy==2.4.6", _PSUTIL),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)}; default: all")
    parser.add_argument("--events", type=int, default=100_000, help="changes in the hour")
    parser.add_argument("--keep", action="store_true", help=f"keep the ratios in {KEPT.name}")
    options = parser.parse_args()
    if unknown := set(options.peers) - set(PEERS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: the peers are {', '.join(PEERS)}")
    console, found = Console(), dict[str, dict[str, Any]]()
    for name in [SELF, *(peer for peer in options.peers or PEERS if peer != SELF)]:
        found[name] = one = measured_in_a_process(name, options.events)
        one["ratio"] = one["cpu"] / found[SELF]["cpu"]
        console.print(f"{name}: {one['cpu']:.1f} CPU s, {one['seconds']:.1f} s on the clock")
    workload = f"peers: {options.events} events"
    console.print(drawn(found, options.events, load_kept(workload)))
    if options.keep:
        keep(workload, {name: round(one["ratio"], 3) for name, one in found.items() if name != SELF})
    for name, one in found.items():
        if one["wrong"]:
            console.print(f"{name}: the table differs from the source's: {in_words(one['wrong'], one['sums'])}")
    return int(bool(found[SELF]["wrong"]))


def measured_in_a_process(name: str, events: int) -> dict[str, Any]:
    """``cpu`` and ``seconds`` of the hour, ``peak_mb`` of the process, the table's ``sums``, those that are ``wrong``."""
    made = exports(Workload(events, events * 3 // 10), CACHE)
    hours = [str(Path(made.objects(hour, "gzip")[0]).parent) for hour in (BASE, MEASURED)]
    command = [str(python_of(name)), "-m", "benchmarks.peers.child", name, str(new_folder(f"peers-{name}")), *hours]
    # The project's Spark is not the peer's.
    environment = {key: value for key, value in os.environ.items() if name == SELF or key != "SPARK_HOME"}
    done = subprocess.run(command, cwd=HOME, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "wrong": differing(found["sums"], made.truth)}


def python_of(name: str) -> Path:
    """The Python of a peer's environment, which is made when it is missing or has other packages."""
    folder, packages = CACHE / "peers" / name, PEERS[name]
    if not packages:
        return Path(sys.executable)
    stamp, python, uv = folder / "packages.txt", folder / "bin/python", HOME / ".tools/uv/bin/uv"
    if not stamp.exists() or stamp.read_text().split() != list(packages):
        # As scripts/setup: behind a proxy uv's own certificates do not know its authority, the machine's do.
        environment = {**os.environ, "UV_SYSTEM_CERTS": "true"}
        subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, folder], env=environment, check=True)
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], env=environment, check=True)
        stamp.write_text("\n".join(packages))
    return python


def in_words(wrong: dict[str, int], sums: dict[str, int]) -> str:
    """What a table has less the source's, and in how many rows Debezium's word for a text that was not sent is the text."""
    parts = [f"{name.replace('_', ' ')} {difference:+,}" for name, difference in wrong.items()]
    return ", ".join([*parts, f"placeholders kept as notes: {sums['placeholders']:,}"])


def drawn(found: dict[str, dict[str, Any]], events: int, kept: dict[str, float]) -> Table:
    table = Table(title=f"an hour of {events:,} events; × of Tidemark's CPU")
    for head in ("tool", "CPU s", "clock s", "peak MB", "events a CPU s", "×", "kept ×", "table"):
        table.add_column(head, justify="left" if head in ("tool", "table") else "right")
    for name, one in found.items():
        cells = f"{one['cpu']:.1f}", f"{one['seconds']:.1f}", f"{one['peak_mb']:,}", f"{events / one['cpu']:,.0f}"
        ratios = f"{one['ratio']:.3f}", f"{kept[name]:.3f}" if name in kept else ""
        table.add_row(name, *cells, *ratios, "wrong" if one["wrong"] else "right")
    return table


if __name__ == "__main__":
    sys.exit(main())
