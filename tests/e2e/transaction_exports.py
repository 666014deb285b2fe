"""Whole transactions of Debezium, exported for a pair of feeds."""

from __future__ import annotations

import json

from tests.e2e.debezium_messages import Event, event, row
from tests.e2e.feed_pair import FeedPair

DEBEZIUM = {
    "topics": ["t", "srv.transaction"], "quarantine": {"limit": 1},
    "format": {"type": "debezium", "decimals": "string", "transactions": "srv.transaction"},
}  # fmt: skip


def transaction(number: int, *changes: tuple[str, str, int, int | str]) -> list[Event]:
    """Its changes, (op, table, id, n), and last its END."""
    sent = []
    for order, (op, table, id_, n) in enumerate(changes, 1):
        lsn = number * 100 + order
        after = row(id_, n) if op not in ("d", "t") else None
        one = event(op, lsn, after, key={"id": id_} if op != "t" else None, table=table)
        value = json.loads(one["value"])
        value["transaction"] = {"id": f"{number}:{lsn}", "total_order": order}
        value["source"]["sequence"] = json.dumps([str(number * 100), str(lsn)])
        sent.append(one | {"value": json.dumps(value)})
    end = {"status": "END", "id": f"{number}:{number * 100 + 99}", "event_count": len(changes)}
    return [*sent, {**sent[0], "topic": "srv.transaction", "key": None, "value": json.dumps(end)}]


def export(pair: FeedPair, hour: str, sent: list[Event]) -> None:
    for topic in DEBEZIUM["topics"]:
        pair.export(hour, [one for one in sent if one["topic"] == topic], topic=str(topic))


def ids(pair: FeedPair, table: str) -> dict[int, int]:
    return {r["id"]: r["n"] for r in pair.rows(pair.fixed, table)}
