"""What a reader of Kafka says when nobody answers. ``tests/stack/test_kafka.py`` reads from a broker."""

from __future__ import annotations

import pytest

from tidemark.errors import TransientError
from tidemark.storage import kafka_topics
from tidemark.storage.kafka_topics import KafkaCluster


def test_brokers_that_go_away_while_they_are_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "_QUIET", 1.0)
    with pytest.raises(
        TransientError, match=r"a, partition 0: Kafka at 127\.0\.0\.1:1 did not answer: _TRANSPORT"
    ) as raised:
        list(KafkaCluster({"bootstrap.servers": "127.0.0.1:1"}).read("a", 0, 0, 1))
    assert raised.value.fix and "whether the brokers run" in raised.value.fix
