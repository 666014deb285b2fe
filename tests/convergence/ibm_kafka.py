"""IBM's messages where the container keeps offsets: transactions come again in segments of other sizes, and any message
inside one can be missing."""

from __future__ import annotations

from tests.convergence.histories import Unit
from tests.convergence.ibm import TOPICS, TRAITS, feed, messages, never_whole, without
from tests.convergence.wire import Sent

__all__ = ["TOPICS", "TRAITS", "encode", "feed"]


def encode(unit: Unit) -> list[Sent]:
    """As :func:`tests.convergence.ibm.encode`, and perhaps once more behind it, of which some never comes."""
    deeds = len(unit.deeds)
    sent = messages(unit, (deeds, 1, 1, 2)[unit.choice(0, 4)])
    if not unit.together:
        return sent
    if unit.ending == "never":
        # A hole behind the first message, or the end.
        return without(sent, 1 + unit.choice(2, len(sent) - 1) if len(sent) > 1 else 0, unit)
    if len(sent) == 1:
        return sent
    again = messages(unit, (2, 3, deeds, 1)[unit.choice(1, 4)], delivery=1)
    kind = unit.choice(2, 4)
    if kind == 0:  # Q Capture stopped, and sent all of it again
        return [*never_whole(sent[: 1 + unit.choice(3, len(sent) - 1)], unit), *again]
    return [*sent, *again] if kind < 3 else [*sent, *never_whole(again[:-1], unit)]
