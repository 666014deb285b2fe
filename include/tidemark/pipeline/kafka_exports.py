"""Topics that are read from Kafka itself: ``exports.kafka`` of a feed file. See ``docs/kafka.md``.

The hour of a partition is a range of offsets (:mod:`tidemark.pipeline.hour_offsets`), which becomes one object of the
container ``kafka_json``. It is read once from the brokers, into a passing file that then lands as any object does.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isal.igzip import IGzipFile

from tidemark.errors import ConfigError, ConflictError, ExportError, TransientError
from tidemark.feeds.export_model import Kafka
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.hour_starts import NOT_THERE, HourStart, TopicStart, load_hour_start, save_hour_start
from tidemark.ledger.manifest import OffsetRange
from tidemark.pipeline.hour_export import HourExport, Readiness, TopicExport
from tidemark.pipeline.hour_offsets import Around, first_offset, may_have_lost
from tidemark.settings import Settings
from tidemark.storage.contract import StoredObject
from tidemark.storage.kafka_topics import KafkaCluster, KafkaRecord, KafkaTopics, TopicLook
from tidemark.storage.objects import storage_of

_ACCEPT = "set `exports.kafka.removed: accept` to land what is left, with a note in the receipt"


@dataclass(frozen=True)
class _Range:
    """The offsets of one partition that the hour is made of."""

    id: str
    """Kafka's id of the topic: another topic of the same name has another."""
    offsets: OffsetRange
    """The topic, the partition, its first offset and the one behind the last."""

    def stored(self, hour: Hour) -> StoredObject:
        """As an object of the source; how long it is shows when it is fetched."""
        o = self.offsets
        name = f"{o.partition}-{o.first}-{o.end}.jsonl.gz"
        return StoredObject(
            location=f"kafka:{o.topic}/{name}",
            name=name,
            size=0,
            fingerprint=f"{self.id}-{o.first}-{o.end}",
            modified=hour.end,
        )


@dataclass(kw_only=True)
class _Topics:
    """An hour of a feed's topics: see :class:`tidemark.pipeline.exports.HourExport`."""

    feed: Feed
    """The feed that reads the topics."""
    hour: Hour
    """The hour that is looked at."""
    settings: Settings
    """Where what is decided of hours is kept."""
    cluster: KafkaTopics
    """The brokers, from which the records are read."""
    looks: dict[str, TopicLook | None]
    """What the brokers said of each topic; None: they know no topic of this name."""
    kept: dict[Hour, HourStart | None]
    """By hour, what was decided of its start in other runs; None: nothing was. Of the hour and the next one; where that is
    not all decided, of the hours around these too."""
    starts: dict[Hour, dict[str, TopicStart]] = field(default_factory=dict)
    """Where the hour and the next one begin in each topic: as was decided, else as is decided now. A topic that was known to
    an hour around, and is not to the brokers, is not here."""
    waits: list[str] = field(default_factory=list)
    """Why the hour cannot land yet, each a place in a partition; empty: nothing keeps it."""
    lost: list[str] = field(default_factory=list)
    """Why records of the hour may be gone; empty: nothing says so."""

    def __post_init__(self) -> None:
        for number, hour in enumerate((self.hour, self.hour.plus(1))):
            kept = self.kept[hour]
            self.starts[hour] = dict(kept.topics) if kept else {}
            for topic in self.feed.topics:
                look = self.looks[topic]
                if topic not in self.starts[hour] and look is not None:
                    self.starts[hour][topic] = self._decide(topic, look, number)
                elif topic not in self.starts[hour] and not self._was_known(topic):
                    self.starts[hour][topic] = TopicStart(id=NOT_THERE, offsets={})
        self.ranges = [one for topic in self.feed.topics for one in self._ranges(topic)]

    def _was_known(self, topic: str) -> bool:
        """Whether an hour around knows the topic: that the brokers do not may pass."""
        around = (kept.topics.get(topic) for kept in self.kept.values() if kept)
        return any(start and start.id != NOT_THERE for start in around)

    def _decide(self, topic: str, look: TopicLook, number: int) -> TopicStart:
        """Where the hour (0) or the next (1) begins in a topic of which nothing is decided."""
        hour, now, settle = self.hour.plus(number), _now(), self.feed.exports.settle
        before, after = self._offsets(hour.plus(-1), topic, look.id), self._offsets(hour.plus(1), topic, look.id)
        offsets, notes = {}, []
        for partition, one in sorted(look.partitions.items()):
            around = Around((before or {}).get(partition, 0), None if after is None else after.get(partition, 0))
            first = first_offset(one, number, hour.start, now, settle, around)
            place = f"{topic}, partition {partition}"
            offsets[partition] = first.offset
            if first.waits:
                self.waits.append(f"{place}: {first.waits}")
            if first.note:
                notes.append(f"{place}: {first.note}")
            if one.high < around.after:
                self.lost.append(f"{place}: {first.note}")
            if number == 0 and may_have_lost(one, first.offset):
                self.lost.append(f"{place}: the first offset that is left is {one.low}, which may be inside the hour")
        return TopicStart(id=look.id, offsets=offsets, notes=notes)

    def _offsets(self, hour: Hour, topic: str, id_: str) -> dict[int, int] | None:
        """What is decided of an hour's start in a topic; None where nothing is."""
        decided = self.starts.get(hour)
        if decided is None:
            kept = self.kept.get(hour)
            decided = kept.topics if kept else {}
        start = decided.get(topic)
        return start.offsets if start and start.id in (id_, NOT_THERE) else None

    def _ranges(self, topic: str) -> list[_Range]:
        start, end = (self.starts[hour].get(topic) for hour in (self.hour, self.hour.plus(1)))
        if start is None or end is None:
            return []
        if start.id != end.id and NOT_THERE not in (start.id, end.id):
            self.lost.append(f"{topic}: the topic was deleted and made again within the hour")
        first = self._offsets(self.hour, topic, end.id) or {}
        return [
            _Range(end.id, OffsetRange(topic=topic, partition=one, first=begin, end=max(begin, offset)))
            for one, offset in sorted(end.offsets.items())
            for begin in (first.get(one, 0),)
        ]

    @property
    def offsets(self) -> list[OffsetRange]:
        return [one.offsets for one in self.ranges]

    @property
    def topics(self) -> list[TopicExport]:
        place = "kafka:{}"
        return [
            TopicExport(
                topic=topic,
                place=place.format(topic),
                objects=[
                    one.stored(self.hour)
                    for one in self.ranges
                    if one.offsets.topic == topic and one.offsets.first < one.offsets.end
                ],
                missing=end is None or (end.id == NOT_THERE and self.looks[topic] is None),
            )
            for topic in self.feed.topics
            for end in (self.starts[self.hour.plus(1)].get(topic),)
        ]

    def readiness(self) -> Readiness:
        """Every partition has a record of a later hour, or the hour ended ``settle`` ago; no transaction of it is open."""
        missing, now, exports = [one.topic for one in self.topics if one.missing], _now(), self.feed.exports
        if missing and (exports.missing == "fail" and now < self.hour.end + exports.wait):
            return Readiness(False, f"the brokers know no topic {', '.join(missing)}")
        if self.waits:
            more = f" and {len(self.waits) - 1} more" if len(self.waits) > 1 else ""
            return Readiness(False, f"{self.waits[0]}{more}")
        if now < self.hour.end:
            return Readiness(False, f"the hour ends at {self.hour.end:%FT%TZ}")
        return Readiness(True, "every partition is read up to the next hour")

    def keep(self) -> bool:
        if self.lost and self.feed.exports.kafka and self.feed.exports.kafka.removed == "fail" and self._decides():
            more = f" (and {len(self.lost) - 1} more)" if len(self.lost) > 1 else ""
            raise ExportError(f"records of the hour may be gone: {self.lost[0]}{more}", fix=_ACCEPT)
        for hour, topics in self.starts.items():
            kept = self.kept[hour]
            if topics.keys() <= (kept.topics.keys() if kept else set()):
                continue
            version = kept.version + 1 if kept else 1
            start = HourStart(feed=self.feed.feed, hour=hour, version=version, topics=topics, created_at=_now())
            if not save_hour_start(self.settings, start):
                return False
        return True

    def _decides(self) -> bool:
        """Whether this run is the first to say what the hour is made of."""
        return any(
            topics.keys() - (kept.topics.keys() if (kept := self.kept[hour]) else set())
            for hour, topics in self.starts.items()
        )

    def notes(self) -> list[str]:
        notes = [f"records of the hour may be gone: {why}" for why in self.lost]
        notes += [f"records of the hour are gone: {why}" for one in self.ranges if (why := self._gone(one))]
        ends = self.starts[self.hour.plus(1)]
        return notes + [note for topic in self.feed.topics if topic in ends for note in ends[topic].notes]

    def _gone(self, one: _Range) -> str:
        """Why not all of a range can be read any more; "" when it can."""
        o, look = one.offsets, self.looks[one.offsets.topic]
        place = f"{o.topic}, partition {o.partition}"
        partition = look.partitions.get(o.partition) if look and look.id == one.id else None
        if o.first >= o.end:
            return ""
        if partition is None:
            return f"{place}: offsets {o.first} to {o.end - 1} were of a topic that was deleted"
        if partition.high < o.end:
            return f"{place}: the log ends at offset {partition.high}, and the hour at {o.end}"
        if partition.low > o.first:
            return f"{place}: offsets {o.first} to {min(partition.low, o.end) - 1} were removed before the hour landed"
        return ""

    def fetch(self, topic: str, stored: StoredObject, folder: Path) -> StoredObject:
        """The records of a range as a file. ExportError when some of them are gone, unless that is accepted."""
        one = next(one for one in self.ranges if one.stored(self.hour).location == stored.location)
        o, look, kafka = one.offsets, self.looks[topic], self.feed.exports.kafka
        if (why := self._gone(one)) and not (kafka and kafka.removed == "accept"):
            raise ExportError(
                f"records of the hour are gone: {why}",
                fix=f"keep records longer (retention.ms of the topic) than an hour may wait to land; {_ACCEPT}",
            )
        partition = look.partitions.get(o.partition) if look and look.id == one.id else None
        first, end = (max(o.first, partition.low), min(o.end, partition.high)) if partition else (o.end, o.end)
        path = folder / f"{uuid.uuid4().hex}.jsonl.gz"
        records = self.cluster.read(topic, o.partition, first, end) if first < end else ()
        _write_lines(path, topic, o.partition, records)
        if first < end:
            self._require_topic(topic, one.id)
        fetched = storage_of(str(path), self.settings).find(str(path))
        assert fetched is not None
        return fetched

    def _require_topic(self, topic: str, id_: str) -> None:
        """ConflictError where a topic is another by now. It is read by its name, and offsets of the other mean others."""
        now = self.cluster.look([topic], [])[topic]
        if now is None or now.id != id_:
            problem = f"{topic}: the topic was deleted, or made again, while it was read"
            raise ConflictError(problem, fix="run the hour again, which says what is gone")


def look_at_topics(feed: Feed, hour: Hour, settings: Settings, cluster: KafkaTopics | None = None) -> HourExport:
    """The offsets that the hour is made of: those that were decided, and for what was not, what the brokers say now."""
    assert feed.exports.kafka is not None
    cluster = cluster or KafkaCluster(connection(feed.exports.kafka, settings))
    kept = {hour.plus(number): load_hour_start(settings, feed.feed, hour.plus(number)) for number in (0, 1)}
    if not all(start and start.topics.keys() >= set(feed.topics) for start in kept.values()):
        kept |= {hour.plus(number): load_hour_start(settings, feed.feed, hour.plus(number)) for number in (-1, 2)}
    looks = cluster.look(feed.topics, [hour.start, hour.end])
    return _Topics(feed=feed, hour=hour, settings=settings, cluster=cluster, looks=looks, kept=kept)


def connection(kafka: Kafka, settings: Settings) -> dict[str, Any]:
    """What librdkafka connects with. Holds secrets. ConfigError for one that is not set, and for a file that is not there."""
    protocol = ("sasl_" if kafka.sasl else "") + ("ssl" if kafka.tls else "plaintext")
    conf: dict[str, Any] = {"bootstrap.servers": ",".join(kafka.servers), "security.protocol": protocol}
    if kafka.sasl:
        if not (settings.kafka_user and settings.kafka_password):
            problem = "`exports.kafka.sasl` needs a user and a password, which are not set"
            where = f"; in Airflow they are those of the connection {kafka.connection}" if kafka.connection else ""
            raise ConfigError(problem, fix=f"set TIDEMARK_KAFKA_USER and TIDEMARK_KAFKA_PASSWORD{where}")
        conf |= {"sasl.mechanism": kafka.sasl.upper(), "sasl.username": settings.kafka_user}
        conf["sasl.password"] = settings.kafka_password
    for name, key in (("ca", "ssl.ca"), ("certificate", "ssl.certificate"), ("key", "ssl.key")):
        if (file := getattr(kafka, name)) is not None:
            path = settings.path(file)
            if not path.is_file():
                raise ConfigError(f"`exports.kafka.{name}` names {path}, which is not there", fix="put it there")
            conf[f"{key}.location"] = str(path)
    if kafka.key is not None and settings.kafka_key_password:
        conf["ssl.key.password"] = settings.kafka_key_password
    return conf


def _write_lines(path: Path, topic: str, partition: int, records: Iterable[KafkaRecord]) -> None:
    """A line for each record, compressed. The same records give the same bytes."""
    head = f'{{"topic":{json.dumps(topic)},"partition":{partition},"offset":'
    compressed: Any = IGzipFile
    try:
        with path.open("wb") as file, compressed("", "wb", fileobj=file, mtime=0) as lines:
            for record in records:
                lines.write(f"{head}{_rest_of_line(record)}\n".encode())
    except OSError as error:
        raise TransientError(
            f"the passing file of {topic}, partition {partition} cannot be written: {error.strerror}",
            fix="make room where temporary files are (TMPDIR): the hour's records lie there, compressed, until they land",
        ) from error


def _rest_of_line(record: KafkaRecord) -> str:
    headers = ",".join(f'{{"key":{json.dumps(key)},"value":{_base64(value)}}}' for key, value in record.headers)
    timestamp = "null" if record.timestamp is None else record.timestamp
    return (
        f'{record.offset},"timestamp":{timestamp},"key":{_base64(record.key)},"value":{_base64(record.value)},'
        f'"headers":[{headers}]}}'
    )


def _base64(content: bytes | None) -> str:
    return "null" if content is None else f'"{b64encode(content).decode()}"'


def _now() -> datetime:
    return datetime.now(UTC)
