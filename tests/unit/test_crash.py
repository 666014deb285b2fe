"""An unforeseen error: where it came from is logged, what it quotes is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemark.crash import can_pass, report_crash
from tidemark.errors import SchemaError
from tidemark.logs import configure, log_context
from tidemark.settings import Settings

SECRET = "plugh"


def reported(work: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The sentence and the log of a crash of this work."""
    configure(Settings())
    try:
        work()
    except Exception as error:
        capsys.readouterr()
        sentence = report_crash(error, feed="shop", stage="fold")
    log = capsys.readouterr().err
    assert SECRET not in sentence + log, log
    return sentence, log


def test_the_log_has_every_frame_and_the_sentence_says_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with log_context(hour="2026-11-20T07", stage="assemble"), log_context(table="shop.orders"):
            int(SECRET)

    sentence, log = reported(work, capsys)
    assert sentence == (
        "feed shop, hour 2026-11-20T07, table shop.orders, stage assemble: an unforeseen error, ValueError; the log line "
        "`crashed` above shows where it came from, and with TIDEMARK_DEBUG=1 what it said"
    )
    first, *frames = log.splitlines()
    assert "crashed feed=shop hour=2026-11-20T07 stage=assemble table=shop.orders error=ValueError" in first
    line = work.__code__.co_firstlineno + 2
    assert frames[-2:] == [f"  {__file__}:{line} in work", "ValueError"]


def test_what_an_error_came_from_is_shown_and_ours_keep_their_text(capsys: pytest.CaptureFixture[str]) -> None:
    def ours() -> None:
        try:
            int(SECRET)
        except ValueError as error:
            raise SchemaError("the column is gone", table="shop.orders") from error

    def work() -> None:
        try:
            ours()
        except SchemaError:
            raise KeyError(SECRET)  # noqa: B904 - the context is what is looked for

    sentence, log = reported(work, capsys)
    assert "KeyError" in sentence
    kinds = [line for line in log.splitlines()[1:] if not line.startswith("  ") and ":" not in line[-1]]
    assert kinds == ["KeyError", "SchemaError: table shop.orders: the column is gone", "ValueError"]


def test_who_asks_for_it_sees_what_was_said_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_DEBUG", "1")
    monkeypatch.setenv("TIDEMARK_CATALOG_PASSWORD", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"{SECRET}/longer")

    def work() -> None:
        raise ValueError(f"'12,5' at jdbc:postgresql://ada:open-sesame@db/lake?password={SECRET} with {SECRET}/longer")

    _, log = reported(work, capsys)
    assert log.splitlines()[-1] == ("ValueError: '12,5' at jdbc:postgresql://ada:***@db/lake?password=*** with ***")


def test_an_error_that_is_its_own_cause_ends(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        one, other = ValueError(SECRET), KeyError(SECRET)
        one.__cause__, other.__cause__ = other, one
        raise one

    reported(work, capsys)


def test_of_a_failing_task_the_condition_and_the_frames_of_the_jvm_are_shown(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    value = F.concat(F.col("id").cast("string"), F.lit(SECRET)).cast("int")
    sentence, log = reported(lambda: spark.range(1).select(value).collect(), capfd)
    assert "NumberFormatException [CAST_INVALID_INPUT]" in sentence
    assert "in the JVM: org.apache.spark.SparkNumberFormatException" in log
    assert "  org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInputInCastToNumberError(" in log


def test_of_an_error_in_the_jvm_the_class_is_shown(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    assert spark._jvm is not None
    parse = spark._jvm.java.lang.Integer.parseInt
    _, log = reported(lambda: parse(SECRET), capfd)
    assert "in the JVM: java.lang.NumberFormatException" in log
    assert "java.lang.Integer.parseInt(" in log


def test_only_what_is_not_of_the_input_may_pass(spark: SparkSession) -> None:
    assert spark._jvm is not None
    java = spark._jvm.java

    def raised(work: Callable[[], object]) -> BaseException:
        with pytest.raises(Exception) as caught:
            work()
        return caught.value

    value = F.concat(F.col("id").cast("string"), F.lit(SECRET)).cast("int")
    assert not can_pass(raised(lambda: spark.range(1).select(value).collect())), "a task that fails by its input"
    assert not can_pass(raised(lambda: spark.range(1).select(F.from_json(F.lit("[]"), "string")))), (
        "a plan that is none"
    )
    assert not can_pass(raised(lambda: java.lang.Integer.parseInt(SECRET)))
    assert can_pass(raised(lambda: java.io.FileInputStream("/no/such/file"))), "a storage that does not answer"


@pytest.mark.promise(6)
def test_what_went_with_an_executor_can_be_made_again(spark: SparkSession) -> None:
    """A stage's checkpoints lie in the executors, and are gone with a worker that dies."""
    context = spark.sparkContext
    before = set(context._jsc.getPersistentRDDs())
    rows = spark.range(10).repartition(2).localCheckpoint()
    kept = context._jsc.getPersistentRDDs()
    for number in set(kept) - before:
        kept[number].unpersist(True)
    with pytest.raises(Exception, match="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND") as caught:
        rows.collect()
    assert can_pass(caught.value)


def test_what_to_do_when_memory_is_used_up(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    def in_the_jvm() -> None:
        assert spark.sparkContext._jvm is not None
        spark.sparkContext._jvm.java.util.Arrays.copyOf(bytearray(8), 2**31 - 1)

    def while_a_file_is_read() -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        jvm.scala.util.Failure(jvm.scala.MatchError(jvm.java.lang.OutOfMemoryError("Metaspace"))).get()

    def while_an_executor_ends() -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        jvm.scala.util.Failure(jvm.java.util.concurrent.RejectedExecutionException("Terminated")).get()

    def in_python() -> None:
        raise MemoryError

    def gone() -> None:
        raise Py4JNetworkError(SECRET)

    for work in (in_the_jvm, while_a_file_is_read, while_an_executor_ends, in_python, gone):
        sentence, _ = reported(work, capsys)
        assert "memory" in sentence and "TIDEMARK_DRIVER_MEMORY" in sentence, sentence
        with pytest.raises(Exception) as caught:
            work()
        assert can_pass(caught.value), work
    assert "the JVM is gone" in sentence


def test_an_error_of_the_jvm_is_named_by_what_it_came_from(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        jvm.scala.util.Failure(jvm.java.lang.RuntimeException(SECRET, jvm.java.sql.SQLException(SECRET))).get()

    assert "an unforeseen error, Py4JJavaError of SQLException;" in reported(work, capsys)[0]
