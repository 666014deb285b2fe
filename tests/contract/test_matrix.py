"""Container and format are two independent choices: a generated hour decodes to the same changes out of each container.

A format is found by its name in the registry: it brings ``tidemark_samples.<format>`` with ``generate(out, sample)``. So is a
container: it brings a writer in ``tidemark_samples.exporting``.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.contract.pairs import EXCUSED
from tidemark.containers import CONTAINERS, load_container
from tidemark.feeds.loading import load_feed
from tidemark.formats import FORMATS, load_format
from tidemark.formats.contract import CHANGES
from tidemark_samples import exporting
from tidemark_samples.exporting import Sample

#: The container that holds all that a message has.
WHOLE = "kafka_json"
PAIRS = [(f, c) for f in FORMATS for c in CONTAINERS if c != WHOLE and (f, c) not in EXCUSED]
#: The formats whose hours are read in `make test`: documents, and records that end themselves. Between them they are in every
#: container.
IN_FIRST_TIER = ("debezium", "ibm")

#: Formats whose generators leave out, by the container, what cannot be distinguished there.
OWN_MESSAGES = {"canal", "debezium"}
#: By format, what offsets are a part of: it is not compared where there are none.
BY_OFFSET = {"canal": {"position", "tx_ordinal"}}

_EVERYWHERE = {"object", "record", "raw"}
_WITHOUT_OFFSETS = {"partition", "offset"}
_VALUES_ONLY = _WITHOUT_OFFSETS | {"key", "prior_key", "tx_part"}
#: What a container has no room for: these columns of CHANGES are not compared.
LACKS: dict[str, set[str]] = {
    "lines": _VALUES_ONLY,
    "pubsub": _WITHOUT_OFFSETS,
    "raw": _WITHOUT_OFFSETS | {"entry", "topic"},
}


def decoded(spark: SparkSession, out: Path, format_name: str, container: str, *, as_whole: bool = False) -> list[Row]:
    """The changes of a generated hour, its objects where they land.

    ``as_whole``: of the messages that the generator has for the container (it may leave out what the container cannot
    carry), but written as whole records.
    """
    generate = import_module(f"tidemark_samples.{format_name}").generate
    with pytest.MonkeyPatch.context() as patch:
        if as_whole:
            patch.setitem(exporting._WRITERS, container, exporting._WRITERS[WHOLE])
        generate(out, Sample(hours=1, events=60, seed=7, container=container))
    feed = load_feed(next((out / "feeds").glob("*.yaml")))
    assert (feed.format["type"], feed.container["type"]) == (format_name, container)
    if as_whole:
        feed, container = feed.model_copy(update={"container": {"type": WHOLE}}), WHOLE
    objects = []
    for path in sorted(path for path in (out / "exports").rglob("*") if path.is_file() and path.name != "_SUCCESS"):
        landed = out / "landing" / feed.feed / path.parent.relative_to(out / "exports") / "v00001" / path.name
        landed.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, landed)
        objects.append(str(landed))
    records = load_container(container).read(spark, objects, feed.container_options)
    return load_format(format_name).decode(records, feed, feed.format_options).collect()


def compared(rows: list[Row], lacks: set[str]) -> Counter[str]:
    """Changes by how often they are there, without what is not compared."""
    found: Counter[str] = Counter()
    for row in rows:
        compared = {name: row[name] for name in CHANGES.names if name not in _EVERYWHERE | lacks}
        found[json.dumps(compared, default=_plain, sort_keys=True, ensure_ascii=False)] += 1
    return found


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def _of(name: str, *more: str) -> Any:
    """A test's parameters, in the tier of the format."""
    return pytest.param(name, *more, marks=[] if name in IN_FIRST_TIER else pytest.mark.full)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Row]]:
    """By format, the changes of its hour out of whole records."""
    return cache(lambda name: decoded(spark, tmp_path_factory.mktemp(name), name, WHOLE))


@pytest.mark.parametrize("name", [_of(name) for name in FORMATS])
def test_the_generated_hour_is_worth_comparing(whole: Callable[[str], list[Row]], name: str) -> None:
    rows = whole(name)
    assert len(rows) >= 40
    assert {"insert", "update", "delete"} <= {row.op for row in rows}
    assert not [row.problem for row in rows if row.op == "bad"]


@pytest.mark.parametrize(("name", "container"), [_of(*pair) for pair in PAIRS])
def test_a_format_reads_the_same_out_of_every_container(
    spark: SparkSession, whole: Callable[[str], list[Row]], tmp_path: Path, name: str, container: str
) -> None:
    lacks = LACKS.get(container, set())
    lacks = lacks | BY_OFFSET.get(name, set()) if "offset" in lacks else lacks
    own = name in OWN_MESSAGES
    rows = decoded(spark, tmp_path / "whole", name, container, as_whole=True) if own else whole(name)
    if "key" in lacks:  # a message without a value is nothing but its key
        rows = [row for row in rows if row.kind != "tombstone"]
    expected, got = compared(rows, lacks), compared(decoded(spark, tmp_path / "own", name, container), lacks)
    assert got - expected == Counter(), "changes that are not in the messages"
    assert expected - got == Counter(), "changes that are missing"


def test_every_container_is_in_the_matrix() -> None:
    covered = {container for _, container in PAIRS} | {WHOLE}
    assert covered == set(CONTAINERS)
    assert {container for name, container in PAIRS if name in IN_FIRST_TIER} | {WHOLE} == set(CONTAINERS)
    assert set(EXCUSED) <= {(f, c) for f in FORMATS for c in CONTAINERS}, "an excuse for what does not exist"
