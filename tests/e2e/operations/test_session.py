"""A session that runs hour after hour: what one hour has compiled, the next ones use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import debezium
from tests.convergence.wire import Format, Sent
from tests.e2e.change_exports import HOURS, Exports, change, unit
from tidemark.ledger import manifest
from tidemark.pipeline import hour as run
from tidemark.settings import Settings

pytestmark = pytest.mark.full


def test_a_decode_like_the_one_before_compiles_nothing(
    spark: SparkSession, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[int] = []

    def counted(*args: Any) -> None:
        before = _compiled(spark)
        decode(*args)
        compiled.append(_compiled(spark) - before)

    decode = run.decode
    monkeypatch.setattr(run, "decode", counted)
    monkeypatch.setattr(manifest, "_SMALL", 0)  # small hours are not compiled at all
    exports = Exports(Format("debezium", debezium, "kafka_json"), tmp_path, settings, "compiled")
    for number, hour in enumerate(HOURS[:3]):
        exports.run(hour, [one for key in range(5) for one in _written(1000 * number + key + 1, key)])
    assert compiled[-1] == 0, "all that the hours between have compiled fits beside it"


def _written(at: int, key: int) -> list[Sent]:
    return debezium.encode(unit(at, change("a", at, 10, "update", key)))


def _compiled(spark: SparkSession) -> int:
    """Classes that Spark has generated and compiled since its JVM began."""
    assert spark._jvm is not None
    return int(spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount())
