"""The lake: the Spark session that writes it, and the names of what is in it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tidemark.errors import ConfigError
from tidemark.identifiers import quote
from tidemark.lake.spark_conf import CATALOG, spark_conf
from tidemark.lake.stored_formats import TABLE_FORMAT, check_table
from tidemark.logs import get_logger
from tidemark.settings import Settings

log = get_logger()


def open_session(settings: Settings, name: str) -> SparkSession:
    """The Spark session of this process, made on first use with the settings of :mod:`tidemark.lake.spark_conf`.

    Under spark-submit the master is the submit's own; otherwise ``settings.spark_master``.
    """
    if not any(settings.path(settings.jars).glob("*.jar")) and "spark.jars.packages" not in settings.spark_conf:
        raise ConfigError(
            f"no jars in {settings.path(settings.jars)}", fix="run `make setup`, or `python -m tidemark.lake.jars`"
        )
    if not settings.lake_root.startswith("s3://"):
        Path(settings.lake_root).mkdir(parents=True, exist_ok=True)
    if settings.catalog.startswith("jdbc:sqlite:"):
        Path(settings.catalog.removeprefix("jdbc:sqlite:")).parent.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.appName(f"tidemark {name}")
    if not _submitted():
        builder = builder.master(settings.spark_master)
    for key, value in spark_conf(settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _remember_functions(session)
    for logger in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):  # quote values of rows; we report the error
        PySparkLogger.getLogger(logger).disabled = True
    return session


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
    import os

    return "PYSPARK_GATEWAY_PORT" in os.environ


def full_name(*parts: str) -> str:
    """``quote``d parts under the lake's catalog: ``full_name("tidemark", "shop", "changes")``."""
    return ".".join(quote(part) for part in (CATALOG, *parts))


def create_namespace(spark: SparkSession, *parts: str) -> None:
    """The namespace and its parents, made where missing."""
    for depth in range(1, len(parts) + 1):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {full_name(*parts[:depth])}")
        log.debug("created a namespace where it was missing", namespace=".".join(parts[:depth]))


def check_tables(spark: SparkSession, *names: str) -> None:
    """StoredFormatError when one of these tables of ours (:func:`full_name`) has another format than this release's."""
    loader = getattr(spark._jvm, "org.apache.iceberg.spark.Spark3Util")
    for name in names:
        value = loader.loadIcebergTable(spark._jsparkSession, name).properties().get(TABLE_FORMAT)
        check_table(value, name.replace("`", ""))
