"""Landing out of Kafka, against topics in memory. ``tests/stack/test_kafka.py`` does it against a broker."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidemark.errors import ConfigError, ConflictError, ExportError, NotReadyError
from tidemark.feeds.export_model import Kafka
from tidemark.feeds.model import Feed
from tidemark.ledger.manifest import Manifest
from tidemark.pipeline import kafka_exports
from tidemark.pipeline.exports import is_complete
from tidemark.pipeline.kafka_exports import connection
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.storage.kafka_topics import FoundOffset, KafkaRecord, PartitionLook, TopicLook

START = datetime(2026, 11, 20, tzinfo=UTC)


def hour(number: int) -> str:
    return f"2026-11-20T{number:02d}"


@dataclass
class Partition:
    """A log: records with gaps where something was compacted or aborted."""

    records: list[KafkaRecord] = field(default_factory=list)
    low: int = 0
    open_at: int | None = None  # the first offset of an open transaction

    @property
    def high(self) -> int:
        return self.records[-1].offset + 1 if self.records else self.low

    def put(self, minutes: float, value: bytes | None = b"v", offset: int | None = None, **more: Any) -> None:
        millis = int((START + timedelta(minutes=minutes)).timestamp() * 1000)
        given = {"key": b"k", "headers": (), **more}
        self.records.append(
            KafkaRecord(offset=self.high if offset is None else offset, timestamp=millis, value=value, **given)
        )

    def remove_to(self, low: int) -> None:
        self.records = [record for record in self.records if record.offset >= low]
        self.low = low


class Cluster:
    """Topics in memory."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, Partition]] = {"a": {0: Partition()}}
        self.ids: dict[str, str] = {}
        self.reads: list[tuple[str, int, int, int]] = []

    def look(self, topics: Sequence[str], moments: Sequence[datetime]) -> dict[str, TopicLook | None]:
        return {topic: self._look(topic, moments) if topic in self.topics else None for topic in topics}

    def _look(self, topic: str, moments: Sequence[datetime]) -> TopicLook:
        def first(partition: Partition, moment: datetime) -> FoundOffset | None:
            records = ((one.offset, one.timestamp or 0) for one in partition.records)
            return next((FoundOffset(*one) for one in records if one[1] >= moment.timestamp() * 1000), None)

        looks = {
            number: PartitionLook(
                one.low,
                one.high,
                one.high if one.open_at is None else one.open_at,
                tuple(first(one, moment) for moment in moments),
            )
            for number, one in self.topics[topic].items()
        }
        return TopicLook(self.ids.get(topic, topic), looks)

    def read(self, topic: str, partition: int, first: int, end: int) -> Iterator[KafkaRecord]:
        self.reads.append((topic, partition, first, end))
        return (one for one in self.topics[topic][partition].records if first <= one.offset < end)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(kafka_exports, "KafkaCluster", lambda connection: made)
    return made


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the time that it is, in minutes of the day."""

    def set_now(minutes: float) -> None:
        monkeypatch.setattr(kafka_exports, "_now", lambda: START + timedelta(minutes=minutes))

    set_now(24 * 60)
    return set_now


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake="lake")


def feed(**more: Any) -> Feed:
    kafka = {"servers": ["k:9092"], **more.pop("kafka", {})}
    given = {
        "feed": "shop", "description": "", "owner": "me", "topics": ["a"], "format": {"type": "debezium"},
        "exports": {"kafka": kafka, **more.pop("exports", {})}, **more,
    }  # fmt: skip
    return Feed.model_validate(given)


def lines(settings: Settings, manifest: Manifest) -> list[dict[str, Any]]:
    texts = [gzip.decompress(Path(settings.landing_root, one.path).read_bytes()) for one in manifest.objects]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def offsets(settings: Settings, manifest: Manifest) -> list[int]:
    return [line["offset"] for line in lines(settings, manifest)]


def ranges(manifest: Manifest) -> list[tuple[str, int, int, int]]:
    return [(one.topic, one.partition, one.first, one.end) for one in manifest.offsets]


@pytest.mark.promise(4)
def test_a_record_lands_with_all_that_it_has(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    log.put(1, b"\xff\x00", headers=[("h", b"\xc3\xa4"), ("h", None)])
    log.put(2, None, key=None)
    log.put(61)
    manifest = land(feed(), hour(0), settings)
    (one, two) = lines(settings, manifest)
    assert {**one, "key": b64decode(one["key"]), "value": b64decode(one["value"])} == {
        "topic": "a", "partition": 0, "offset": 0, "timestamp": 1795132860000, "key": b"k", "value": b"\xff\x00",
        "headers": [{"key": "h", "value": "w6Q="}, {"key": "h", "value": None}],
    }  # fmt: skip
    assert (two["key"], two["value"], two["headers"]) == (None, None, [])
    (landed,) = manifest.objects
    assert (landed.records, landed.source, landed.topic) == (2, "kafka:a/0-0-2.jsonl.gz", "a")
    assert ranges(manifest) == [("a", 0, 0, 2)]
    assert Path(settings.landing_root, landed.path).read_bytes()[4:8] == bytes(4), "no time of writing is in it"


@pytest.mark.promise(6)
def test_the_same_hour_again_reads_and_writes_nothing(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    for minutes in (1, 61, 121):
        log.put(minutes)
    first = land(feed(), hour(0), settings)
    content = Path(settings.landing_root, first.objects[0].path).read_bytes()
    log.put(2)  # late: of the hour in which it is written
    log.remove_to(2)  # what has landed may go
    assert land(feed(), hour(0), settings) == first
    assert len(cluster.reads) == 1
    assert Path(settings.landing_root, first.objects[0].path).read_bytes() == content


@pytest.mark.promise(1, 2)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_every_offset_is_of_one_hour_in_any_order(
    cluster: Cluster, settings: Settings, at: Any, order: Sequence[int]
) -> None:
    log = cluster.topics["a"][0]
    for minutes in (10, 50, 70, 59, 130, 125, 5, 190):  # 59 and 5 stand behind their hours
        log.put(minutes)
    del log.records[4]  # compacted
    found: dict[int, list[int]] = {}
    added: list[int] = []
    for turn, number in enumerate([*order, 4]):
        landed = lines(settings, land(feed(), hour(number), settings))
        found[number] = [line["offset"] for line in landed if line["partition"] == 0]
        added += [line["offset"] for line in landed if line["partition"] == 1]
        if turn == 1:
            cluster.topics["a"][1] = Partition()  # a partition that is added, with late records
            for minutes in (5, 70, 65):
                cluster.topics["a"][1].put(minutes)
            log.records = [one for one in log.records if one.offset != 2]  # a first record of an hour is compacted
    seen = [offset for number in sorted(found) for offset in found[number]]
    assert sorted({*seen, 2}) == [0, 1, 2, 3, 5, 6, 7]
    assert len(seen) == len(set(seen)), found
    assert sorted(added) == [0, 1, 2]


def test_what_comes_after_the_hour_was_closed_is_of_the_next(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    log.put(1)
    at(69)
    with pytest.raises(NotReadyError, match="a, partition 0: no record of 2026-11-20T01:00:00Z or later yet"):
        land(feed(), hour(0), settings)
    at(70)
    assert offsets(settings, land(feed(), hour(0), settings)) == [0]
    log.put(59)  # its producer was asleep
    log.put(62)
    at(180)
    assert offsets(settings, land(feed(), hour(1), settings)) == [1, 2]
    assert offsets(settings, land(feed(), hour(0), settings)) == [0]


def test_an_open_transaction_is_waited_for(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    log.put(1)
    log.put(2)
    log.put(61)
    log.open_at = 1
    assert is_complete(feed(), hour(0), settings).why == "a, partition 0: a transaction is open at offset 1"
    with pytest.raises(NotReadyError, match="the export is not complete"):
        land(feed(), hour(0), settings)
    log.open_at = 2
    assert is_complete(feed(), hour(0), settings).ready
    assert offsets(settings, land(feed(), hour(0), settings)) == [0, 1]


def test_an_hour_without_records_is_empty_and_its_offsets_are_known(
    cluster: Cluster, settings: Settings, at: Any
) -> None:
    cluster.topics["a"][0].put(130)
    cluster.topics["a"][1] = Partition()
    manifest = land(feed(), hour(1), settings)
    assert manifest.empty and ranges(manifest) == [("a", 0, 0, 0), ("a", 1, 0, 0)]


def test_a_partition_and_a_topic_that_are_added_are_read_from_where_they_begin(
    cluster: Cluster, settings: Settings, at: Any
) -> None:
    cluster.topics["a"][0].put(61)
    land(feed(), hour(0), settings)
    cluster.topics["a"][1] = Partition()
    cluster.topics["a"][1].put(62)
    cluster.topics["b"] = {0: Partition()}
    for minutes in (1, 63):
        cluster.topics["b"][0].put(minutes)
    manifest = land(feed(topics=["a", "b"]), hour(1), settings)
    assert ranges(manifest) == [("a", 0, 0, 1), ("a", 1, 0, 1), ("b", 0, 1, 2)], "of b not what was before the hour"


def test_a_topic_that_is_not_there(cluster: Cluster, settings: Settings, at: Any) -> None:
    at(75)
    assert is_complete(feed(topics=["a", "b"]), hour(0), settings).why == "the brokers know no topic b"
    at(24 * 60)
    with pytest.raises(ExportError, match="no object of topic b"):
        land(feed(topics=["a", "b"]), hour(0), settings)
    assert land(feed(topics=["a", "b"], exports={"missing": "empty"}), hour(0), settings).empty


@pytest.mark.promise(1)
@pytest.mark.parametrize("without", [[0], [0, 1], [1, 0], [1]])
def test_a_topic_that_is_made_after_an_hour_landed_without_it(
    cluster: Cluster, settings: Settings, at: Any, without: list[int]
) -> None:
    """As by a mirror, which keeps times: its records are of hours that have landed, and lie in none of them."""
    lenient = feed(exports={"missing": "empty"})
    made = cluster.topics.pop("a")
    for number in without:
        assert land(lenient, hour(number), settings).empty
    cluster.topics["a"] = made
    for minutes in (-5, 10, 20, 70, 80, 130, 190):
        made[0].put(minutes)
    found = {number: land(lenient, hour(number), settings) for number in (3, 1, 0, 2)}
    assert sorted(offset for one in found.values() for offset in offsets(settings, one)) == list(range(7))
    assert offsets(settings, found[max(without) + 1])[0] == 0
    assert all(found[number].empty for number in without)


def test_a_topic_that_the_brokers_do_not_know_for_a_while_is_not_read_anew(
    cluster: Cluster, settings: Settings, at: Any
) -> None:
    log = cluster.topics["a"][0]
    lenient = feed(exports={"missing": "empty"})
    for minutes in (10, 70, 130):
        log.put(minutes)
    assert offsets(settings, land(lenient, hour(0), settings)) == [0]
    known = cluster.topics.pop("a")
    land(lenient, hour(1), settings)
    cluster.topics["a"] = known
    assert offsets(settings, land(lenient, hour(2), settings)) == [2]
    assert offsets(settings, land(lenient, hour(1), settings)) == [1]


@pytest.mark.promise(1)
def test_records_that_were_removed_before_they_landed_are_told(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    for minutes in (1, 2, 61, 121):
        log.put(minutes)
    land(feed(), hour(1), settings)  # so that the end of the hour before is decided
    log.remove_to(1)
    with pytest.raises(ExportError, match="may be gone: a, partition 0: the first offset that is left is 1") as raised:
        land(feed(), hour(0), settings)
    assert (raised.value.feed, raised.value.hour) == ("shop", hour(0)) and "removed: accept" in str(raised.value)
    manifest = land(feed(kafka={"removed": "accept"}), hour(0), settings)
    assert offsets(settings, manifest) == [1] and "may be gone" in manifest.notes[0]
    log.remove_to(4)
    with pytest.raises(ExportError, match="are gone: a, partition 0: offsets 3 to 3 were removed"):
        land(feed(), hour(2), settings)
    assert "offsets 3 to 3 were removed" in land(feed(kafka={"removed": "accept"}), hour(2), settings).notes[0]


@pytest.mark.promise(1)
def test_a_log_that_was_cut_off_is_told(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    for minutes in (1, 2, 61):
        log.put(minutes)
    land(feed(), hour(0), settings)
    del log.records[1:]  # a leader that had not heard of them
    with pytest.raises(ExportError, match="the log ends at 1, before 2, where the hour before ended"):
        land(feed(), hour(1), settings)


@pytest.mark.promise(1)
def test_a_topic_that_was_made_again_is_not_taken_for_the_old_one(
    cluster: Cluster, settings: Settings, at: Any
) -> None:
    log = cluster.topics["a"][0]
    for minutes in (1, 61):
        log.put(minutes)
    first = land(feed(), hour(0), settings)
    cluster.ids["a"], cluster.topics["a"] = "another", {0: Partition()}
    for minutes in (70, 75, 130):
        cluster.topics["a"][0].put(minutes)
    assert land(feed(), hour(0), settings) == first
    with pytest.raises(ExportError, match="deleted and made again"):
        land(feed(), hour(1), settings)
    manifest = land(feed(kafka={"removed": "accept"}), hour(1), settings)
    assert ranges(manifest) == [("a", 0, 0, 2)] and "made again" in manifest.notes[0]


@pytest.mark.promise(1)
@pytest.mark.parametrize("accept", [True, False])
def test_a_topic_that_is_made_again_while_it_is_read_does_not_land(
    cluster: Cluster, settings: Settings, at: Any, monkeypatch: pytest.MonkeyPatch, accept: bool
) -> None:
    for minutes in (1, 61):
        cluster.topics["a"][0].put(minutes)
    one, read = feed(kafka={"removed": "accept"} if accept else {}), Cluster.read

    def made_again(self: Cluster, *where: Any) -> Iterator[KafkaRecord]:
        self.ids["a"], self.topics["a"] = "another", {0: Partition()}
        for minutes in (31, 32):
            self.topics["a"][0].put(minutes)
        return read(self, *where)

    with monkeypatch.context() as patch, pytest.raises(ConflictError, match="a: the topic was deleted, or made again"):
        patch.setattr(Cluster, "read", made_again)
        land(one, hour(0), settings)
    if accept:
        assert "were of a topic that was deleted" in land(one, hour(0), settings).notes[0]
    else:
        with pytest.raises(ExportError, match="were of a topic that was deleted"):
            land(one, hour(0), settings)


def test_a_clock_that_is_years_ahead_does_not_stop_the_hours(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    log.put(1)
    log.put(60 * 24 * 365 * 900)
    at(75)
    log.put(10)
    manifest = land(feed(), hour(0), settings)
    assert offsets(settings, manifest) == [0, 1, 2] and "has not come yet" in manifest.notes[0]
    log.put(80)
    at(140)
    assert offsets(settings, land(feed(), hour(1), settings)) == [3]


def test_an_hour_lands_anew_from_the_same_offsets(cluster: Cluster, settings: Settings, at: Any) -> None:
    log = cluster.topics["a"][0]
    for minutes in (1, 61):
        log.put(minutes)
    first = land(feed(), hour(0), settings)
    again = land(feed(), hour(0), settings, anew_behind=0)
    assert (again.version, again.withdrawn) == (2, [first.objects[0].path])
    assert (again.offsets, again.objects[0].sha256) == (first.offsets, first.objects[0].sha256)


def test_of_two_runs_at_once_one_decides(
    cluster: Cluster, settings: Settings, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = cluster.topics["a"][0]
    log.put(1)
    save, others = kafka_exports.save_hour_start, []

    def other_was_faster(*given: Any) -> bool:
        if not others:
            others.append(save(*given))
            log.put(2)
        return bool(save(*given))

    monkeypatch.setattr(kafka_exports, "save_hour_start", other_was_faster)
    first = land(feed(), hour(1), settings)
    assert others == [True] and ranges(first) == [("a", 0, 1, 2)]
    assert ranges(land(feed(), hour(0), settings)) == [("a", 0, 0, 1)]


def test_secrets_come_from_settings(settings: Settings, tmp_path: Path) -> None:
    kafka = Kafka(servers=["k:9092", "l:9092"], sasl="scram-sha-256", tls=True, ca="ca.pem")
    with pytest.raises(ConfigError, match="a user and a password"):
        connection(kafka, settings)
    signed = Settings(home=tmp_path, kafka_user="u", kafka_password="p")
    with pytest.raises(ConfigError, match="which is not there"):
        connection(kafka, signed)
    (tmp_path / "ca.pem").touch()
    assert connection(kafka, signed) == {
        "bootstrap.servers": "k:9092,l:9092", "security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "u", "sasl.password": "p", "ssl.ca.location": str(tmp_path / "ca.pem"),
    }  # fmt: skip
    assert "p'" not in repr(signed).replace("tmp'", "")
