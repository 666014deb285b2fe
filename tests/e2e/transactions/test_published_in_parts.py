"""A transaction of which an hour publishes a part, and another hour the rest: an end of IBM, or of a connector that was
started again, that is run before the rest; rows that land behind the end of DataWorks; and what the feed's policy applies as
it is, or did before its file was another. Rows that exchange their keys in it are both there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, HOURS, TRANSACTIONS, Event, end, event, part, row
from tests.e2e.debezium_messages import DEBEZIUM as DEBEZIUM_ALONE
from tests.e2e.feed_pair import FeedPair
from tests.unit.formats.ibm_messages import record
from tidemark.operations.audit import audit
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(2, 4), pytest.mark.full]


def ibm(offset: int, transaction: int, segment: str, *changes: tuple[str, str]) -> Event:
    lsn, unit = (f"0000:0000:0000:0000:{transaction:04x}{more}" for more in (":0000:0000:0000", ""))
    lines = [record(op, values, table="T", unit=unit, lsn=lsn, segment=segment) + "\n" for op, values in changes]
    return {
        "topic": "t",
        "partition": 0,
        "offset": offset,
        "timestamp": 1,
        "key": None,
        "value": "".join(lines),
        "headers": [],
    }


IBM = [
    [ibm(1, 5, "0000", ("ISRT", ',,1,"a"'), ("ISRT", ',,2,"b"')), ibm(2, 6, "0001", ("REPL", '1,"a",2,"a2"'))],
    [ibm(3, 6, "0000", ("REPL", '2,"b",1,"b2"'))],
]


def dataworks(number: int, op: str, before: Event | None = None, after: Event | None = None) -> Event:
    is_row = before is not None or after is not None
    columns = [{"name": "id", "type": "LONG"}, {"name": "s", "type": "STRING"}]
    source = {"dbType": "Oracle", "dbName": "d", "schemaName": "TEST", "tableName": "T"}
    value = {
        "schema": {
            "dataColumn": columns if is_row else None, "primaryKey": ["id"] if is_row else None,
            "source": source if is_row else None,
        },
        "payload": {
            "before": before and {"dataColumn": before}, "after": after and {"dataColumn": after},
            "sequenceId": str(17951328 * 10**12 + number), "timestamp": {"eventTime": 1795132800000}, "op": op, "ddl": None,
        },
        "version": "0.0.1",
    }  # fmt: skip
    message = json.dumps(value)
    return {
        "topic": "t",
        "partition": 0,
        "offset": number,
        "timestamp": 1,
        "key": None,
        "value": message,
        "headers": [],
    }


def of(id_: int, s: str) -> Event:
    return {"id": id_, "s": s}


DATAWORKS = [
    [
        dataworks(10, "TRANSACTION_BEGIN"), dataworks(11, "INSERT", None, of(1, "a")),
        dataworks(12, "INSERT", None, of(2, "b")), dataworks(13, "TRANSACTION_END"), dataworks(20, "TRANSACTION_BEGIN"),
        dataworks(22, "UPDATE_AFTER", of(2, "b"), of(1, "b2")), dataworks(23, "TRANSACTION_END"),
    ],
    [dataworks(21, "UPDATE_AFTER", of(1, "a"), of(2, "a2"))],
]  # fmt: skip


def debezium(order: int, op: str, id_: int, old: int | None = None, number: int | None = None) -> Event:
    after = row(id_, old, "moved") if old else None
    sent = part(event(op, 200 + order, after, key={"id": id_}, table="t"), "77", number or order)
    value = json.loads(sent["value"])
    value["source"] |= {"txId": 77, "sequence": json.dumps(["200", str(200 + order)])}
    old_key = [{"key": "__debezium.oldkey", "value": json.dumps({"id": old})}] if old else []
    return sent | {"value": json.dumps(value), "headers": old_key}


DEBEZIUM = [
    [
        *(part(event("c", 100 + id_, row(id_, id_), table="t"), str(70 + id_), 1) for id_ in (1, 2)),
        end("71", 1),
        end("72", 1),
    ],
    [debezium(3, "d", 2), debezium(4, "c", 1, 2), end("77", 4)],
    [debezium(1, "d", 1), debezium(2, "c", 2, 1)],
    [],
    [],
    [],
]
#: The connector was started again in the transaction, and counts the rest by itself.
AGAIN = [DEBEZIUM[0], DEBEZIUM[2], [debezium(3, "d", 2, number=1), debezium(4, "c", 1, 2, number=2), end("77", 2)]]
#: The rest comes behind what was applied of it.
IN_ORDER = [DEBEZIUM[0], DEBEZIUM[2], [], [], DEBEZIUM[1]]
APPLIED = {**TRANSACTIONS, "transactions": {"alarm": "1h", "overdue": "apply"}}
#: What was published of it counts, though the feed file is another when the rest comes: nothing is applied any more as it is,
#: or nothing tells of transactions.
HELD, ALONE = {"transactions": {}}, {**DEBEZIUM_ALONE, "topics": ["t"]}
COUNTED_ALONE = [DEBEZIUM[0], [*DEBEZIUM[2], end("77", 2)], DEBEZIUM[1][:2]]


@pytest.mark.parametrize(
    ("feed", "source", "columns", "sent", "order", "wanted"),
    [
        pytest.param(
            {"format": {"type": "ibm"}}, "TEST.T", {"ID": "INTEGER", "NAME": "VARCHAR(20)"}, IBM, (1, 0),
            [(1, "b2"), (2, "a2")], id="the end first",
        ),
        pytest.param(
            {"format": {"type": "dataworks"}}, "d.TEST.T", {"id": "LONG", "s": "STRING"}, DATAWORKS, (0, 1),
            [(1, "b2"), (2, "a2")], id="behind the end",
        ),
        pytest.param(
            TRANSACTIONS, "s.t", COLUMNS, AGAIN, (0, 2, 1), [(1, 2), (2, 1)], id="an end that counts the rest alone"
        ),
        pytest.param(APPLIED, "s.t", COLUMNS, DEBEZIUM, (0, 1, 5, 2), [(1, 2), (2, 1)], id="overdue"),
        pytest.param(
            APPLIED, "s.t", COLUMNS, IN_ORDER, (0, 1, 3, 4), [(1, 2), (2, 1)], id="overdue and then the rest"
        ),
        pytest.param(
            APPLIED, "s.t", COLUMNS, IN_ORDER, (0, 1, 3, (4, HELD)), [(1, 2), (2, 1)], id="overdue no more"
        ),
        pytest.param(
            TRANSACTIONS, "s.t", COLUMNS, COUNTED_ALONE, (0, 1, (2, ALONE)), [(1, 2), (2, 1)], id="transactions no more"
        ),
    ],
)  # fmt: skip
def test_rows_that_exchange_keys_are_both_there(
    spark: SparkSession, settings: Settings, tmp_path: Path, request: pytest.FixtureRequest, feed: dict[str, Any],
    source: str, columns: dict[str, str], sent: list[list[Event]], order: tuple[int | tuple[int, dict[str, Any]], ...],
    wanted: list[tuple[int, Any]],
) -> None:  # fmt: skip
    name = f"in_parts_{request.node.callspec.id.replace(' ', '_')}"
    table = {"name": f"{name}_fixed.t", "columns": columns, "key": [next(iter(columns))]}
    pair = FeedPair(name, tmp_path, spark, settings, **feed, tables={source: table})
    for hour, events in zip(HOURS, sent, strict=False):
        for topic in sorted({one["topic"] for one in events}):
            pair.export(hour, [one for one in events if one["topic"] == topic], topic=topic)
    for step in order:
        number, changes = step if isinstance(step, tuple) else (step, {})
        pair.run(HOURS[number], **changes)
    found = [tuple(found.values())[:2] for found in pair.rows(pair.fixed, "t")]
    assert sorted(found) == wanted
    assert not audit(pair.feed(pair.fixed), settings).findings
