"""Qlik's messages as Kafka records."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.formats.qlik_messages import headers, message


def qlik(
    number: int, operation: str, data: dict[str, Any], mask: str, before: dict[str, Any] | None = None, *,
    counter: int = 1, last: bool = True, transaction: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A Kafka record of one change, by default a transaction by itself, its bound columns by the mask alone."""
    given = headers(
        operation, changeSequence=f"20261120010203{number:021d}", transactionId=f"{transaction or number:032d}",
        columnMask=mask, changeMask=mask if operation == "UPDATE" else None, transactionEventCounter=counter,
        transactionLastEvent=last,
    )  # fmt: skip
    value = json.dumps(message(data, given, before))
    return {"topic": "t", "partition": 0, "offset": number, "timestamp": 1795143600000, "key": None, "value": value,
            "headers": []}  # fmt: skip


def in_kafka(described: dict[str, Any]) -> dict[str, Any]:
    """A Kafka record of a metadata message."""
    return {"topic": "t", "partition": 0, "offset": 30, "timestamp": 1795143600000, "key": None,
            "value": json.dumps(described), "headers": []}  # fmt: skip
