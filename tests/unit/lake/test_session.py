"""The session that everything runs in."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidemark.lake.session import open_session
from tidemark.settings import Settings


def _expression() -> Column:
    return F.coalesce(F.upper("a"), F.col("b").cast("string"), F.when(F.col("a").isin("x", "y"), F.lit("z")))


def test_the_jvm_is_asked_once_what_a_function_is(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = _listen(spark, monkeypatch)
    _expression()
    again = len(sent)
    _expression()
    assert len(sent) > again, "the commands are seen here"
    assert not [command for command in sent[again:] if command.startswith("r\n")]


def test_a_function_that_there_is_not_is_still_an_error(spark: SparkSession) -> None:
    functions: Any = spark._jvm.functions  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(Exception, match="does not exist in the JVM"):
            functions.no_such_function  # noqa: B018


def test_the_session_is_opened_once(spark: SparkSession, settings: Settings) -> None:
    known: Any = spark._jvm.functions  # type: ignore[union-attr]
    assert open_session(settings, "again") is spark
    assert spark._jvm.functions is known  # type: ignore[union-attr]


def _listen(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every command to the JVM from now on."""
    client: Any = type(spark.sparkContext._gateway._gateway_client)
    send, sent = client.send_command, []

    def listening(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        sent.append(command)
        return send(self, command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", listening)
    return sent
