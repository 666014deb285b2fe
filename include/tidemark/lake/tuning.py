"""What makes Spark cheap for short jobs. No result depends on any of it: ``TIDEMARK_TUNING=false`` leaves all of it out.
Why each is there: ``docs/decisions/0006-spark-for-short-jobs.md``. Pure, but for :func:`tune_session`: imports no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: JVM options for drivers that do not live long: the quick compiler, with room for all that it compiles.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"

#: The file beside the jars that :mod:`tidemark.lake.cds_archive` makes.
ARCHIVE = "classes.jsa"

#: For other drivers. Nobody waits for a pause of the collector: the one that takes the least in all.
_JAVA = "-XX:+UseParallelGC"

#: For every session.
TUNED = {
    "spark.sql.shuffle.partitions": "4",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",
}

#: By whether the hour is small.
_TUNED_FOR = {
    True: {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    },
    False: {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.adaptive.enabled": "true",
    },
}


def java_options(*, small: bool) -> str:
    """JVM options of a driver. ``small``: what it does is over before HotSpot's second compiler would pay."""
    return QUICK_JAVA if small else _JAVA


def archive_options(jars: Path) -> str:
    """JVM options that use the class archive beside the jars; empty where there is none. One that does not fit is ignored,
    without a warning."""
    if not (jars / ARCHIVE).is_file():
        return ""
    quiet = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
    return f'"-XX:SharedArchiveFile={jars / ARCHIVE}" {quiet}'


def tune_session(spark: SparkSession, *, small: bool) -> None:
    """Fit a session to an hour. In a small hour of small tables, planning, code generation and the starts of tasks take most
    of the time: there are as few of them as possible."""
    given = spark.sparkContext.getConf().get("spark.sql.shuffle.partitions", TUNED["spark.sql.shuffle.partitions"])
    for key, value in ({"spark.sql.shuffle.partitions": str(given)} | _TUNED_FOR[small]).items():
        spark.conf.set(key, value)
