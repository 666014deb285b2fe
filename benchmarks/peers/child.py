"""One peer's hour in a process of its own: ``python -m benchmarks.peers.child PEER FOLDER BASE HOUR``.

Loads the objects of the folder ``BASE``, measures the job on those of ``HOUR``, and prints both costs and sums as one line
of JSON. It runs in the peer's environment, so it imports nothing that only the project's has.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from benchmarks.processes import cpu_seconds, family, peak_mb
from benchmarks.truth import SUMS

#: How Debezium says that a text was not sent. A table that holds it as a value is wrong.
ABSENT = "__debezium_unavailable_value"
#: What is asked of each table when its hour is done: the sums of the truth, and how many notes are the placeholder.
_ASKED = {**SUMS, "placeholders": f"count_if(note = '{ABSENT}')"}
ASKED = ", ".join(_ASKED.values())


class Job(Protocol):
    """What a peer's module has as ``Job``, made with an empty folder for its table."""

    def load(self, objects: list[str]) -> None:
        """Make the table from the base hour."""

    def run(self, objects: list[str]) -> None:
        """The measured job: bring the hour into the table."""

    def sums(self) -> Iterable[Any]:
        """The row that :data:`ASKED` selects from the table."""


def main() -> None:
    name, folder, *hours = sys.argv[1:]
    base, hour = (sorted(str(path) for path in Path(hour).iterdir()) for hour in hours)
    job: Job = import_module(f"benchmarks.peers.{name}").Job(Path(folder))
    job.load(base)
    cpu, started = cpu_seconds(), time.perf_counter()
    job.run(hour)
    cost = {"seconds": time.perf_counter() - started, "cpu": cpu_seconds() - cpu}
    peak = sum(peak_mb(process) for process in family())
    sums = dict(zip(_ASKED, map(int, job.sums()), strict=True))
    sys.stdout.write(json.dumps({**cost, "peak_mb": peak, "sums": sums}) + "\n")


if __name__ == "__main__":
    main()
