"""Landing out of a real Kafka broker."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.stack.kafka import Broker, running_broker
from tidemark.errors import ConfigError, ConflictError, ExportError, NotReadyError, TransientError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.manifest import Manifest
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline import kafka_exports
from tidemark.pipeline.exports import is_complete
from tidemark.pipeline.land import land
from tidemark.settings import Settings
from tidemark.storage import kafka_topics
from tidemark_samples import debezium
from tidemark_samples.exporting import Sample

pytestmark = pytest.mark.full

PROJECT = Path(__file__).parent.parent.parent

#: Records may not be of a time to come, and markers of transactions are of now.
HOUR = Hour.of(datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        yield running


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.server, "log_level": 2})


@pytest.fixture
def topic(request: pytest.FixtureRequest, admin: AdminClient) -> str:
    """A new topic with two partitions, which forgets nothing by itself."""
    name = str(request.node.name).replace("[", "-").replace("]", "")
    make(admin, name)
    return name


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake="lake")


def make(admin: AdminClient, name: str, **more: str) -> None:
    config = {"retention.ms": "-1", **{key.replace("_", "."): value for key, value in more.items()}}
    for answer in admin.create_topics([NewTopic(name, 2, 1, config=config)]).values():
        answer.result()


def feed(broker: Broker, topic: str, **kafka: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "shop", "description": "", "owner": "me", "topics": [topic], "format": {"type": "debezium"},
            "exports": {"kafka": {"servers": [broker.server], **kafka}},
        }
    )  # fmt: skip


def millis(minutes: float) -> int:
    """A time in milliseconds, from the first moment of the hour on."""
    return int((HOUR.start + timedelta(minutes=minutes)).timestamp() * 1000)


def put(producer: Producer, topic: str, *minutes: float, partition: int = 0, **more: Any) -> None:
    for one in minutes:
        given = {"key": b"k", "value": f"{one}".encode(), **more}
        producer.produce(topic, partition=partition, timestamp=millis(one), **given)
    producer.flush()


def lines(settings: Settings, manifest: Manifest) -> list[dict[str, Any]]:
    texts = [gzip.decompress(Path(settings.landing_root, one.path).read_bytes()) for one in manifest.objects]
    found = [json.loads(line) for text in texts for line in text.splitlines()]
    return sorted(found, key=lambda line: (line["partition"], line["offset"]))


def values(settings: Settings, manifest: Manifest) -> list[str]:
    return [b64decode(line["value"]).decode() for line in lines(settings, manifest)]


def plain(broker: Broker) -> Producer:
    return Producer({"bootstrap.servers": broker.server, "linger.ms": 0, "log_level": 2})


def transactional(broker: Broker, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.server, "transactional.id": name, "log_level": 2})
    producer.init_transactions(30)
    return producer


@pytest.mark.promise(1, 6)
def test_hours_land_and_land_again(broker: Broker, topic: str, settings: Settings) -> None:
    producer = plain(broker)
    put(producer, topic, 1, 2, 70, 3, 130)  # 3 comes late
    put(producer, topic, 5, partition=1, value=b"\xff", headers=[("h", b"1"), ("h", None)])
    put(producer, topic, 6, partition=1, key=None, value=None)
    one = feed(broker, topic)
    first = land(one, HOUR, settings)
    assert [(found["partition"], found["offset"], found["timestamp"]) for found in lines(settings, first)] == [
        (0, 0, millis(1)), (0, 1, millis(2)), (1, 0, millis(5)), (1, 1, millis(6)),
    ]  # fmt: skip
    bytes_, tombstone = lines(settings, first)[2:]
    assert bytes_["value"] == "/w==" and bytes_["headers"] == [
        {"key": "h", "value": "MQ=="},
        {"key": "h", "value": None},
    ]
    assert (tombstone["key"], tombstone["value"]) == (None, None)
    assert values(settings, land(one, HOUR.plus(1), settings)) == ["70", "3"]
    assert land(one, HOUR, settings) == first
    assert [(o.partition, o.first, o.end) for o in first.offsets] == [(0, 0, 2), (1, 0, 2)]


@pytest.mark.promise(3)
def test_only_what_is_committed_lands_and_an_open_transaction_is_waited_for(
    broker: Broker, topic: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_until(lambda: datetime.now(UTC).minute < 59, 61)  # markers are of now, and have to be of the same hour
    hour = Hour.of(datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    monkeypatch.setattr(kafka_exports, "_now", lambda: hour.end + timedelta(minutes=10))
    one, producer = feed(broker, topic), transactional(broker, topic)
    for minutes, end in ((180, producer.abort_transaction), (181, producer.commit_transaction)):
        producer.begin_transaction()
        put(producer, topic, minutes, minutes + 0.5)
        end()
    producer.begin_transaction()
    put(producer, topic, 182)
    wait_until(lambda: "a transaction is open at offset 6" in is_complete(one, hour, settings).why)
    with pytest.raises(NotReadyError):
        land(one, hour, settings)
    producer.commit_transaction()
    wait_until(lambda: is_complete(one, hour, settings).ready)
    manifest = land(one, hour, settings)
    assert values(settings, manifest) == ["181", "181.5", "182"]
    assert [(o.first, o.end) for o in manifest.offsets] == [(0, 8), (0, 0)], "markers are of the hour too"
    producer.begin_transaction()
    put(producer, topic, 183)
    producer.abort_transaction()
    monkeypatch.setattr(kafka_exports, "_now", lambda: hour.end + timedelta(minutes=70))
    (landed,) = land(one, hour.plus(1), settings).objects
    assert landed.records == 0, "a range of nothing but what was aborted"


def test_gaps_of_compaction_are_no_loss(broker: Broker, admin: AdminClient, settings: Settings) -> None:
    make(
        admin, "compacted", cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100", min_compaction_lag_ms="0",
    )  # fmt: skip
    producer, one = plain(broker), feed(broker, "compacted")
    for minutes, key in ((1, b"stays"), (2, b"k"), (3, b"k"), (4, b"k"), (70, b"next"), (71, b"last")):
        put(producer, "compacted", minutes, key=key)
        time.sleep(0.2)
    cluster = kafka_topics.KafkaCluster({"bootstrap.servers": broker.server})
    wait_until(lambda: [record.offset for record in cluster.read("compacted", 0, 0, 5)] == [0, 3, 4], 60)
    manifest = land(one, HOUR, settings)
    assert values(settings, manifest) == ["1", "4"] and manifest.notes == []
    assert [(o.first, o.end) for o in manifest.offsets] == [(0, 4), (0, 0)]


@pytest.mark.promise(1)
def test_what_the_brokers_have_removed_is_told_unless_it_has_landed(
    broker: Broker, admin: AdminClient, topic: str, settings: Settings
) -> None:
    one, producer = feed(broker, topic), plain(broker)
    put(producer, topic, 1, 2, 61, 62, 121)
    first = land(one, HOUR, settings)
    for answer in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        answer.result()
    assert land(one, HOUR, settings) == first
    cluster = kafka_topics.KafkaCluster({"bootstrap.servers": broker.server})
    with pytest.raises(ExportError, match="no longer have the offsets"):  # removed after the look at them
        list(cluster.read(topic, 0, 2, 5))
    with pytest.raises(ExportError, match=f"{topic}, partition 0: offsets 2 to 2 were removed before the hour landed"):
        land(one, HOUR.plus(1), settings)
    manifest = land(feed(broker, topic, removed="accept"), HOUR.plus(1), settings)
    assert values(settings, manifest) == ["62"] and "offsets 2 to 2 were removed" in manifest.notes[0]


@pytest.mark.promise(1)
def test_a_topic_that_is_made_again_and_one_that_is_not_there(
    broker: Broker, admin: AdminClient, topic: str, settings: Settings
) -> None:
    one = feed(broker, topic)
    put(plain(broker), topic, 1, 61, 121)
    first = land(one, HOUR, settings)
    admin.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
    assert land(one, HOUR, settings) == first
    with pytest.raises(NotReadyError, match="the brokers know no topic never-made"):
        land(feed(broker, "never-made"), HOUR.plus(1), settings)
    make(admin, topic)
    put(plain(broker), topic, 65, 66, 130)
    with pytest.raises(ExportError, match="deleted and made again"):
        land(one, HOUR.plus(1), settings)
    assert values(settings, land(feed(broker, topic, removed="accept"), HOUR.plus(1), settings)) == ["65", "66"]


@pytest.mark.promise(1)
def test_a_topic_that_is_made_again_while_it_is_read(
    broker: Broker, admin: AdminClient, topic: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(plain(broker), topic, 1, 2, 70)
    read = kafka_topics.KafkaCluster.read

    def made_again(self: kafka_topics.KafkaCluster, *where: Any) -> Any:
        admin.delete_topics([topic])[topic].result()
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
        make(admin, topic)
        put(plain(broker), topic, 31, 32, 33)
        return read(self, *where)

    monkeypatch.setattr(kafka_topics.KafkaCluster, "read", made_again)
    with pytest.raises(ConflictError, match="made again, while it was read"):
        land(feed(broker, topic), HOUR, settings)


@pytest.mark.promise(1)
def test_a_topic_that_is_made_late(broker: Broker, admin: AdminClient, settings: Settings) -> None:
    lenient = feed(broker, "made-late")
    lenient = lenient.model_copy(update={"exports": lenient.exports.model_copy(update={"missing": "empty"})})
    assert land(lenient, HOUR, settings).empty
    make(admin, "made-late")
    put(plain(broker), "made-late", 10, 20, 70, 130)
    assert values(settings, land(lenient, HOUR.plus(1), settings)) == ["10", "20", "70"]
    assert land(lenient, HOUR, settings).empty


def test_many_records_are_read_in_little_memory(broker: Broker, topic: str, settings: Settings) -> None:
    producer = plain(broker)
    for number in range(60_000):
        producer.produce(topic, partition=0, timestamp=millis(1), value=number.to_bytes(8) * 64)
        producer.poll(0)
    put(producer, topic, 70)
    manifest = land(feed(broker, topic), HOUR, settings)
    assert [one.records for one in manifest.objects] == [60_000]


def test_a_password_is_needed_and_is_not_told(
    broker: Broker, topic: str, settings: Settings, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topics, "_WITHIN", 3.0)
    put(plain(broker), topic, 1, 61)
    one = feed(broker, topic, servers=[broker.sasl_server], sasl="plain")
    signed = {"kafka_user": broker.user, "kafka_password": broker.password}
    assert values(settings, land(one, HOUR, Settings(home=settings.home, lake="lake", **signed))) == ["1"]
    wrong = Settings(home=settings.home, lake="other", **(signed | {"kafka_password": "not-the-secret"}))
    with pytest.raises(ConfigError, match="refuses: ") as raised:
        land(one, HOUR, wrong)
    said = f"{raised.value} {capfd.readouterr()}"
    assert "not-the-secret" not in said and broker.password not in said


def test_a_connection_by_tls_knows_the_broker(
    broker: Broker, topic: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topics, "_WITHIN", 3.0)
    put(plain(broker), topic, 1, 61)
    more = {"servers": [broker.tls_server], "sasl": "scram-sha-256", "tls": True}
    signed = Settings(home=tmp_path, lake="lake", kafka_user=broker.user, kafka_password=broker.password)
    with pytest.raises(ConfigError, match="refuses: _SSL"):
        land(feed(broker, topic, **more), HOUR, signed)
    (tmp_path / "no.pem").write_text("none")
    with pytest.raises(ConfigError, match="cannot be set up"):
        land(feed(broker, topic, ca="no.pem", **more), HOUR, signed)
    assert values(settings, land(feed(broker, topic, ca=str(broker.ca), **more), HOUR, signed)) == ["1"]


def test_brokers_that_do_not_answer_are_for_another_try(
    broker: Broker, topic: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topics, "_WITHIN", 2.0)
    with pytest.raises(TransientError, match=r"Kafka at 127\.0\.0\.1:1 did not answer"):
        land(feed(broker, topic, servers=["127.0.0.1:1"]), HOUR, settings)


def wait_until(done: Any, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        time.sleep(0.1)


def test_hours_out_of_kafka_come_to_the_tables_that_exports_come_to(broker: Broker, tmp_path: Path) -> None:
    debezium.generate(tmp_path, Sample(hours=2, events=80, seed=4))
    hours = ["2026-11-20T00", "2026-11-20T01"]
    producer = plain(broker)
    for hour in [Hour.parse(hour) for hour in hours]:
        paths = (tmp_path / "exports").glob(f"*/dt={hour.date}/hr={hour.clock}/*.gz")
        records = [json.loads(line) for path in paths for line in gzip.decompress(path.read_bytes()).splitlines()]
        for record in sorted(records, key=lambda record: (record["topic"], record["partition"], record["offset"])):
            make_once(broker, record["topic"])
            key, value = (
                json.dumps(record[name]) if isinstance(record[name], dict) else record[name]
                for name in ("key", "value")
            )
            moment = int(hour.start.timestamp() * 1000) + 1
            headers = [(header["key"], header["value"]) for header in record["headers"]]
            producer.produce(record["topic"], value, key, record["partition"], timestamp=moment, headers=headers)
        producer.flush()
    file = tmp_path / "feeds" / "store.yaml"
    feed_file = yaml.safe_load(file.read_text())
    del feed_file["container"]
    feed_file["exports"] = {"kafka": {"servers": [broker.server]}, "missing": "empty"}
    file.write_text(yaml.safe_dump(feed_file))
    shutil.rmtree(tmp_path / "exports")
    environment = {
        "TIDEMARK_HOME": str(tmp_path),
        "TIDEMARK_FEEDS": "feeds",
        "TIDEMARK_LAKE": "lake",
        "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"),
    }
    # A process of its own: a Spark session keeps the catalog it began with. To it the hours are over.
    today = "from datetime import *; kafka_exports._now = lambda: datetime(2026, 11, 21, tzinfo=UTC)"
    code = f"from tidemark.pipeline import kafka_exports; {today}; from tidemark.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "store", "--hour", hours[0], "--to", hours[1]],
        env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-12000:]
    settings = Settings(home=tmp_path, lake="lake")
    for hour in hours:
        for truth in (tmp_path / "truth" / hour).iterdir():
            rows, key = read_snapshot(settings, truth.stem, hour)
            lines_ = (json_lines(rows, key), truth.read_text().splitlines())
            got, want = (sorted(json.dumps(json.loads(line), sort_keys=True) for line in side) for side in lines_)
            assert got == want, f"{truth.stem} at {hour}"


@cache
def make_once(broker: Broker, topic: str) -> None:
    """Its records have times of a day that may not have come yet."""
    make(
        AdminClient({"bootstrap.servers": broker.server, "log_level": 2}),
        topic,
        message_timestamp_after_max_ms=str(2**62),
    )
