"""How a session is fitted to an hour."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.lake.tuning import TUNED, tune_session, without_long_methods

PARTITIONS = "spark.sql.shuffle.partitions"
MIB = 1 << 20


@pytest.mark.parametrize(
    ("small", "landed", "given", "partitions"),
    [
        (True, 0, "4", "1"),
        (False, 9 * MIB, "4", "4"),
        (False, 130 * MIB, "4", "8"),
        (False, 1300 * MIB, "4", "81"),
        (False, 1 << 40, "4", "200"),
        (False, 1300 * MIB, "24", "24"),
    ],
    ids=["small", "larger", "a million", "ten million", "at most", "as it is set"],
)
def test_shuffle_partitions_grow_with_the_hour(small: bool, landed: int, given: str, partitions: str) -> None:
    assert TUNED[PARTITIONS] == "4"
    found: dict[str, str] = {}
    context = SimpleNamespace(getConf=lambda: {PARTITIONS: given})
    spark: Any = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=found.__setitem__))
    tune_session(spark, small=small, landed_bytes=landed)
    assert found[PARTITIONS] == partitions
    assert found["spark.sql.adaptive.enabled"] == str(not small).lower()


def test_the_longest_method_is_shorter_for_a_while() -> None:
    name = "spark.sql.codegen.hugeMethodLimit"
    conf = {name: "65535"}
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=conf.__getitem__, set=conf.__setitem__))
    with pytest.raises(ZeroDivisionError), without_long_methods(spark):
        assert conf[name] == "8000"
        raise ZeroDivisionError
    assert conf[name] == "65535"
