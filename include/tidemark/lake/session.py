"""The lake: the Spark session that writes it, and the names of what is in it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemark.crash import jvm_kinds, kind_of
from tidemark.errors import ConfigError, TransientError
from tidemark.identifiers import quote
from tidemark.lake.catalog import LAKE_ID
from tidemark.lake.lake_marker import read_marker, write_marker
from tidemark.lake.spark_conf import CATALOG, SECRET, as_property, spark_conf
from tidemark.lake.stored_formats import TABLE_FORMAT, check_table
from tidemark.logs import get_logger
from tidemark.settings import Settings

log = get_logger()

#: Seconds that the start of executors takes without anybody waiting for it.
_WORTH_A_LINE = 15.0
#: Masters that are this process itself.
_LOCAL = re.compile(r"local(\[.*\])?")
#: What the JVM throws at a value that a setting cannot have.
_NO_VALUE = "java.lang.IllegalArgumentException"
#: As many files Spark lists in the driver; more, on the executors.
_MOST_LISTED_HERE = 32
#: What spark-submit has sent along: in the driver these paths may be another machine's.
_SENT = frozenset({"spark.jars", "spark.files", "spark.archives"})


def open_session(settings: Settings, name: str, *, small: bool = False) -> SparkSession:
    """The Spark session of this process, made on first use with the settings of :mod:`tidemark.lake.spark_conf`. ``small``:
    a JVM that this starts has little to do.

    Under spark-submit the master is the submit's own; otherwise ``settings.spark_master``. On a cluster it is open when the
    first executor is there (:func:`_wait_for_executors`), and ConfigError where executors do not see a folder of the lake.
    """
    jars = settings.path(settings.jars)
    if not (_submitted() or any(jars.glob("*.jar")) or "spark.jars.packages" in settings.spark_conf):
        raise ConfigError(f"no jars in {jars}", fix="run `make setup`, or `python -m tidemark.lake.jars`")
    if not settings.lake_root.startswith("s3://"):
        Path(settings.lake_root).mkdir(parents=True, exist_ok=True)
    if (file := settings.catalog_file) is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(f"tidemark {name}")
    if not _submitted():
        builder = builder.master(settings.spark_master)
    conf = spark_conf(settings, small=small)
    if _submitted():
        conf = {key: value for key, value in conf.items() if key not in _SENT}
    # PySpark writes what it knows on the command line of the JVM that it starts, where every user of the machine reads it.
    starts_jvm = not _submitted() and SparkContext._gateway is None
    secrets = {key: value for key, value in conf.items() if starts_jvm and SECRET.search(key)}
    for key in conf.keys() - secrets.keys():
        builder = builder.config(key, conf[key])
    is_new = SparkContext._active_spark_context is None
    with _handed_over(secrets), _start_named(settings):
        session = builder.getOrCreate()
    if is_new and not _LOCAL.fullmatch(str(session.sparkContext.master)):
        _wait_for_executors(session)
        try:
            for root in (settings.lake_root, settings.landing_root):
                if not root.startswith("s3://"):
                    _refuse_unseen(session, root)
        except Exception:
            session.stop()  # whoever asks again is refused again
            raise
    _remember_functions(session)
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # quote values of rows; we report the error
        PySparkLogger.getLogger(logger).disabled = True
    return session


def _wait_for_executors(session: SparkSession) -> None:
    """Wait until the cluster has run a task. Whoever takes a lock without that may wait for cores which are held by a job
    that waits for the lock."""
    began = time.monotonic()
    session.range(1).count()
    if (waited := time.monotonic() - began) > _WORTH_A_LINE:
        log.info("waited for the cluster's executors", seconds=round(waited, 1))


def _refuse_unseen(session: SparkSession, root: str) -> None:
    """ConfigError where a task does not find in a folder what was written there a moment ago. Its executor has a folder of
    that name of its own, in which it would leave the data of tables that the driver then publishes."""
    Path(root).mkdir(parents=True, exist_ok=True)
    tasks = min(session.sparkContext.defaultParallelism, _MOST_LISTED_HERE)
    with NamedTemporaryFile("w", dir=root, prefix="seen-", suffix=".txt") as file:
        file.write("seen")
        file.flush()
        try:  # each file is a task; the path is a name, no pattern
            session.read.option("__globPaths__", "false").text([file.name] * tasks).count()
        except (Py4JJavaError, PySparkException) as error:
            if "FILE_NOT_EXIST" not in str(error):
                raise
            raise ConfigError(
                f"the executors of {session.sparkContext.master} do not see the folder {root}",
                fix="put lake and landing (TIDEMARK_LAKE, TIDEMARK_LANDING) on S3, or on a file system that all nodes mount "
                "at the same path",
            ) from error


@contextmanager
def _handed_over(secrets: Mapping[str, str]) -> Iterator[None]:
    """Within, a JVM that PySpark starts reads these settings from a file that only this user can read."""
    if not secrets:
        yield
        return
    given = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with NamedTemporaryFile("w", encoding="utf-8", prefix="tidemark-", suffix=".conf") as file:
        file.writelines(as_property(key, value) for key, value in secrets.items())
        file.flush()
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--properties-file {file.name} --load-spark-defaults {given or 'pyspark-shell'}"
        )
        try:
            yield
        finally:
            os.environ.pop("PYSPARK_SUBMIT_ARGS")
            if given is not None:
                os.environ["PYSPARK_SUBMIT_ARGS"] = given


@contextmanager
def _start_named(settings: Settings) -> Iterator[None]:
    """What to look at, where Spark does not start. A cluster may be there the next time."""
    try:
        yield
    except (Py4JJavaError, PySparkRuntimeError) as error:
        master = "the cluster of this submit" if _submitted() else settings.spark_master
        wrong = f"Spark could not be started on {master} ({kind_of(error)})"
        fix = "see what it wrote above; check TIDEMARK_SPARK_MASTER, TIDEMARK_SPARK_CONF and TIDEMARK_DRIVER_MEMORY"
        if isinstance(error, PySparkRuntimeError) or _LOCAL.fullmatch(master) or _NO_VALUE in jvm_kinds(error):
            raise ConfigError(wrong, fix=fix) from error
        raise TransientError(wrong, fix=f"{fix}; it is tried again") from error


class _Remembering(JavaClass):  # type: ignore[misc]
    """A class in the JVM whose members are asked for once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        setattr(self, name, member)
        return member


def _remember_functions(session: SparkSession) -> None:
    """Have what PySpark builds every expression with looked up once: it asks the JVM for the class, and then for the
    function, each time it calls one, which is a third of an hour's calls into the JVM."""
    jvm: Any = session._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils"):
        found = getattr(jvm, name)
        if not isinstance(found, _Remembering):
            setattr(jvm, name, _Remembering(found._fqn, found._gateway_client))


@cache
def _submitted() -> bool:
    """Whether spark-submit started this process (it hands the application's settings over in the JVM)."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def full_name(*parts: str) -> str:
    """``quote``d parts under the lake's catalog: ``full_name("tidemark", "shop", "changes")``."""
    return ".".join(quote(part) for part in (CATALOG, *parts))


def create_namespace(spark: SparkSession, *parts: str) -> None:
    """The namespace and its parents, made where missing."""
    for depth in range(1, len(parts) + 1):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {full_name(*parts[:depth])}")
        log.debug("created a namespace where it was missing", namespace=".".join(parts[:depth]))


def tell_catalog(spark: SparkSession, settings: Settings) -> None:
    """Write the lake's id into its catalog, unless that was done before. Again, or by two at once: the same id."""
    marker = read_marker(settings)
    if marker is None or marker.in_catalog:
        return
    create_namespace(spark, "tidemark")
    spark.sql(f"ALTER NAMESPACE {full_name('tidemark')} SET PROPERTIES ('{LAKE_ID}' = '{marker.id}')")
    write_marker(settings, marker.model_copy(update={"in_catalog": True}))


def check_tables(spark: SparkSession, *names: str) -> None:
    """StoredFormatError when one of these tables of ours (:func:`full_name`) has another format than this release's."""
    loader = getattr(spark._jvm, "org.apache.iceberg.spark.Spark3Util")
    for name in names:
        value = loader.loadIcebergTable(spark._jsparkSession, name).properties().get(TABLE_FORMAT)
        check_table(value, name.replace("`", ""))
