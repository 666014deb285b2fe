"""How often decode looks into each record: exact, so that nothing makes it dearer unseen. Times are no test; these counts
are. A number that grows needs its reason in the commit, and a run of the benchmark."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from tidemark.feeds.loading import load_feed
from tidemark.pipeline.decode import changes
from tidemark.settings import Settings
from tidemark_samples.exporting import Sample


class Looks(NamedTuple):
    """Of a plan of decode: different JSON parsers, different regular expressions, operators that move or sort rows,
    functions that go through maps and arrays item by item, which Spark never compiles, and all calls: an expression that is
    named ten times is ten expressions, for which Spark makes code."""

    parsers: int
    patterns: int
    shuffles: int
    loops: int
    calls: int


#: Of plain objects, as landing nearly always finds them; and of others.
LOOKS = {
    ("canal", "kafka_json"): (Looks(3, 38, 3, 26, 594), Looks(4, 51, 3, 28, 773)),
    ("dataworks", "kafka_json"): (Looks(3, 44, 1, 26, 822), Looks(4, 57, 1, 28, 1001)),
    ("debezium", "kafka_json"): (Looks(10, 19, 0, 18, 1043), Looks(11, 34, 0, 20, 1217)),
    ("debezium", "lines"): (Looks(3, 10, 0, 14, 1166), Looks(3, 11, 0, 14, 1185)),
    ("ibm", "kafka_json"): (Looks(1, 18, 0, 14, 354), Looks(2, 31, 0, 16, 460)),
    ("ibm", "raw"): (Looks(0, 18, 7, 10, 335), Looks(0, 19, 11, 11, 367)),
    ("qlik", "kafka_json"): (Looks(5, 36, 0, 21, 529), Looks(6, 50, 0, 23, 760)),
}


def calls(plan: str, functions: str) -> set[str]:
    """The different calls of functions in a plan, without the numbers that Spark gives to columns."""
    found = set()
    for match in re.finditer(rf"\b(?:{functions})\(", plan):
        depth = 0
        for end in range(match.end() - 1, len(plan)):
            depth += {"(": 1, ")": -1}.get(plan[end], 0)
            if not depth:
                break
        found.add(re.sub(r"[#_]\d+L?", "", plan[match.start() : end + 1]))
    return found


def looks(plan: str) -> Looks:
    return Looks(
        parsers=len(calls(plan, r"from_json|get_json_object|json_tuple|json_object_keys|[\w.]*parseJson")),
        patterns=len(calls(plan, r"regexp_\w+|split|RLIKE")),
        loops=len(calls(plan, r"exists|forall|(?:map_)?filter|transform(?:_values|_keys)?|aggregate")),
        shuffles=len(re.findall(r"^[\s:+|-]*(?:Aggregate|Distinct|Join|Repartition|Sort|Window)", plan, re.MULTILINE)),
        calls=len(re.findall(r"\w\(", plan)),
    )


@pytest.mark.parametrize(("name", "container"), LOOKS)
def test_decode_looks_into_a_record_so_often(
    spark: SparkSession, settings: Settings, tmp_path: Path, name: str, container: str
) -> None:
    generate = import_module(f"tidemark_samples.{name}").generate
    generate(tmp_path, Sample(hours=1, events=20, seed=1, container=container))
    feed = load_feed(next((tmp_path / "feeds").glob("*.yaml")))
    objects = [str(path) for path in (tmp_path / "exports").rglob("*") if path.is_file() and path.name != "_SUCCESS"]

    def looks_at(*, plain: bool) -> Looks:
        decoded = changes(spark, feed, objects, settings, plain=plain)
        return looks(decoded._jdf.queryExecution().optimizedPlan().toString())

    assert (looks_at(plain=True), looks_at(plain=False)) == LOOKS[name, container]
