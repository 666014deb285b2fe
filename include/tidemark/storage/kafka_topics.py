"""Topics of a Kafka cluster: which offsets they have, and the records of a range of offsets, in bounded memory.

What goes wrong comes out as :class:`TransientError` (the brokers may answer later) or :class:`TerminalError`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from tidemark.errors import ConfigError, ExportError, TransientError

#: Seconds within which the brokers have to answer a question, or give the next records.
_WITHIN = 20.0
_QUIET = 120.0
#: Records that a reader takes at once: so many, and of large ones so few that they are about so many bytes.
_MOST_AT_ONCE = 1000
_BYTES_AT_ONCE = 8 << 20
_REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,  # one side's certificate
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_CLIENT = {
    "client.id": "tidemark",
    "log_level": 2,  # its errors are told by ours; it would repeat each of them on stderr
}
_READER = {
    "group.id": "tidemark",  # the client wants one; nothing is committed, and no group is joined
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",  # an offset that is gone must not become another
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "check.crcs": True,
    "queued.max.messages.kbytes": 16384,  # bounds the memory of a reader
    "fetch.message.max.bytes": 4 << 20,
}


@dataclass(frozen=True)
class FoundOffset:
    """The first record at or behind a moment."""

    offset: int
    """Its offset; -1: there is none."""
    timestamp: int
    """Its own time, in milliseconds since 1970."""


@dataclass(frozen=True)
class PartitionLook:
    """The offsets of a partition at one time."""

    low: int
    """The first offset that the brokers still have."""
    high: int
    """The offset behind the last record."""
    stable: int
    """The offset up to which no transaction is open."""
    found: tuple[FoundOffset | None, ...]
    """For each moment that was asked for, the first record of that time or later; None where there is none."""


@dataclass(frozen=True)
class TopicLook:
    """A topic at one time."""

    id: str
    """Kafka's id of the topic: another topic of the same name, made later, has another."""
    partitions: dict[int, PartitionLook]
    """By number, all partitions that the topic has."""


@dataclass(frozen=True, kw_only=True)
class KafkaRecord:
    """One record as it lies in the log."""

    offset: int
    """Its place in its partition."""
    timestamp: int | None
    """Its own time, in milliseconds since 1970; None: it has none."""
    key: bytes | None
    """Its key's bytes; None: it has no key."""
    value: bytes | None
    """Its value's bytes; None: it has no value."""
    headers: Sequence[tuple[str, bytes | None]]
    """Its headers in their order: name, and bytes or None. A name may come twice."""


class KafkaTopics(Protocol):
    """What is asked of a cluster."""

    def look(self, topics: Sequence[str], moments: Sequence[datetime]) -> dict[str, TopicLook | None]:
        """The offsets of each topic; None for one that the brokers do not know."""

    def read(self, topic: str, partition: int, first: int, end: int) -> Iterator[KafkaRecord]:
        """The committed records from an offset up to the one before ``end``, which no open transaction may reach. Offsets
        may have gaps: markers, aborted records, compaction. ExportError when the first are no longer there."""


class KafkaCluster:
    """See :class:`KafkaTopics`. ``connection``: settings of librdkafka, secrets among them."""

    def __init__(self, connection: dict[str, Any]) -> None:
        self._servers = str(connection["bootstrap.servers"])
        self._connection = connection | _CLIENT

    def look(self, topics: Sequence[str], moments: Sequence[datetime]) -> dict[str, TopicLook | None]:
        told: list[KafkaError] = []
        admin: AdminClient | None = None
        with self._errors(told, told_by=lambda: admin.poll(0.1) if admin else None):
            admin = AdminClient({**self._connection, "error_cb": told.append})  # type: ignore[dict-item]
            ids: dict[str, str | None] = {}
            partitions: list[TopicPartition] = []
            for topic, answer in admin.describe_topics(TopicCollection(list(topics)), request_timeout=_WITHIN).items():
                try:
                    described = answer.result()
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                    ids[topic] = None
                else:
                    ids[topic] = str(described.topic_id)
                    partitions += [TopicPartition(topic, one.id) for one in described.partitions]
            # The ends first: what is written while the rest is asked for is of a later look.
            latest, earliest = OffsetSpec.latest(), OffsetSpec.earliest()  # type: ignore[no-untyped-call]
            stable = _offsets(admin, partitions, latest, IsolationLevel.READ_COMMITTED)
            high = _offsets(admin, partitions, latest)
            found = [
                _offsets(admin, partitions, OffsetSpec.for_timestamp(int(moment.timestamp() * 1000)))
                for moment in moments
            ]
            low = _offsets(admin, partitions, earliest)
        looks: dict[str, dict[int, PartitionLook]] = {topic: {} for topic in topics}
        for one in partitions:
            at = (one.topic, one.partition)
            first = tuple(None if answers[at].offset < 0 else answers[at] for answers in found)
            looks[one.topic][one.partition] = PartitionLook(low[at].offset, high[at].offset, stable[at].offset, first)
        return {topic: TopicLook(id_, looks[topic]) if (id_ := ids.get(topic)) else None for topic in topics}

    def read(self, topic: str, partition: int, first: int, end: int) -> Iterator[KafkaRecord]:
        told: list[KafkaError] = []
        with self._errors(told, f"{topic}, partition {partition}"):
            consumer = Consumer({**self._connection, **_READER, "error_cb": told.append})
            try:
                consumer.assign([TopicPartition(topic, partition, first)])
                heard, largest = time.monotonic(), 1 << 17
                while True:
                    messages = consumer.consume(max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // largest)), 1.0)
                    for message in messages:
                        if message.error() is None and _offset(message) < end:
                            yield _record(message)
                        elif message.error() is None or _is_end(message, end):
                            return
                    if sizes := [len(message) for message in messages if message.error() is None]:
                        heard, largest = time.monotonic(), max(1, *sizes, (largest + 1) // 2)
                    elif time.monotonic() - heard > _QUIET:
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            finally:
                consumer.close()

    @contextmanager
    def _errors(
        self, told: list[KafkaError], place: str = "", told_by: Callable[[], object] = lambda: None
    ) -> Iterator[None]:
        """``told``: why there was no answer, as far as the client has said it; ``told_by`` has it say the rest."""
        try:
            yield
        except KafkaException as raised:
            told_by()
            error: KafkaError = raised.args[0]
            causes = [error, *told]
            where = f"{place}: " if place else ""
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                problem = f"{where}the brokers no longer have the offsets that the hour begins with"
                raise ExportError(problem, fix="run the hour again, which says what is left") from None
            if refused := next((one for one in causes if one.code() in _REFUSED), None):
                raise ConfigError(
                    f"{where}Kafka at {self._servers} refuses: {refused.name()}",
                    fix="check TIDEMARK_KAFKA_USER and TIDEMARK_KAFKA_PASSWORD, `tls` and `ca` under `exports.kafka`, and "
                    "what the user may do (docs/kafka.md)",
                ) from None
            if error.code() == KafkaError._INVALID_ARG:  # its text may quote what it was given
                problem = f"the connection to {self._servers} cannot be set up as `exports.kafka` says"
                raise ConfigError(problem, fix="check `ca`, `certificate`, `key` and its password") from None
            reason = next((one for one in told if one.code() != KafkaError._ALL_BROKERS_DOWN), error)
            raise TransientError(
                f"{where}Kafka at {self._servers} did not answer: {reason.name()}",
                fix="check the addresses under `exports.kafka.servers` and whether the brokers run",
            ) from None


def _offsets(
    admin: AdminClient,
    partitions: Sequence[TopicPartition],
    which: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[tuple[str, int], FoundOffset]:
    if not partitions:
        return {}
    asked = admin.list_offsets(dict.fromkeys(partitions, which), isolation_level=isolation, request_timeout=_WITHIN)
    answers = {(one.topic, one.partition): answer.result() for one, answer in asked.items()}
    return {at: FoundOffset(answer.offset, answer.timestamp) for at, answer in answers.items()}


def _is_end(message: Message, end: int) -> bool:
    """Whether a message without a record says that the range has ended; it may say that a shorter log has."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return _offset(message) >= end


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def _record(message: Message) -> KafkaRecord:
    kind, timestamp = message.timestamp()
    try:
        headers: Any = message.headers() or []
    except UnicodeDecodeError:
        raise ExportError(
            f"{message.topic()}, partition {message.partition()}, offset {message.offset()}: a header's name is not UTF-8",
            fix="have its producer mended; exports of the topic as files can be read in its place",
        ) from None
    return KafkaRecord(
        offset=_offset(message),
        timestamp=timestamp if kind else None,
        key=message.key(),
        value=message.value(),
        headers=headers,
    )
