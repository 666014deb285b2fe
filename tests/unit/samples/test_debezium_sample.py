"""The generator of Debezium's exports: the same arguments, the same bytes, and the stream holds what it promises."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tidemark.feeds.loading import load_feed
from tidemark_samples.debezium import TABLES, generate
from tidemark_samples.exporting import Sample

HOURS = ["2026-11-20T22", "2026-11-20T23", "2026-11-21T00"]
Line = dict[str, Any]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sample")
    generate(out, Sample(hours=len(HOURS), events=160, seed=4, first_hour=HOURS[0], poison=5))
    return out


@pytest.fixture(scope="module")
def lines(sample: Path) -> list[Line]:
    """All records, each topic's in the order of offsets; `body`: the value without its schema."""
    found = []
    for path in sample.rglob("part-*"):
        hour = f"{path.parent.parent.name[3:]}T{path.parent.name[3:]}"
        for line in gzip.decompress(path.read_bytes()).splitlines():
            found.append({"hour": hour, **json.loads(line)})
    for line in found:
        try:
            value = json.loads(line["value"]) if line["value"] else {}
        except ValueError:
            value = {"poison": True}
        line["body"] = value.get("payload", value)
    return sorted(found, key=lambda line: (line["topic"], line["offset"]))


def test_the_feed_reads_its_exports(sample: Path) -> None:
    feed = load_feed(sample / "feeds" / "store.yaml")
    assert {path.name for path in (sample / "exports").iterdir()} == set(feed.topics)
    for hour in HOURS:
        assert {path.stem for path in (sample / "truth" / hour).iterdir()} == {t for of in TABLES.values() for t in of}


def test_offsets_have_no_gaps_and_records_lie_in_their_hour(lines: list[Line]) -> None:
    by_topic: dict[str, list[Line]] = {}
    for line in lines:
        by_topic.setdefault(line["topic"], []).append(line)
    for topic, its in by_topic.items():
        assert [line["offset"] for line in its] == list(range(len(its))), topic
        assert [line["timestamp"] for line in its] == sorted(line["timestamp"] for line in its)


def test_the_sample_holds_what_it_promises(sample: Path, lines: list[Line]) -> None:
    events = [line for line in lines if line["body"].get("source", {}).get("connector")]
    assert Counter(line["body"]["op"] for line in events).keys() == set("crudtm")
    values = " ".join(line["value"] for line in events)
    assert "__debezium_unavailable_value" in values and "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==" in values
    moved = [line for line in events if any(h["key"] == "__debezium.oldkey" for h in line["headers"])]
    assert any("__debezium_unavailable_value" in line["value"] for line in moved)
    assert {'"payload"' in line["value"] for line in moved} == {True, False}
    assert sum(line["value"] is None for line in lines) > 20, "no tombstones"
    assert any(line["body"]["op"] == "m" and line["body"]["source"]["txId"] is None for line in events)
    markers = [line["body"] for line in lines if line["topic"].endswith(".transaction")]
    assert any(m["status"] == "END" and m["event_count"] == 0 for m in markers), "no transaction without events"
    hours_of: dict[Any, set[str]] = {}
    for line in events:
        hours_of.setdefault((line["topic"].split(".")[0], line["body"]["source"]["txId"]), set()).add(line["hour"])
    assert sum(len(hours) > 1 for hours in hours_of.values()) >= 4, "too few transactions straddle an hour"
    numbers = [{m["id"].split(":")[0] for m in markers if (":" in m["id"]) == modern} for modern in (True, False)]
    assert numbers[0] & numbers[1], "the connectors' transactions have numbers of their own"


def test_log_and_commit_order_differ_and_runs_come_again(lines: list[Line]) -> None:
    places: dict[str, list[tuple[int, int]]] = {}
    for line in lines:
        source = line["body"].get("source", {})
        if source.get("sequence") and source.get("connector"):
            commit, own = (int(text or 0) for text in json.loads(source["sequence"]))
            places.setdefault(line["topic"], []).append((commit, own))
    assert any(own < commit for of_topic in places.values() for commit, own in of_topic)
    back = [pair for its in places.values() for pair in pairwise(its) if pair[0] > pair[1]]
    assert len(back) >= 6, "nothing is sent again"
    ordinals = [line["body"]["transaction"] for line in lines if line["body"].get("transaction")]
    renumbered = Counter((o["id"], o["total_order"]) for o in ordinals if ":" not in o["id"])
    assert max(renumbered.values()) > 1


def test_objects_hold_a_topic_out_of_order(sample: Path) -> None:
    offsets = []
    for path in sorted((sample / "exports/web.store.customers").glob("*/hr=23/part-*")):
        offsets += [json.loads(line)["offset"] for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert len(offsets) > 10 and offsets != sorted(offsets)


def test_rows_that_are_equal_share_a_position(lines: list[Line]) -> None:
    visits = [line["body"] for line in lines if line["topic"] == "web.store.visits" and line["body"].get("op") == "c"]
    ordinals: dict[str, set[int]] = {}
    for v in visits:
        content = json.dumps([v["source"]["lsn"], v["after"]])
        ordinals.setdefault(content, set()).add(v["transaction"]["total_order"])
    assert max(map(len, ordinals.values())) == 3
