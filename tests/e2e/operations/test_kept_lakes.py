"""The lakes of all released formats, as `scripts/keep_lake.py` keeps them: this release reads them and goes on with them.

A lake holds absolute paths: each is unpacked where it was made, by one test process at a time. What a test does to the
lake, the next one finds.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.keep_lake import HOURS, KEPT
from tests.e2e.generated import findings, tables_of
from tests.e2e.newer_release import NOTE
from tidemark.hours import Hour
from tidemark.lake.catalog import load_table
from tidemark.lake.spark_conf import QUICK_JAVA
from tidemark.lake.stored_formats import TABLE_FORMAT, current_format
from tidemark.ledger.publication_history import load_history
from tidemark.operations.reports import held_listing, quarantine_listing
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent.parent.parent
ARCHIVES = sorted((PROJECT / "tests/data/lakes").glob("*.tar.xz"))
FEED = "payroll"
RAN = [Hour.parse(hour) for hour in HOURS]
NEXT = RAN[-1].plus(1)


@dataclass(frozen=True)
class KeptLake:
    """The installation of an older release in its folder."""

    home: Path
    settings: Settings

    def run(self, *arguments: str, newer: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
        """The `tidemark` command of this release, or of a newer one."""
        command = [sys.executable, "-m", "tests.e2e.newer_release"] if newer else ["tidemark"]
        return subprocess.run(
            [*command, *arguments],
            env=_environment(self.home) | variables,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    def files(self) -> dict[str, bytes]:
        """All files of the lake, but for locks."""
        lake = self.home / "lake"
        found = {str(path.relative_to(lake)): path for path in sorted(lake.rglob("*")) if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if not name.startswith("_locks/")}


def _environment(home: Path) -> dict[str, str]:
    return os.environ | {
        "TIDEMARK_HOME": str(home), "TIDEMARK_FEEDS": "feeds", "TIDEMARK_EXPORTS": "exports", "TIDEMARK_LAKE": "lake",
        "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"), "TIDEMARK_DRIVER_MEMORY": "1g",
        "TIDEMARK_SPARK_CONF": json.dumps({"spark.driver.extraJavaOptions": QUICK_JAVA}),
        "PYTHONPATH": f"{PROJECT}/include:{PROJECT}",
    }  # fmt: skip


@pytest.fixture(scope="module", params=ARCHIVES, ids=[path.name for path in ARCHIVES])
def kept(request: pytest.FixtureRequest) -> Iterator[KeptLake]:
    archive: Path = request.param
    home = KEPT / archive.name.removesuffix(".tar.xz")
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(home, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(KEPT, filter="data")
        _name_source_page(home / "feeds" / f"{FEED}.yaml")
        yield KeptLake(home, Settings(home=home, feeds=Path("feeds"), exports="exports", lake="lake"))
        shutil.rmtree(home)


def _name_source_page(feed: Path) -> None:
    """What an operator does whose feed was read as if the source wrote in the page of the messages."""
    text = feed.read_text("utf-8")
    if "source_code_page" not in text:
        feed.write_text(text.replace("  type: ibm\n", "  type: ibm\n  source_code_page: utf-8\n"), "utf-8")


def test_a_lake_of_each_released_format_is_kept() -> None:
    assert ARCHIVES, "scripts/keep_lake.py makes the archive"


def test_every_cut_holds_what_it_held(kept: KeptLake) -> None:
    assert len(tables_of(kept.home)) > 2
    for hour in RAN:
        assert findings(kept.home, hour, kept.settings) == {}, hour


def test_receipts_held_and_quarantine_can_be_read(kept: KeptLake) -> None:
    before = [json.loads(line) for line in (kept.home / "receipts.jsonl").read_text().splitlines()]
    now = [receipt.model_dump(mode="json") for receipt in load_history(kept.settings, FEED).receipts]
    assert len(before) == len(RAN)
    # a later release may say more in a receipt, but nothing else
    assert [_what_was_said(old, new) for old, new in zip(before, now, strict=True)] == before
    assert len(held_listing(kept.settings, FEED).rows) == 1
    assert len(quarantine_listing(kept.settings, FEED, None, limit=9).rows) == 1


def _what_was_said(old: Any, new: Any) -> Any:
    """What a document says now of all that it said before, tables and counts in it too."""
    if isinstance(old, dict):
        return {name: _what_was_said(value, new[name]) for name, value in old.items()}
    if isinstance(old, list) and len(old) == len(new):
        return [_what_was_said(*pair) for pair in zip(old, new, strict=True)]
    return new


def test_there_is_nothing_to_migrate(kept: KeptLake) -> None:
    """True while format 1 is the only one. The release that brings the second migrates the kept lake here instead."""
    before = kept.files()
    done, doctor = kept.run("migrate"), kept.run("doctor")
    assert (done.stdout, done.returncode) == ("nothing to do: the lake has this release's format\n", 0), done.stderr
    assert "ok\tstored format\t1, by Tidemark 0.1.0; no migration is needed\n" in doctor.stdout
    assert kept.files() == before | {"_doctor": b"well"}


@pytest.mark.full
def test_the_next_hour_runs_on_it_and_the_audit_agrees(kept: KeptLake) -> None:
    ran = kept.run("run", FEED, "--hour", NEXT)
    assert ran.returncode == 0, ran.stderr
    for hour in (*RAN, NEXT):
        assert findings(kept.home, hour, kept.settings) == {}, hour
    audit = kept.run("audit", FEED)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert audit.stdout.count("agrees") == len(RAN) + 1


@pytest.mark.full
def test_a_newer_release_migrates_it_whenever_it_was_stopped(kept: KeptLake) -> None:
    hours = load_history(kept.settings, FEED).hours
    refused = kept.run("receipts", newer=True)
    assert refused.returncode == 1
    assert "its stored format is 1; this is Tidemark 0.2.0, which works on format 2" in refused.stderr
    assert "To fix: run `tidemark migrate`" in refused.stderr

    killed = kept.run("migrate", newer=True, TIDEMARK_TEST_DOCUMENTS="2")
    assert killed.returncode == 137, killed.stderr
    for newer in (False, True):
        assert kept.run("receipts", newer=newer).returncode == 1, "half of the lake has another format"
    doctor = kept.run("doctor", newer=True).stdout
    assert "the lake's migration from format 1 to 2 has not ended" in doctor
    assert "run it again" in doctor

    done = kept.run("migrate", newer=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("format 1 to 2: receipts have one more note ("), done.stdout
    again = kept.run("migrate", newer=True)
    assert (again.stdout, again.returncode) == ("nothing to do: the lake has this release's format\n", 0)

    receipts = [json.loads(line) for line in kept.run("receipts", "--json", newer=True).stdout.splitlines()]
    assert [(receipt["format"], receipt["notes"][-1]) for receipt in receipts] == [(2, NOTE)] * len(hours)
    assert all(receipt["notes"].count(NOTE) == 1 for receipt in receipts), "no step is made twice"
    table = load_table(kept.settings, "payroll", "employee")
    assert table is not None
    assert (table.properties[TABLE_FORMAT], table.properties["test.step"]) == ("2", "done")
    for name in tables_of(kept.home):
        shown = kept.run("show", name, "--json", newer=True).stdout
        assert shown == (kept.home / "truth" / hours[-1] / f"{name}.jsonl").read_text("utf-8")


@pytest.mark.full
def test_a_lake_of_a_newer_release_is_refused_and_left_alone(kept: KeptLake) -> None:
    assert current_format() == 1
    assert kept.run("migrate", newer=True).returncode == 0
    before = kept.files()
    for command in (
        ("run", FEED, "--hour", NEXT), ("audit", FEED), ("maintain", FEED), ("receipts",), ("migrate",),
        ("show", "payroll.employee"), ("show", "hr.position"), ("quarantine", "replay", FEED, "--hour", NEXT),
    ):  # fmt: skip
        refused = kept.run(*command)
        assert refused.returncode == 1, command
        assert "its stored format is 2; this is Tidemark 0.1.0, which works on format 1" in refused.stderr, command
        assert "To fix: install " in refused.stderr, command
    assert kept.files() == before
