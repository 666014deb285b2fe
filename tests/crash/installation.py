"""A small installation for runs that die, and all that a reader or an auditor could see of it.

Its feed has what a half-done hour could spoil: transactions that end in the next hour, redelivered changes, rows that
fail a check, a record that cannot be decoded, and a table with a copy in Parquet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, DEBEZIUM, event, row
from tidemark.errors import ConfigError
from tidemark.lake.catalog import find_table, read_rows
from tidemark.ledger.manifest import load_manifests
from tidemark.ledger.publication_history import load_history
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

PROJECT = Path(__file__).parent.parent.parent
FEED = "payroll"
TABLES = ("payroll.employee", "payroll.payslip", "hr.position")
#: In the order they are run: the second comes late.
HOURS = ("2026-11-20T00", "2026-11-20T02", "2026-11-20T01", "2026-11-20T03")


@dataclass(frozen=True)
class Undisturbed:
    """A run of some hours that nothing happened to: its effects in their order, what each table held after each of the
    hours, and what came of it. ``folder``: its installation's."""

    folder: Path
    hours: tuple[str, ...]
    effects: list[str]
    tables: list[dict[str, list[str]]]
    state: dict[str, Any]


#: Where lakes are made, like ``s3://bucket``; empty: in the folder of their test.
LAKES = os.environ.get("TIDEMARK_TEST_LAKES", "")
#: Fields of receipts that hold the number of a publication.
_NUMBERS = ("sequence", "cut_by", "recalls")


def make_exports(folder: Path) -> None:
    """``exports`` and ``feeds``: what every lake of a test is made of."""
    ibm.generate(folder, Sample(hours=len(HOURS), events=60, seed=5, poison=1))
    file = folder / "feeds" / f"{FEED}.yaml"
    feed = yaml.safe_load(file.read_text())
    feed["tables"]["HR.POSITION"]["parquet"] = True
    feed["tables"]["PAYROLL.EMPLOYEE"]["checks"] = [{"column": "SALARY", "max": 60000, "consequence": "quarantine"}]
    feed["quarantine"] = {"limit": 0.5}
    file.write_text(yaml.safe_dump(feed, sort_keys=False))


def make_small_exports(folder: Path) -> None:
    """The same of the first hour alone, small: a redelivered change, a delete, and a record that cannot be decoded, of two
    tables."""
    topic = folder / "exports/t/dt=2026-11-20/hr=00"
    topic.mkdir(parents=True)
    first, gone = event("c", 1, row(1, 1), table="employee"), event("d", 4, None, key={"id": 2}, table="employee")
    slips = [event("c", 2, row(1, 5), table="payslip"), event("u", 3, row(1, 6), table="payslip")]
    lines = [json.dumps(one) for one in (first, first, gone, *slips)]
    (topic / "part.jsonl").write_text("\n".join([*lines, '{"topic": "t", "value": "{"}']) + "\n")
    feed = {
        "feed": FEED, "description": "d", "owner": "o", "topics": ["t"], **DEBEZIUM, "container": {"type": "kafka_json"},
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*", "marker": None, "settle": "0s", "missing": "empty"},
        "quarantine": {"limit": 0.5},
        "tables": {f"s.{name.split('.')[1]}": {"name": name, "columns": COLUMNS} for name in TABLES[:2]},
    }  # fmt: skip
    (folder / "feeds").mkdir()
    (folder / "feeds" / f"{FEED}.yaml").write_text(yaml.safe_dump(feed))


@contextmanager
def own_session(spark: SparkSession) -> Iterator[None]:
    """The library opens a session of its own on Spark as it runs: one session knows one lake."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "_instantiatedSession", spark.newSession())
        yield


def settings_of(folder: Path, name: str, **more: Any) -> Settings:
    """The installation whose lake is ``folder/<name>/lake``, or of that name below LAKES: all lakes have the same exports and
    feeds."""
    conf = {"spark.sql.shuffle.partitions": "2"}
    usual = {"home": folder, "feeds": Path("feeds"), "exports": "exports", "lake": f"{name}/lake", "spark_conf": conf}
    if LAKES:
        usual |= {"lake": f"{LAKES}/{folder.name}/{name}/lake", "catalog_uri": f"jdbc:sqlite:{folder}/{name}.db"}
    return Settings(**usual | {"jars": PROJECT / ".tidemark/jars", "driver_memory": "1g"} | more)


def environment_of(settings: Settings) -> dict[str, str]:
    """The same settings for a process."""
    given = settings.model_dump(include=settings.model_fields_set)
    variables = {f"TIDEMARK_{k.upper()}": json.dumps(v) if isinstance(v, dict) else str(v) for k, v in given.items()}
    return os.environ | variables | {"PYTHONPATH": f"{PROJECT}/include:{PROJECT}"}


def run(
    settings: Settings, hours: tuple[str, ...], trace: Path, death: dict[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run hours in a process of its own, which may die on the way."""
    variables = {"TIDEMARK_TRACE": str(trace), "TIDEMARK_DEATH": json.dumps(death or {})}
    return start(settings, [sys.executable, "-m", "tests.crash.killed_run", FEED, *hours], variables)


def start(
    settings: Settings, command: list[str], more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command in a process group of its own, to its end. ``more``: its environment's."""
    return subprocess.run(
        command, env=environment_of(settings) | (more or {}), cwd=PROJECT, capture_output=True, text=True, timeout=900,
        start_new_session=True, check=False,
    )  # fmt: skip


def run_undisturbed(folder: Path, hours: tuple[str, ...]) -> Undisturbed:
    """Run hours of a new installation in ``folder``."""
    make_exports(folder)
    settings, trace = settings_of(folder, "undisturbed"), folder / "undisturbed.trace"
    done = run(settings, hours, trace)
    assert done.returncode == 0, done.stderr[-8000:]
    tables = [json.loads(line) for line in trace.with_suffix(".tables").read_text().splitlines()]
    return Undisturbed(folder, hours, trace.read_text().splitlines(), tables, state(settings, hours))


def state(settings: Settings, hours: tuple[str, ...] = HOURS, tables: tuple[str, ...] = TABLES) -> dict[str, Any]:
    """Everything that counts, comparable: tables at each cut with their ``_tidemark``, receipts but for the time of
    their publication, the system tables and the change log, the manifests."""
    seen: dict[str, Any] = {
        "receipts": receipts(settings),
        "manifests": {
            hour: [m.model_dump(mode="json", exclude={"created_at"}) for m in load_manifests(settings, FEED, hour)]
            for hour in hours
        },
    }
    for table in tables:
        for hour in (None, *hours):
            rows, key = read_snapshot(settings, table, hour)
            seen[f"{table} at {hour or 'now'}"] = list(json_lines(rows, key))
    seen["changes"] = _rows(settings, "tidemark", FEED, "changes")
    numbers = _numbers(settings)
    for name in ("held", "tombstones", "quarantine"):
        rows = read_rows(settings, "tidemark", FEED, name)
        counted = (row | {"sequence": numbers[row["sequence"]]} for row in rows if row["sequence"] in numbers)
        seen[name] = sorted(map(repr, counted))
    for table in tables[:2]:
        seen[f"{table} with places"] = _rows(settings, *table.split("."))
    return seen


def receipts(settings: Settings) -> list[dict[str, Any]]:
    """Receipts but for the time of their publication, with publications numbered from 1: attempts that died took numbers."""
    numbers = _numbers(settings) | {0: 0}
    found = [
        receipt.model_dump(mode="json", exclude={"published_at"}) for receipt in load_history(settings, FEED).receipts
    ]
    for receipt in found:
        numbered = [(receipt, _NUMBERS), (receipt["progress"], ("waiting_since",))]
        for table in receipt["tables"]:
            numbered += [(table, ("staged_in",)), (table["progress"], ("refolded_by",))]
        for part, names in numbered:
            part |= {name: numbers[part[name]] for name in names}
    return found


def _numbers(settings: Settings) -> dict[int, int]:
    return {receipt.sequence: number for number, receipt in enumerate(load_history(settings, FEED).receipts, 1)}


def shown(settings: Settings, table: str, hour: str | None) -> list[str]:
    """What ``show`` gives of a table, now or at an hour's cut; nothing of one that is not published yet."""
    try:
        rows, key = read_snapshot(settings, table, hour)
    except ConfigError:
        return []
    return list(json_lines(rows, key))


def _rows(settings: Settings, *name: str) -> list[str]:
    table = find_table(settings, *name)
    assert table is not None
    rows: pa.Table = table.scan().to_arrow()
    return sorted(repr(row) for row in rows.to_pylist())


def assert_same(got: dict[str, Any], want: dict[str, Any], after: object) -> None:
    """Names the first part that differs."""
    assert got.keys() == want.keys()
    for name, wanted in want.items():
        assert got[name] == wanted, f"{name} differs after {after}"
