"""An unforeseen error: where it came from goes to the log, and one sentence is left for the end of the process.

The text of an exception that is not ours may quote a value of a row: a number that does not parse, the input of a
function of Spark. So it is not written, neither here nor of any exception in its chain, unless ``TIDEMARK_DEBUG`` asks for
it. What is written are types, Spark's names of error conditions, and the frames, of Python and of the JVM: enough to find the
line that failed.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tidemark.errors import TidemarkError
from tidemark.logs import context_of, get_logger
from tidemark.settings import Settings

#: How many frames of a JVM's exception are shown: below them are thread pools.
_JVM_FRAMES = 30
#: An exception that is its own cause ends nowhere.
_MOST_CAUSES = 10
#: Spark's own word for a kind of error, like ``CAST_INVALID_INPUT``.
_CONDITION = re.compile(r"[A-Z0-9_]+(\.[A-Z0-9_]+)*\Z")

#: Names of environment variables that hold secrets, and a password in a URL.
_SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|CREDENTIAL", re.IGNORECASE)
_IN_A_URL = re.compile(r"(://[^\s:/@]*:)[^\s@]+@")

#: Errors by which storage, catalog and cluster say that they did not answer, or that another writer was faster.
_LOST, _SPARK_FAILED, _NO_MEMORY = "lost", "org.apache.spark.SparkException", "java.lang.OutOfMemoryError"
#: What an executor says to a task that comes while it ends, as it does when it has run out of memory.
_ENDS = "java.util.concurrent.RejectedExecutionException"
_PASSING_JVM = {
    _LOST, _ENDS, "java.io.IOException", "java.io.UncheckedIOException", "java.sql.SQLException", _NO_MEMORY,
    "java.util.concurrent.TimeoutException", "software.amazon.awssdk.core.exception.SdkException",
    "org.apache.iceberg.jdbc.UncheckedSQLException", "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.CommitStateUnknownException", "org.apache.iceberg.exceptions.RuntimeIOException",
    "org.apache.iceberg.exceptions.RESTException", "org.apache.iceberg.exceptions.ServiceFailureException",
    "org.apache.iceberg.exceptions.ServiceUnavailableException",
}  # fmt: skip
#: What Spark says of a task that failed because its executor, or another with what it needs, is gone: itself, a checkpoint
#: of the stage, the output of a shuffle.
_GONE = ("ExecutorLost", "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "shuffle.FetchFailedException")
#: What an executor that runs out of memory while it reads a file says instead, for Spark 4.1's reader knows no errors of the
#: JVM. Its text ends with the class of the error.
_UNMATCHED, _CLASS = "scala.MatchError", re.compile(r"\(of class ([\w.$]+)\)\Z")
_PASSING_PYTHON = {"Py4JNetworkError", "MemoryError", "OperationalError"}


def report_crash(error: BaseException, **where: str) -> str:
    """Log an error that nobody foresaw, without its text. The sentence that the process ends with.

    ``where``: feed, hour and stage as far as the caller knows them; the log's context at the error knows them better.
    """
    places = {**where, **context_of(error)}
    kind = kind_of(error)
    get_logger().error("crashed", **places, error=kind, exception="\n".join(_lines(error)))
    named = ", ".join(f"{name} {places[name]}" for name in ("feed", "hour", "table", "stage") if name in places)
    sentence = _out_of_memory(error) or (
        f"an unforeseen error, {kind}; the log line `crashed` above shows where it came from, and with TIDEMARK_DEBUG=1 what "
        "it said"
    )
    return f"{named}: {sentence}" if named else sentence


def _out_of_memory(error: BaseException) -> str | None:
    """What to do where memory was used up, or the JVM or executors are gone, which that mostly is the reason for; None:
    nothing is so."""
    more = (
        "give the driver more (TIDEMARK_DRIVER_MEMORY), or the executors of a cluster (spark.executor.memory in "
        "TIDEMARK_SPARK_CONF), or have fewer cores share it (TIDEMARK_SPARK_MASTER)"
    )
    for one in _chain(error):
        kinds = set(jvm_kinds(one))
        if isinstance(one, MemoryError) or _NO_MEMORY in kinds:
            return f"memory was used up: {more}"
        if type(one).__name__ == "Py4JNetworkError":
            return f"the JVM is gone, mostly because the machine had no memory left for it: {more}"
        if kinds & {_LOST, _ENDS}:
            why = "their workers' logs say why; where it was for memory (exit code 52 or 137)"
            return f"executors were lost, and {why}, {more}"
    return None


def can_pass(error: BaseException) -> bool:
    """Whether an error that is not ours may be one of storage, of the catalog or of the cluster, which trying again later
    can mend. What nobody foresaw is none: the same input gives it again."""
    for one in _chain(error):
        if isinstance(one, OSError) or type(one).__name__ in _PASSING_PYTHON:
            return True
        if any(name in _PASSING_JVM for name in jvm_kinds(one)):
            return True
    return False


def jvm_kinds(error: BaseException) -> Iterator[str]:
    """The classes of the JVM's exceptions behind one of pyspark's or py4j's, and what they extend. Of the last one, where
    Spark tells no more than that a task failed, ``lost``: an executor was."""
    thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        for _ in range(_MOST_CAUSES):
            if thrown is None:
                return
            kind = thrown.getClass()
            if (
                thrown.getCause() is None
                and kind.getName() == _SPARK_FAILED
                and any(word in str(thrown.getMessage()) for word in _GONE)
            ):
                yield _LOST
            if kind.getName() == _UNMATCHED and (found := _CLASS.search(str(thrown.getMessage()))):
                yield found[1]
            while kind is not None:
                yield str(kind.getName())
                kind = kind.getSuperclass()
            thrown = thrown.getCause()
    except Exception:  # the JVM has ended
        yield _LOST


def kind_of(error: BaseException) -> str:
    """``NumberFormatException [CAST_INVALID_INPUT]``; of one that the JVM has thrown without Spark's name for it
    ``Py4JJavaError of PSQLException``: what it came from in the end."""
    name = type(error).__name__
    with suppress(Exception):  # it is none of Spark's, or the JVM has ended
        condition = error.getCondition()  # type: ignore[attr-defined]
        if isinstance(condition, str) and _CONDITION.match(condition):
            return f"{name} [{condition}]"
    with suppress(Exception):
        thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
        for _ in range(_MOST_CAUSES):
            if thrown.getCause() is None:
                return f"{name} of {thrown.getClass().getSimpleName()}"
            thrown = thrown.getCause()
    return name


def _lines(error: BaseException) -> Iterator[str]:
    """The frames of the error and, after them, those of what it came from."""
    for number, one in enumerate(_chain(error)):
        yield "It came from:" if number else "Frames, the last is where it was raised:"
        for frame in traceback.StackSummary.extract(traceback.walk_tb(one.__traceback__)):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        # Ours are written for people: they name things, and quote no value.
        said = str(one) if isinstance(one, TidemarkError) else _said(one)
        yield f"{kind_of(one)}: {said}" if said else kind_of(one)
        yield from _jvm_lines(one)


def _said(error: BaseException) -> str:
    """The text of an error that is not ours, without secrets; empty, unless the installation asks for it."""
    try:
        settings = Settings()
    except TidemarkError:
        return ""
    if not settings.debug:
        return ""
    secrets = {value for name, value in os.environ.items() if _SECRET.search(name)} | {
        settings.catalog_password,
        settings.kafka_password,
        settings.kafka_key_password,
    }
    text = _IN_A_URL.sub(r"\1***@", str(error))
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its cause, the cause's cause …"""
    one: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _jvm_lines(error: BaseException) -> Iterator[str]:
    """The classes and frames of the JVM's exception behind one of pyspark's or py4j's."""
    thrown: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        for _ in range(_MOST_CAUSES):
            if thrown is None:
                return
            yield f"in the JVM: {thrown.getClass().getName()}"
            for frame in list(thrown.getStackTrace())[:_JVM_FRAMES]:
                yield f"  {frame.toString()}"
            thrown = thrown.getCause()
    except Exception:  # the JVM has ended
        yield "in the JVM: it does not answer any more"
