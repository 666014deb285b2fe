"""Canal's messages where nothing tells their offsets: each is a batch of its own, as only that tells their order then."""

from __future__ import annotations

from tests.convergence.canal import TOPICS, TRAITS, encode_batches, feed
from tests.convergence.histories import Unit
from tests.convergence.wire import Sent

__all__ = ["TOPICS", "TRAITS", "encode", "feed"]


def encode(unit: Unit) -> list[Sent]:
    """As :func:`tests.convergence.canal.encode`."""
    return encode_batches(unit, lambda position: position)
