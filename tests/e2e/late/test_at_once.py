"""Two processes at once: the same hour twice, and a live hour during a backfill. One publication each, nothing mixed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.generated import tables_of
from tidemark.lake.catalog import find_table, read_rows
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full, pytest.mark.promise(6)]

PROJECT = Path(__file__).parent.parent.parent.parent
HOURS = [f"2026-11-20T{hour:02}" for hour in range(4)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of its own, with the exports of a generated feed."""
    home = tmp_path_factory.mktemp("at_once")
    ibm.generate(home, Sample(hours=len(HOURS), events=60, seed=7))
    return home


def settings_of(home: Path) -> Settings:
    return Settings(home=home, exports=str(home / "exports"), feeds=home / "feeds")


def start(home: Path, first: str, last: str) -> subprocess.Popen[str]:
    environment = {
        "TIDEMARK_HOME": str(home), "TIDEMARK_FEEDS": str(home / "feeds"), "TIDEMARK_EXPORTS": str(home / "exports"),
        "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"), "TIDEMARK_DRIVER_MEMORY": "1g",
    }  # fmt: skip
    command = [sys.executable, "-c", "from tidemark.cli import main; main()", "run", ibm.FEED]
    return subprocess.Popen(
        [*command, "--hour", first, "--to", last],
        env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> list[str]:
    """What it printed: a line per hour."""
    printed, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-8000:]
    return printed.splitlines()


def assert_truth(home: Path, hour: str) -> None:
    """What is published now is what the source held at the end of an hour, and no key is there twice."""
    for table in tables_of(home):
        rows, key = read_snapshot(settings_of(home), table)
        want = [json.loads(line) for line in (home / "truth" / hour / f"{table}.jsonl").read_text().splitlines()]
        assert [json.loads(line) for line in json_lines(rows, key)] == want, table


def receipts_of(home: Path) -> Counter[tuple[str, int]]:
    rows = read_rows(settings_of(home), "tidemark", "receipts")
    return Counter((row["hour"], row["sequence"]) for row in rows)


def test_the_same_hour_twice_at_once_is_published_once(home: Path) -> None:
    """The first hour of all, for which tables and system tables are made."""
    both = [start(home, HOURS[0], HOURS[0]) for _ in range(2)]
    one, other = [ended(process) for process in both]
    assert one == other and len(one) == 1
    assert receipts_of(home) == {(HOURS[0], 1): 1}
    assert_truth(home, HOURS[0])


def test_a_live_hour_during_a_backfill(home: Path) -> None:
    """The live hour takes the feed lock between those of the backfill, wherever it falls."""
    backfill, live = start(home, HOURS[0], HOURS[2]), start(home, HOURS[3], HOURS[3])
    assert [line.split(":")[0] for line in [*ended(backfill), *ended(live)]] == [f"{ibm.FEED} {hour}" for hour in HOURS]
    found = receipts_of(home)
    assert {hour for hour, _ in found} == set(HOURS)
    assert sorted(sequence for _, sequence in found.elements()) == [1, 2, 3, 4], "a number for each, and none twice"
    assert_truth(home, HOURS[3])
    for table in tables_of(home):
        left = find_table(settings_of(home), *table.split(".", 1))
        assert left is not None and not [name for name in left.metadata.refs if name.startswith(("audit", "compacted"))]
