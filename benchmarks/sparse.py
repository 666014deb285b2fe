"""An hour of sparse updates against one of whole rows, byte by byte: ``python -m benchmarks.sparse``.

*sparse* is a table of 500 columns of which each update sends 4 %, any of them, so that hardly two updates send the same;
*dense* one of 21 columns which each update sends, whose exports have as many bytes (``wide.py``). Both are Qlik Replicate's,
with messages alike. An hour is all of it, from land to publish, into an empty lake.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

from rich.console import Console

from benchmarks import report
from benchmarks.case import WARM_UPS, Case, run_rounds
from benchmarks.folders import CACHE
from benchmarks.formats import wrong_tables
from benchmarks.kept import KEPT
from benchmarks.lake import EmptyLake
from benchmarks.wide import HOUR, WideTable
from tidemark.feeds.loading import load_feed
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

SPARSE, DENSE = WideTable("sparse", 499, 20), WideTable("dense", 20, 20)
#: Measured rounds.
ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="changes in the hour of the sparse table")
    parser.add_argument("--keep", action="store_true", help=f"keep the ratios in {KEPT.name}")
    options = parser.parse_args()
    console = Console()
    roots = {of.name: CACHE / f"{of.name}-{options.events}" for of in (SPARSE, DENSE)}
    size = SPARSE.write(roots["sparse"], events=options.events)
    other = DENSE.write(roots["dense"], size=size)
    console.print(
        f"sparse {size / 1e6:.1f} MB, dense {other / 1e6:.1f} MB, {ROUNDS} rounds after {WARM_UPS} that warm up"
    )
    lake, cases, settings = EmptyLake("sparse"), [], {}
    for name, root in roots.items():
        feed = load_feed(root / f"feeds/{name}.yaml")
        settings[name] = Settings(**lake.settings.model_dump(exclude={"exports"}), exports=str(root / "exports"))
        cases.append(Case(name, [("hour", partial(run_hour, feed, HOUR, settings[name]))], lake.empty))
    wrong: list[str] = []
    try:
        for number, case in run_rounds(cases, ROUNDS, console):
            if number == ROUNDS:
                wrong += wrong_tables(roots[case.name], HOUR, settings[case.name])
    finally:
        lake.spark.stop()
    results = report.compare(cases, {"sparse": "dense"}, {"sparse": 1.5})
    report.show(console, results, f"sparse: {options.events} events", keeps=options.keep)
    if wrong:
        console.print(f"these tables differ from the truth: {', '.join(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
