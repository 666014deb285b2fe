"""The log of an hour: its story in order, the receipt last, next to nothing of Spark's, and no value of any row."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidemark import logs
from tidemark.cli import main
from tidemark.feeds.loading import find_feed
from tidemark.lake.spark_conf import spark_home
from tidemark.orchestration.submission import Place, plan_submission
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark_samples.exporting import Message, write_export, write_feed

TIDEMARK = (sys.executable, "-c", "from tidemark.cli import main; main()")
PROJECT = Path(__file__).parent.parent.parent.parent
FEED, TOPIC = "vault", "srv.vault.people"
GOOD, STOPPED = "2026-11-20T00", "2026-11-20T01"
#: In every key, value, broken record and secret of this module, and in nothing else.
SECRET, SECRET_NUMBER = "plugh", 918273645
#: What a JVM prints before anybody can tell it not to.
FOREIGN_AT_MOST = 4


def _message(offset: int, row: dict[str, Any]) -> Message:
    source = {"ts_ms": 1795132800000, "schema": "vault", "table": "people", "txId": offset, "lsn": offset * 100}
    event = {"before": None, "after": row, "source": source, "op": "c", "transaction": None}
    key = json.dumps({"id": row["id"]}).encode()
    return Message(
        topic=TOPIC, partition=0, offset=offset, sent_at=datetime(2026, 11, 20), key=key, value=json.dumps(event).encode()
    )  # fmt: skip


def _rows(*rows: tuple[str, object, str]) -> list[Message]:
    return [
        _message(offset, {"id": f"{SECRET}-key-{id_}", "n": n, "s": s}) for offset, (id_, n, s) in enumerate(rows, 1)
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feed and two hours of it. In the first a record, a value and a row go to quarantine; the second fails a check that
    stops it."""
    home = tmp_path_factory.mktemp("logs")
    broken = Message(
        topic=TOPIC, partition=0, offset=9, sent_at=datetime(2026, 11, 20), key=None,
        value=f"{SECRET} is no JSON".encode(),
    )  # fmt: skip
    first = _rows(("a", 1, f"good {SECRET}"), ("b", f"{SECRET} is no number", "good"), ("c", 3, f"bad {SECRET}"))
    write_export(home / "exports", TOPIC, GOOD, [[*first, broken]], "kafka_json")
    second = [_message(20, {"id": f"{SECRET}-key-d", "n": SECRET_NUMBER, "s": "good", "nick": f"{SECRET}!"})]
    write_export(home / "exports", TOPIC, STOPPED, [second], "kafka_json")
    columns = {"id": "text", "n": "bigint", "s": "text"}
    checks = [
        {"column": "s", "pattern": "^good", "consequence": "quarantine"},
        {"column": "n", "max": 1000, "consequence": "stop"},
    ]
    feed = {
        "feed": FEED, "description": "People", "owner": "tests", "topics": [TOPIC],
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "container": {"type": "kafka_json"},
        "format": {"type": "debezium", "decimals": "string"},
        "tables": {"vault.people": {"columns": columns, "checks": checks}}, "quarantine": {"limit": 1.0},
    }  # fmt: skip
    write_feed(home / "feeds", feed)
    return home


@pytest.fixture(scope="module")
def installation(home: Path) -> dict[str, str]:
    """The environment of an installation with the two hours."""
    return {
        "TIDEMARK_HOME": str(home), "TIDEMARK_FEEDS": "feeds", "TIDEMARK_EXPORTS": "exports",
        "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"), "TIDEMARK_DRIVER_MEMORY": "1g",
        "TIDEMARK_CATALOG_USER": f"{SECRET}-user", "TIDEMARK_CATALOG_PASSWORD": f"{SECRET}-password",
        "TIDEMARK_LOG_FORMAT": "json",
    }  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """What a process printed. ``lines``: our log lines; ``foreign``: everything else on standard error."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.err.splitlines() if line.startswith("{")]

    @property
    def foreign(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.strip() and not line.startswith("{")]


def run(command: list[str], environment: dict[str, str]) -> Printed:
    done = subprocess.run(
        command, env=os.environ | environment, cwd=PROJECT, capture_output=True, text=True, timeout=540, check=False
    )
    return Printed(done.returncode, done.stdout, done.stderr)


ONE_PROCESS, WARM = "in a process of their own", "in the tests' own process"


def _in_one_process(installation: dict[str, str]) -> Printed:
    return run([*TIDEMARK, "run", FEED, "--hour", GOOD, "--to", STOPPED], installation)


def _in_this_process(home: Path, settings: Settings) -> Printed:
    """The first hour costs a new process most of its time: here Spark is warm."""
    environment = {
        "TIDEMARK_HOME": home, "TIDEMARK_FEEDS": "feeds", "TIDEMARK_EXPORTS": "exports", "TIDEMARK_JARS": settings.jars,
        "TIDEMARK_LAKE": settings.lake_root, "TIDEMARK_LOG_FORMAT": "json",
    }  # fmt: skip
    with (
        pytest.MonkeyPatch.context() as patch, _logging_restored(), redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
    ):  # fmt: skip
        for name, value in environment.items():
            patch.setenv(name, str(value))
        patch.setattr(sys, "argv", ["tidemark", "run", FEED, "--hour", GOOD, "--to", STOPPED])
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return Printed(ended.value.code, out.getvalue(), err.getvalue())


@contextmanager
def _logging_restored() -> Iterator[None]:
    logger = logging.getLogger("tidemark")
    before = logger.handlers, logger.level, logger.propagate, list(logs._render)
    yield
    logger.handlers, logger.level, logger.propagate, logs._render[:] = before


@pytest.fixture(scope="module", params=[WARM, pytest.param(ONE_PROCESS, marks=pytest.mark.full)])
def two_hours(
    request: pytest.FixtureRequest, home: Path, installation: dict[str, str], spark: SparkSession, settings: Settings
) -> Printed:
    """What two hours print, one after the other."""
    if request.param == ONE_PROCESS:
        return _in_one_process(installation)
    return _in_this_process(home, settings)


def test_the_lines_tell_an_hour_in_its_order_with_the_receipt_last(two_hours: Printed) -> None:
    lines = [line for line in two_hours.lines if line["hour"] == GOOD]
    assert {line["feed"] for line in lines} == {FEED}
    told = [(line.get("stage"), line["event"], line.get("table")) for line in lines if line["level"] == "info"]
    assert told == [
        ("land", "landed", None),
        ("decode", "decoded", None),
        ("assemble", "assembled", None),
        ("screen", "screened", None),
        *(("fold", event, "vault.people") for event in ("created the table", "folded")),
        ("validate", "validated", "vault.people"),
        ("publish", "published", "vault.people"),
        (None, "receipt", None),
    ], two_hours.err[-6000:]
    by_event = {line["event"]: line for line in lines}
    assert (by_event["screened"]["tables"], by_event["screened"]["quarantined"]) == (1, 2)
    assert (by_event["landed"]["objects"], by_event["landed"]["records"]) == (1, 4)
    assert by_event["decoded"]["entries"] == 4
    assert by_event["folded"]["written"] == 1
    assert all(line["seconds"] >= 0 for line in lines if line["event"] in ("landed", "decoded", "folded"))
    receipt = by_event["receipt"]
    assert (receipt["landed"], receipt["applied"], receipt["quarantined"]) == (4, 1, 3)


def test_what_is_kept_back_is_logged_with_its_reason(two_hours: Printed) -> None:
    kept = [line for line in two_hours.lines if line["event"] == "quarantined"]
    assert [(line["stage"], line["reason"]) for line in kept] == [
        ("assemble", "they cannot be decoded"),
        ("screen", "they are refused, or wait with one that is"),
    ]


def test_an_hour_that_stops_says_what_it_undid(two_hours: Printed) -> None:
    assert two_hours.code == 1
    lines = [line for line in two_hours.lines if line["hour"] == STOPPED]
    added, untyped, folded = (line["event"] for line in lines if line["stage"] == "fold")
    assert (added, folded) == ("added columns", "folded")
    assert untyped.startswith("no type is known of nick: published as text, as sent.")
    warnings = [line for line in lines if line["level"] == "warning" and line["event"] != untyped]
    assert [(line["event"], line["reason"]) for line in warnings] == [
        ("discarded the publication", "CheckError"),
        ("restored the published columns", "their hour was not published"),
    ]
    assert "receipt" not in [line["event"] for line in lines]
    assert "Error: feed vault, hour 2026-11-20T01: checks failed" in two_hours.err


def test_no_value_of_a_row_and_no_secret_is_printed(two_hours: Printed) -> None:
    printed = two_hours.out + two_hours.err
    assert SECRET not in printed and str(SECRET_NUMBER) not in printed


def test_standard_output_is_left_to_results_and_spark_says_next_to_nothing(two_hours: Printed) -> None:
    (result,) = two_hours.out.splitlines()
    assert result.startswith(f"{FEED} {GOOD}: landed 4, applied 1")
    begin = next(number for number, line in enumerate(two_hours.foreign) if line.startswith("Error: "))
    assert len(two_hours.foreign[:begin]) <= FOREIGN_AT_MOST, two_hours.foreign


@pytest.mark.full
def test_a_job_of_spark_submit_is_as_quiet(
    installation: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in installation.items():
        monkeypatch.setenv(name, value)
    settings = Settings(lake="another_lake")
    land(find_feed(FEED, settings), GOOD, settings)
    job, here = str(PROJECT / "jobs/decode.py"), Place("local[1]", "client")
    planned = plan_submission(job, FEED, settings, here, tmp_path, small=True)
    conf = [part for key, value in planned.conf.items() for part in ("--conf", f"{key}={value}")]
    command = [str(spark_home() / "bin/spark-submit"), "--master", "local[1]", "--deploy-mode", "client", *conf]
    more = {"TIDEMARK_LAKE": "another_lake", "SPARK_HOME": str(spark_home())}
    done = run([*command, job, FEED, GOOD], installation | more)
    assert done.code == 0, done.err[-6000:]
    # spark-submit starts the job, and writes all that it prints to its own standard output.
    done = Printed(done.code, "", done.out + done.err)
    events = [line["event"] for line in done.lines]
    assert (events[0], events[-1]) == ("decoded", "receipt"), done.err
    assert len(done.foreign) <= FOREIGN_AT_MOST, done.foreign
    assert SECRET not in done.err


# The command, with a stage in which a task of Spark fails on a value.
_CRASH = f"""
from pyspark.sql import functions as F
from tidemark.cli import main
from tidemark.feeds.loading import find_feed
from tidemark.pipeline import hour
def decode(run, *rest):
    run.spark.range(2).select(F.concat(F.col("id"), F.lit("{SECRET}")).cast("int")).collect()
hour.decode = decode
main()
"""


def test_a_crash_says_where_and_quotes_no_value(installation: dict[str, str]) -> None:
    command = [sys.executable, "-c", _CRASH, "run", FEED, "--hour", GOOD]
    done = run(command, installation | {"TIDEMARK_LAKE": "crashed_lake"})
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1] == (
        f"Error: feed {FEED}, hour {GOOD}, stage decode: an unforeseen error, NumberFormatException "
        "[CAST_INVALID_INPUT]; the log line `crashed` above shows where it came from, and with TIDEMARK_DEBUG=1 what it said"
    )
    (line,) = [line for line in done.lines if line["event"] == "crashed"]
    assert (line["feed"], line["hour"], line["stage"], line["level"]) == (FEED, GOOD, "decode", "error")
    assert "include/tidemark/pipeline/hour.py:" in line["exception"]
    assert "in the JVM: org.apache.spark.SparkNumberFormatException" in line["exception"]
    assert SECRET not in done.err, done.err


# A worker's process, as Airflow sets up its logging before a task begins.
_WORKER = f"""
import sys
from airflow.sdk.log import configure_logging
configure_logging(json_output=True, output=sys.stdout.buffer, sending_to_supervisor=True)
from tidemark.feeds.loading import find_feed
from tidemark.pipeline.land import land
from tidemark.settings import Settings
settings = Settings(lake="third_lake")
land(find_feed("{FEED}", settings), "{GOOD}", settings)
"""


def test_a_task_in_airflows_worker_writes_to_the_tasks_log(installation: dict[str, str], tmp_path: Path) -> None:
    done = run([sys.executable, "-c", _WORKER], installation | {"AIRFLOW_HOME": str(tmp_path)})
    assert done.code == 0, done.err[-6000:]
    (line,) = [json.loads(line) for line in done.out.splitlines() if '"tidemark"' in line]
    assert line["event"].startswith(f"landed feed={FEED} hour={GOOD} stage=land objects=1 ")
    assert (line["level"], line["logger"]) == ("info", "tidemark")
    assert SECRET not in done.out + done.err
