"""What holds for every format's generator. What its stream holds, and that it comes to its truth, stands in its own file."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.feeds.loading import load_feed
from tidemark.formats import FORMATS
from tidemark.hours import hours_between
from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

HOURS = hours_between("2026-11-20T22", "2026-11-21T01")
SAMPLE = Sample(hours=len(HOURS), events=150, seed=11, first_hour=HOURS[0], poison=4, container="kafka_json")


@pytest.fixture(scope="module", params=FORMATS)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("sample")
    load_sample(request.param).generate(out, SAMPLE)
    return request.param, out


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_same_arguments_same_bytes(sample: tuple[str, Path], tmp_path: Path) -> None:
    load_sample(sample[0]).generate(tmp_path, SAMPLE)
    written = _files(sample[1])
    assert len(written) > 3 * len(HOURS) and _files(tmp_path) == written


def test_another_seed_gives_another_stream(sample: tuple[str, Path], tmp_path: Path) -> None:
    load_sample(sample[0]).generate(tmp_path, replace(SAMPLE, seed=12))
    assert _files(tmp_path) != _files(sample[1])


def test_the_feed_reads_its_exports(sample: tuple[str, Path]) -> None:
    format_, out = sample
    feed = load_feed(out / "feeds" / f"{load_sample(format_).FEED}.yaml")
    assert feed.format["type"] == format_
    assert {path.name for path in (out / "exports").iterdir()} == set(feed.topics)


def test_every_hour_has_a_truth_with_rows(sample: tuple[str, Path]) -> None:
    truths = [{path.name: path.read_text() for path in (sample[1] / "truth" / hour).iterdir()} for hour in HOURS]
    assert len({frozenset(truth) for truth in truths}) == 1, "every table in every hour"
    assert all(any(truth[name].strip() for truth in truths) for name in truths[0]), (
        "a table without a row proves nothing"
    )
    assert truths[0] != truths[-1]


def test_offsets_have_no_gaps_and_objects_are_out_of_order(sample: tuple[str, Path]) -> None:
    """A topic's offsets come once, and lie in its objects in no order, but IBM's."""
    format_, offsets = sample[0], defaultdict(list)
    for path in sorted((sample[1] / "exports").rglob("*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            record = json.loads(line)
            offsets[record["topic"]].append(record["offset"])
    for topic, found in offsets.items():
        assert sorted(found) == list(range(len(found))), topic
    assert any(found != sorted(found) for found in offsets.values()) == (format_ != "ibm")


@pytest.mark.parametrize("hours", [1, 2])
def test_few_hours(sample: tuple[str, Path], tmp_path: Path, hours: int) -> None:
    load_sample(sample[0]).generate(tmp_path, Sample(hours=hours, events=60, seed=3))
    assert len(list((tmp_path / "truth").iterdir())) == hours
