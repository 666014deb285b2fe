"""What makes Spark cheap for short jobs. No result depends on any of it: ``TIDEMARK_TUNING=false`` leaves all of it out.
Why each is there: ``docs/decisions/0006-spark-for-short-jobs.md``. Pure, but for what takes a session: imports no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: JVM options for drivers that do not live long: the quick compiler, with room for all that it compiles.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"

#: The file beside the jars that :mod:`tidemark.lake.cds_archive` makes.
ARCHIVE = "classes.jsa"

#: For other drivers. Nobody waits for a pause of the collector: the one that takes the least in all. Local files are read
#: with buffers outside of the heap, as large as what is read at once, which each of many threads would keep. HotSpot's second
#: compiler is for what rows run through, and not for all that plans them: it begins at ten times its usual counts of calls.
_JAVA = (
    "-XX:+UseParallelGC -Djdk.nio.maxCachedBufferSize=1048576 -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)

_PARTITIONS = "spark.sql.shuffle.partitions"
#: How many bytes of landed objects make a partition of a larger hour. Compressed, these are some 130,000 changes of a dozen
#: columns, which a task of a small driver sorts in memory. Adaptive execution joins partitions that are less.
_BYTES_OF_PARTITION, _MOST_PARTITIONS = 16 << 20, 200

#: Bytes of the longest method that a stage is compiled into. HotSpot interprets methods of 8,000 bytes and more.
_LONGEST_METHOD, _COMPILED = "spark.sql.codegen.hugeMethodLimit", "8000"

#: For every session.
TUNED = {
    _PARTITIONS: "4",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",
}

#: By whether the hour is small.
_TUNED_FOR = {
    True: {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        _PARTITIONS: "1",
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


def tune_session(spark: SparkSession, *, small: bool, landed_bytes: int) -> None:
    """Fit a session to an hour. In a small hour of small tables, planning, code generation and the starts of tasks take most
    of the time: there are as few of them as possible. ``landed_bytes``: of the hour's objects, as they lie."""
    usual = TUNED[_PARTITIONS]
    given = str(spark.sparkContext.getConf().get(_PARTITIONS, usual))
    sized = str(max(int(usual), min(_MOST_PARTITIONS, landed_bytes // _BYTES_OF_PARTITION)))
    for key, value in ({_PARTITIONS: sized if given == usual else given} | _TUNED_FOR[small]).items():
        spark.conf.set(key, value)


@contextmanager
def without_long_methods(spark: SparkSession) -> Iterator[None]:
    """While this lasts, stages that would be one long method run operator by operator."""
    usual = str(spark.conf.get(_LONGEST_METHOD))
    spark.conf.set(_LONGEST_METHOD, _COMPILED)
    try:
        yield
    finally:
        spark.conf.set(_LONGEST_METHOD, usual)
