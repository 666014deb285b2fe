"""What an encoder makes of a unit: messages as the format writes them, and what each of them says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.convergence.histories import CHECKED, KEYS, POOL, Unit
from tests.convergence.oracle import Change, Message, Transaction


@dataclass(frozen=True)
class Sent:
    """A message on its way: what it says, and its bytes on a topic. ``needed``: the transaction waits for it.
    ``tight``: it comes in the hour of the message before it; of a unit whose messages do not come in a stream, of the first.
    ``in_turn``: its topic keeps it in order. ``offset``: its own, wherever it is exported; None: as it is
    delivered. ``delivery``: which of its transaction's deliveries it is part of. ``spread``: it goes to any partition, the
    same message again to another one."""

    says: Message
    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    needed: bool = True
    tight: bool = False
    in_turn: bool = False
    offset: int | None = None
    delivery: int = 0
    spread: bool = False


@dataclass(frozen=True)
class Format:
    """A format under test. ``stream``: only the order tells which rows are of a transaction, so that exports keep it:
    hours cut the stream, and what is delivered again is a whole unit. ``in_order``: a transaction's end says nothing of
    how much came before it, so that it comes last."""

    name: str
    encoder: ModuleType
    container: str
    stream: bool = False
    in_order: bool = False
    by_offset: bool = False

    def feed(self, name: str, exports: str) -> dict[str, Any]:
        """The feed file."""
        own: dict[str, Any] = self.encoder.feed(name)
        for table in own["tables"].values():
            short = table["name"].removeprefix(f"{name}.")
            if short in CHECKED:
                table["checks"] = [{"column": "n", "min": 0, "consequence": "quarantine"}]
        return {
            "feed": name, "description": "d", "owner": "o", "topics": list(self.encoder.TOPICS),
            "exports": {"path": f"{exports}/{{topic}}/dt={{date}}/hr={{hour}}/*", "missing": "empty"},
            "container": {"type": self.container}, "quarantine": {"limit": 1}, **own,
        }  # fmt: skip


def transactions(sent: Sequence[Sent], *, taken_back: bool = False) -> dict[str, Transaction]:
    """The transactions that messages of one unit are part of. ``taken_back``: the last message says so."""
    names = {one.says.tx for one in sent if one.says.tx is not None}
    deliveries = sorted({one.delivery for one in sent})
    return {
        name: Transaction(
            _parts(sent, name, deliveries[0]),
            sent[-1].says.name if taken_back else None,
            again=tuple(_parts(sent, name, delivery) for delivery in deliveries[1:]),
        )
        for name in names
    }


def _parts(sent: Sequence[Sent], tx: str, delivery: int) -> frozenset[str]:
    parts = [one.says for one in sent if (one.says.tx, one.delivery) == (tx, delivery) and one.needed]
    return frozenset(name for says in parts for name in (says.name, says.described_by) if name is not None)


def name_of(unit: Unit, what: object) -> str:
    """A message's name."""
    return f"{unit.number}.{what}"


def row(change: Change) -> dict[str, Any]:
    """The columns a change sent, those of the key first."""
    sent = dict(change.sent)
    first = KEYS.get(change.table, ("id",))
    return {name: sent[name] for name in (*first, "n", "s", "big", *POOL) if name in sent}


def key_row(change: Change) -> dict[str, Any]:
    """The key alone."""
    return dict(zip(KEYS[change.table], change.key, strict=True))


def prior_row(change: Change) -> dict[str, Any]:
    """The old key alone."""
    assert change.prior is not None
    return dict(zip(KEYS[change.table], change.prior, strict=True))
