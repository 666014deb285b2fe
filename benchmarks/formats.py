"""Each format against its own floor: ``python -m benchmarks.formats``.

An hour of a generated sample of each format, in the container that its messages usually come in. Its floor is what Spark's
own readers take for the same bytes, kept nowhere: ``from_json`` of the Kafka record and of the message, with the schema that
Spark finds in them; of IBM's records ``from_csv`` of each line. *decode* is held against it. *hour* is all of the hour, from
land to publish, into an empty lake; its tables are compared with the sample's truth.

Medians of CPU seconds; ratios are medians of those within each round. Printed beside the ratios that were kept. It takes ten
minutes. A floor of less than a second says little: what it costs to plan is then much of both.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from benchmarks.case import WARM_UPS
from benchmarks.floor import RECORD, to_nothing
from benchmarks.folders import CACHE, HOME, new_folder
from benchmarks.kept import KEPT, keep, load_kept
from benchmarks.lake import EmptyLake
from benchmarks.measure import measure
from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed
from tidemark.formats import FORMATS
from tidemark.lake.tuning import tune_session, without_long_methods
from tidemark.ledger.manifest import all_objects
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.decode import changes
from tidemark.pipeline.hour import run_hour
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

_FIELDS = 40


@dataclass
class Measured:
    """One format's CPU seconds, of floor and decode by round, and the tables that are not its truth."""

    megabytes: float
    floor: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    hour: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How many times its floor decode takes."""
        return median(decode / floor for decode, floor in zip(self.decode, self.floor, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", default=sorted(FORMATS), help="of these; default: all")
    parser.add_argument("--events", type=int, default=100_000, help="changes in the hour, about")
    parser.add_argument("--repeat", type=int, default=3, help=f"measured rounds, after {WARM_UPS} that warm up")
    parser.add_argument("--keep", action="store_true", help=f"keep the ratios in {KEPT.name}")
    options = parser.parse_args()
    console, found = Console(), dict[str, Measured]()
    lake = EmptyLake("formats")
    try:
        for name in options.formats:
            found[name] = measure_format(lake, name, options.events, options.repeat)
            console.print(f"{name}: decode {found[name].ratio:.2f} times its floor")
    finally:
        lake.spark.stop()
    workload = f"{options.events} events of each format"
    console.print(drawn(found, load_kept(workload)))
    if options.keep:
        keep(workload, {name: round(one.ratio, 2) for name, one in found.items()})
    for name, one in found.items():
        if one.wrong:
            console.print(f"{name}: these tables differ from the truth: {', '.join(one.wrong)}")
    return int(any(one.wrong for one in found.values()))


def measure_format(lake: EmptyLake, name: str, events: int, repeat: int) -> Measured:
    spark, root = lake.spark, sample(name, events)
    (file,) = (root / "feeds").glob("*.yaml")
    feed, hour, exports = load_feed(file), next((root / "truth").iterdir()).name, str(root / "exports")
    landed = Settings(home=HOME, lake=str(new_folder(f"formats-{name}")), exports=exports)
    land(feed, hour, landed)
    manifest = all_objects(landed, feed.feed, hour)
    tune_session(spark, small=False, landed_bytes=manifest.bytes)
    paths = [f"{landed.landing_root}/{one.path}" for one in manifest.objects]
    plain, parsed = all(one.plain for one in manifest.objects), floor(spark, feed, paths, name)
    settings = Settings(**lake.settings.model_dump(exclude={"exports"}), exports=exports)

    def decode() -> None:
        with without_long_methods(spark):
            to_nothing(changes(spark, feed, paths, landed, plain=plain))

    found = Measured(sum(Path(path).stat().st_size for path in paths) / 1e6)
    for number in range(1 - WARM_UPS, repeat + 1):
        costs = measure(lambda: to_nothing(parsed)).cpu, measure(decode).cpu
        if number > 0:
            found.floor.append(costs[0])
            found.decode.append(costs[1])
    for _ in range(2):  # the first warms up
        lake.empty()
        found.hour = measure(lambda: run_hour(feed, hour, settings)).cpu
    found.wrong = wrong_tables(root, hour, settings)
    return found


def sample(name: str, events: int) -> Path:
    """The folder with a sample of one hour; made once."""
    root = CACHE / f"{name}-{events}"
    if not root.exists():
        load_sample(name).generate(root, Sample(hours=1, events=events, seed=7))
    return root


def floor(spark: SparkSession, feed: Feed, paths: list[str], name: str) -> DataFrame:
    """What Spark's own readers make of the same objects."""
    lines = spark.read.text(paths)
    if name == "ibm":
        schema = ", ".join(f"field_{number} string" for number in range(_FIELDS))
        return lines.select(F.from_csv("value", schema).alias("record")).select("record.*")
    assert feed.container["type"] == "kafka_json", "the floor is of Kafka records"
    records = lines.select(F.from_json("value", RECORD).alias("record")).select("record.*")
    values = str(new_folder(f"formats/{name}-values"))
    records.select("value").where("value is not null").write.mode("overwrite").text(values)
    return records.withColumn("value", F.from_json("value", spark.read.json(values).schema))


def wrong_tables(root: Path, hour: str, settings: Settings) -> list[str]:
    """The tables that are not as the truth of the hour says."""
    found = []
    for file in sorted((root / "truth" / hour).glob("*.jsonl")):
        rows, key = read_snapshot(settings, file.stem, hour)
        shown, truth = (
            sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)
            for lines in (json_lines(rows, key), file.read_text().splitlines())
        )
        found += [file.stem] if shown != truth else []
    return found


def drawn(found: dict[str, Measured], kept: dict[str, float]) -> Table:
    table = Table(title="medians, in CPU seconds")
    for head in ("format", "MB", "floor", "decode", "× floor", "kept × floor", "hour"):
        table.add_column(head, justify="left" if head == "format" else "right")
    for name, one in found.items():
        before = f"{kept[name]:.2f}" if name in kept else ""
        seconds = (f"{seconds:.1f}" for seconds in (median(one.floor), median(one.decode), one.hour))
        floor_, decode, hour = seconds
        table.add_row(name, f"{one.megabytes:.0f}", floor_, decode, f"{one.ratio:.2f}", before, hour)
    return table


if __name__ == "__main__":
    sys.exit(main())
