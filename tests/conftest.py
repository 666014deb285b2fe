"""One Spark session for the whole test process, because a start costs seconds; and what a whole run must hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from tests.e2e.one_table_feed import OneTableFeed
from tidemark.lake.session import open_session
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent
#: The promises of the README, in its order.
PROMISES = {
    1: "nothing is lost",
    2: "any order and any repeat give the same table",
    3: "a transaction shows whole or not at all",
    4: "absent is not null",
    5: "nothing unchecked is published",
    6: "the same hour again has the same result",
}
#: By what runs it, which tests a tier consists of. Tests that are marked `long` are in neither.
TIERS = {"make test": "not long and not full", "make test-full": "full and not long"}
#: From when on a test of the first tier is named at the end of a whole run, with its fixtures: all of them are run before
#: every landing. No run fails of it, because a busy machine makes any test slow.
FIRST_TIER_SECONDS = 20
#: What one of the second may take before it is ended; those of the first have the limit of pyproject.toml.
SECOND_TIER_TIMEOUT = 1200
#: The files that are started first. Two of many short tests, in which the JVM of each worker loads and compiles what all
#: the others need too; then the longest, so that the workers, each with a file at a time, end together.
_STARTED_FIRST = (
    "tables/test_published_table.py", "fold/test_colliding_keys.py",
    "scheduler/test_backfill.py", "replay/test_replay.py", "values/test_schema_changes.py",
    "e2e/test_promises.py", "formats/test_generated.py", "operations/test_logs.py", "operations/test_audit.py",
    "late/test_at_once.py", "transactions/test_bad_transactions.py", "formats/test_debezium.py",
    "contract/test_matrix.py", "late/test_reloads.py", "crash/test_interrupted.py", "convergence/test_convergence.py",
    "dags/test_real_run.py", "late/test_second_snapshot.py", "formats/test_declared_types.py",
)  # fmt: skip


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are no name: gzip writes the clock into them, and each process of a run would collect other tests."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, give those of the second tier their time, and in a whole run of the first add a test that fails
    for each promise that one of the tiers has no test of.

    Before markers deselect any. A failing test, not an error here: this runs in every worker of pytest-xdist, which
    loses the text of an error.
    """
    items.sort(key=_start)
    for item in items:
        if _tier(item) != "make test" and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SECOND_TIER_TIMEOUT))
    if _is_whole_first_tier(config):
        for tier in TIERS:
            mine = (item for item in items if _tier(item) == tier)
            tested = {number for item in mine for mark in item.iter_markers("promise") for number in mark.args}
            for number in sorted(PROMISES.keys() - tested):
                items.append(_UntestedPromise.from_parent(session, name=f"promise {number} in {tier}", tier=tier))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse a marker that names no promise."""
    for mark in item.iter_markers("promise"):
        if not mark.args or not set(mark.args) <= PROMISES.keys():
            raise pytest.UsageError(
                f"{item.nodeid}: promise{mark.args} names none of the promises 1 to {len(PROMISES)}"
            )


class _UntestedPromise(pytest.Item):
    """Fails. It stands in a run for the test that is missing."""

    def __init__(self, *, tier: str, **rest: object) -> None:
        super().__init__(**rest)
        self._tier = tier

    def runtest(self) -> NoReturn:
        number = int(self.name.split()[1])
        pytest.fail(f"no test of `{self._tier}` is marked promise({number}): {PROMISES[number]}", pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return Path(__file__), None, self.name


def _start(item: pytest.Item) -> int:
    file = f"{item.path.parent.name}/{item.path.name}"
    return _STARTED_FIRST.index(file) if file in _STARTED_FIRST else len(_STARTED_FIRST)


def _tier(item: pytest.Item) -> str | None:
    """The tier that a test is in, None for one that has a target of its own."""
    if item.get_closest_marker("long"):
        return None
    return "make test-full" if item.get_closest_marker("full") else "make test"


def _is_whole_first_tier(config: pytest.Config) -> bool:
    option = config.option
    narrowed = option.keyword or option.deselect or getattr(option, "lf", False) or option.collectonly
    everything = [Path(config.invocation_params.dir, argument).resolve() for argument in config.args]
    return not narrowed and everything == [PROJECT / "tests"] and option.markexpr == TIERS["make test"]


#: By test, the seconds it has taken so far in this run.
_SECONDS: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a test took."""
    _SECONDS[report.nodeid] = _SECONDS.get(report.nodeid, 0.0) + report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tests of a whole run of the first tier that took long, the slowest first.

    Workers of pytest-xdist leave it to the process that began.
    """
    if hasattr(config, "workerinput") or not _is_whole_first_tier(config):
        return
    slow = {test: seconds for test, seconds in _SECONDS.items() if seconds > FIRST_TIER_SECONDS}
    if slow:
        terminalreporter.section(f"took longer than {FIRST_TIER_SECONDS} s", yellow=True)
        for test, seconds in sorted(slow.items(), key=lambda pair: -pair[1]):
            terminalreporter.write_line(f"{seconds:6.1f} s  {test}")
        terminalreporter.write_line("Make them shorter, or mark them `full` beside a faster one of the same promise.")


#: The files whose tests go on from each other, or share services, wherever else each test may go to any process.
_IN_ONE_PROCESS = (
    "late/test_interleaved_hours.py", "page/test_browser.py", "stack/test_cluster.py", "stack/test_survival.py",
    "stack/test_yarn.py",
)  # fmt: skip


class _FreeScheduling(LoadScopeScheduling):
    """Each test by itself to the process that is free, but for those of files that stay together. The groups of
    pytest-xdist 3.8 are not known to pytest 9.2, which keeps a test's name elsewhere."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.endswith(_IN_ONE_PROCESS) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """How the second tier is spread; the first goes by whole files."""
    return _FreeScheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


#: How Spark runs what a small hour asks of it, and what a large one does: planning and compiling are most of a test.
_SMALL_HOUR = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.adaptive.enabled": ("false", "true"),
}


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An installation of its own: lake, landing and exports in a temporary folder, feeds and jars of the project."""
    home = tmp_path_factory.mktemp("home")
    # It lives for minutes, so that the good compiler pays; with the JVM's own choice of a young generation a tenth of
    # the time would go to its collections.
    quick = {
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=400m -Xms1g -Xmn600m",
        "spark.sql.shuffle.partitions": "2",
        **{key: given for key, (given, _) in _SMALL_HOUR.items()},
    }
    return Settings(
        home=home,
        feeds=PROJECT / "include/feeds",
        jars=PROJECT / ".tidemark/jars",
        spark_conf=quick,
        # One core for each worker of a run. Processes that tests start have the product's own two.
        spark_master="local[1]",
    )


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    session = open_session(settings, "tests")
    yield session
    session.stop()


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Spark compiles what it runs, as in a large hour."""
    before = {key: spark.conf.get(key) for key in _SMALL_HOUR}
    for key, (_, large) in _SMALL_HOUR.items():
        spark.conf.set(key, large)
    yield
    for key, value in before.items():
        spark.conf.set(key, value)


@pytest.fixture
def run(tmp_path: Path, spark: SparkSession, settings: Settings, request: pytest.FixtureRequest) -> OneTableFeed:
    """A feed of its own for each test: ``run(hour, events)``."""
    return OneTableFeed("p_" + request.node.originalname.removeprefix("test_")[:40], tmp_path, settings)
