"""Each format against its own floor: ``python -m benchmarks.formats``.

An hour of a generated sample of each format, in the container that its messages usually come in. Its floor is what Spark's
own readers take for the same bytes, kept nowhere: ``from_json`` of the Kafka record and of the message, with the schema that
Spark finds in them; of IBM's records ``from_csv`` of each line. *decode* is held against it. *hour* is all of the hour, from
land to publish, into an empty lake; its tables are compared with the sample's truth. It is held against *naive*, the job that
one writes by hand (``naive.py``; for Debezium ``benchmarks.run`` has one).

Medians of CPU seconds; ratios are medians of those within each round. Printed beside the ratios that were kept. It takes a
quarter of an hour. A floor of less than a second says little: what it costs to plan is then much of both.
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
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

from benchmarks.case import WARM_UPS
from benchmarks.floor import RECORD, to_nothing
from benchmarks.folders import CACHE, HOME, new_folder
from benchmarks.kept import KEPT, keep, load_kept
from benchmarks.lake import EmptyLake
from benchmarks.measure import measure
from benchmarks.naive import FIELDS, HandWritten
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


@dataclass
class Measured:
    """One format's CPU seconds by round, and the tables that are not its truth."""

    megabytes: float
    floor: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    naive: list[float] = field(default_factory=list)
    hour: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def ratios(self) -> dict[str, float]:
        """How many times its floor decode takes, and the hour the hand-written job."""
        pairs = {"decode": (self.decode, self.floor), "hour": (self.hour, self.naive)}
        return {
            name: median(one / other for one, other in zip(*both, strict=True))
            for name, both in pairs.items()
            if all(both)
        }


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
            console.print(f"{name}: {', '.join(f'{what} {ratio:.2f}' for what, ratio in found[name].ratios.items())}")
    finally:
        lake.spark.stop()
    workload = f"{options.events} events of each format"
    console.print(drawn(found, load_kept(workload)))
    if options.keep:
        every = {f"{name}: {what}": ratio for name, one in found.items() for what, ratio in one.ratios.items()}
        keep(workload, {name: round(ratio, 2) for name, ratio in every.items()})
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
    plain = all(one.plain for one in manifest.objects)
    schema = None if name == "ibm" else schema_of_messages(spark, feed, paths, name)
    parsed, found = floor(spark, paths, schema), Measured(manifest.bytes / 1e6)

    def decode() -> None:
        with without_long_methods(spark):
            to_nothing(changes(spark, feed, paths, landed, plain=plain))

    for number in range(1 - WARM_UPS, repeat + 1):
        costs = measure(lambda: to_nothing(parsed)).cpu, measure(decode).cpu
        if number > 0:
            found.floor.append(costs[0])
            found.decode.append(costs[1])
    settings = Settings(**lake.settings.model_dump(exclude={"exports"}), exports=exports)
    run_hour(feed, hour, settings)  # it warms up, and shows the tables
    found.wrong = wrong_tables(root, hour, settings)
    naive = hand_written(spark, name, root, hour, settings, schema) if name != "debezium" else None
    for number in range(repeat + 1):
        lake.empty()
        cost = measure(lambda: run_hour(feed, hour, settings)).cpu
        rivals = [measure_naive(naive, paths)] if naive is not None else []
        if number > 0:
            found.hour.append(cost)
            found.naive += rivals
    return found


def hand_written(
    spark: SparkSession, name: str, root: Path, hour: str, settings: Settings, schema: StructType | None
) -> HandWritten:
    """The job that one writes by hand for the tables of the sample, which are published."""
    columns, keys = dict[str, list[str]](), dict[str, list[str]]()
    for file in (root / "truth" / hour).glob("*.jsonl"):
        rows, key = read_snapshot(settings, file.stem, hour)
        if key:
            columns[file.stem], keys[file.stem] = list(rows.schema.names), list(key)
    return HandWritten(spark, name, columns, keys, schema)


def measure_naive(job: HandWritten, paths: list[str]) -> float:
    job.reset(paths)
    return measure(lambda: job.run(paths)).cpu


def sample(name: str, events: int) -> Path:
    """The folder with a sample of one hour; made once."""
    root = CACHE / f"{name}-{events}"
    if not root.exists():
        load_sample(name).generate(root, Sample(hours=1, events=events, seed=7))
    return root


def schema_of_messages(spark: SparkSession, feed: Feed, paths: list[str], name: str) -> StructType:
    """The schema that Spark finds in the messages."""
    assert feed.container["type"] == "kafka_json", "the floor is of Kafka records"
    records = spark.read.text(paths).select(F.from_json("value", RECORD).alias("record")).select("record.*")
    values = str(new_folder(f"formats-values/{name}"))
    records.select("value").where("value is not null").write.mode("overwrite").text(values)
    return spark.read.json(values).schema


def floor(spark: SparkSession, paths: list[str], schema: StructType | None) -> DataFrame:
    """What Spark's own readers make of the same objects. ``schema``: of a message; None for IBM's records."""
    lines = spark.read.text(paths)
    if schema is None:
        fields = ", ".join(f"field_{number} string" for number in range(FIELDS))
        return lines.select(F.from_csv("value", fields).alias("record")).select("record.*")
    records = lines.select(F.from_json("value", RECORD).alias("record")).select("record.*")
    return records.withColumn("value", F.from_json("value", schema))


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
    for head in ("format", "MB", "floor", "decode", "× floor", "kept", "naive", "hour", "× naive", "kept"):
        table.add_column(head, justify="left" if head == "format" else "right")
    for name, one in found.items():
        cells = [name, f"{one.megabytes:.0f}"]
        for what, rival in (("decode", one.floor), ("hour", one.naive)):
            before = f"{kept[f'{name}: {what}']:.2f}" if f"{name}: {what}" in kept else ""
            shown = [f"{median(rival):.1f}", f"{one.ratios[what]:.2f}"] if rival else ["", ""]
            cells += [shown[0], f"{median(getattr(one, what)):.1f}", shown[1], before]
        table.add_row(*cells)
    return table


if __name__ == "__main__":
    sys.exit(main())
