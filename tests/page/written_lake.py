"""A lake with feeds of all five formats, written as the page reads it, without Spark: one is good, one late, one stopped, one
has a quarantine, and one holds transactions that are overdue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from tidemark.hours import Hour
from tidemark.lake.spark_conf import CATALOG
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import CheckResult, Counts, Receipt, TableProgress, TableReceipt
from tidemark.ledger.state_store import save_state
from tidemark.operations.explained_rows import ExplainedRow, answer_name, save_explained
from tidemark.settings import Settings

#: What a message may hold: in a browser that took it for markup it would open a dialog, or make an element.
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'`{{7*7}}"
#: By feed: its format.
FORMATS = {"shop": "debezium", "payroll": "ibm", "crm": "qlik", "mall": "dataworks", "inventory": "canal"}
#: By feed: what is the matter with it.
HEALTH = {"crm": "stopped", "payroll": "late", "inventory": "waiting", "mall": "waiting", "shop": "good"}
FEED = """\
feed: {feed}
description: {description}
owner: {feed}-data
topics: [{feed}.changes]
exports: {{path: "{{topic}}/dt={{date}}/hr={{hour}}/*"}}
container: {{type: {container}}}
format: {{type: {format}}}
start: {start}:00:00Z
tables:
  {source}:
    name: {feed}.{table}
    key: [id]
    columns: {{id: {number}}}
    checks: [{{column: id, min: 0, consequence: quarantine}}]
"""
_TABLES = {"shop": "orders", "payroll": "staff", "crm": "people", "mall": "goods", "inventory": "stock"}
_ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_(), "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip


@dataclass
class WrittenLake:
    """``receipts``: by feed, oldest first. ``newest``: the last whole hour. ``changed``: the hour that last changed
    ``shop.orders``."""

    newest: Hour
    receipts: dict[str, list[Receipt]] = field(default_factory=dict)

    #: The run that explained row 2 of ``payroll.staff``.
    answered = "manual__answered"

    @property
    def changed(self) -> Hour:
        return self.newest.plus(-3)


def write_lake(settings: Settings) -> WrittenLake:
    """Write it into an installation that is empty."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    lake = WrittenLake(Hour.of(now).plus(-1))
    settings.path(settings.feeds).mkdir(parents=True)
    Path(settings.lake_root).mkdir(parents=True)
    database = settings.catalog.removeprefix("jdbc:sqlite:")
    catalog = load_catalog(CATALOG, type="sql", uri=f"sqlite:///{database}", warehouse=settings.lake_root)
    for feed in FORMATS:
        _write_file(settings, feed, lake)
        lake.receipts[feed] = list(_receipts(feed, lake))
        save_state(settings, FeedState.of(feed, lake.receipts[feed]))
    told = [_told(receipt) for receipts in lake.receipts.values() for receipt in receipts]
    _write(catalog, ("tidemark", "receipts"), _RECEIPT, told)
    _write(catalog, ("tidemark", "mall", "quarantine"), _QUARANTINE, _kept_back(lake))
    _write(catalog, ("tidemark", "inventory", "held"), _HELD, _held(lake))
    for feed, table in _TABLES.items():
        rows = [{"id": 4711, "salary": 4200, HOSTILE: HOSTILE}, {"id": 2, "salary": None, HOSTILE: None}]
        columns = {"id": "bigint", "salary": "bigint", HOSTILE: "string"}
        found = _write(
            catalog, (feed, table), columns, rows, {"tidemark.feed": feed, "tidemark.key": json.dumps(["id"])}
        )
        snapshot = found.current_snapshot()
        assert snapshot is not None
        with found.manage_snapshots() as snapshots:
            for receipt in lake.receipts[feed]:
                snapshots.create_tag(snapshot.snapshot_id, receipt.hour.tag)
    save_explained(settings, "payroll", answer_name(lake.answered), _explained(lake))
    return lake


def _explained(lake: WrittenLake) -> ExplainedRow:
    """A row that two changes made, and to which a third did nothing."""
    place = {"came_from": None, "object": "payroll.changes/part-0.dat", "entry": 0, "key": '{"id":2}', "unsent": []}
    insert = {"op": "insert", "hour": lake.newest.plus(-20), "record": 7, "tx": "9:1", "place": "1", "fate": "applied"}
    update = {"op": "update", "hour": lake.newest.plus(-9), "record": 3, "tx": HOSTILE, "place": "2", "fate": "applied"}
    refused = {"op": "update", "hour": lake.newest.plus(-7), "record": 1, "tx": None, "place": "3"}
    changes = [
        {**place, **insert, "sent": {"id": "2", "salary": "4000", HOSTILE: HOSTILE}, "gives": ["id", HOSTILE]},
        {**place, **update, "sent": {"salary": "4200"}, "unsent": ["id", HOSTILE], "gives": ["salary"]},
        {**place, **refused, "sent": {"salary": "-1"}, "gives": [], "fate": "in quarantine: check failed: salary >= 0"},
    ]
    told = {"table": "payroll.staff", "key": ["2"], "there": True, "changes": changes}
    return ExplainedRow.model_validate(told)


def _write_file(settings: Settings, feed: str, lake: WrittenLake) -> None:
    ibm = feed == "payroll"
    (settings.path(settings.feeds) / f"{feed}.yaml").write_text(
        FEED.format(
            feed=feed, format=FORMATS[feed], container="raw" if ibm else "kafka_json",
            description=json.dumps(f"Changes of {feed} {HOSTILE}"), start=lake.newest.plus(-30),
            source=f"{feed}.{_TABLES[feed]}".upper() if ibm else f"{feed}.{_TABLES[feed]}",
            table=_TABLES[feed], number="INTEGER" if ibm else "bigint",
        ),
        "utf-8",
    )  # fmt: skip


def _receipts(feed: str, lake: WrittenLake) -> list[Receipt]:
    last = lake.newest.plus(-6) if feed == "payroll" else lake.newest
    found = []
    for number in range(30):
        hour = lake.newest.plus(number - 29)
        if hour > last:
            break
        stopped = feed == "crm" and number >= 25
        quiet = stopped or (feed == "shop" and hour > lake.changed)
        bad = 2 if feed == "mall" and number in (10, 28) else 0
        held = 3 if feed == "inventory" and number == 2 else 0
        applied = 0 if quiet else 100 + 7 * number
        source = f"{feed}.{_TABLES[feed]}"
        table = TableReceipt(
            table=f"{feed}.{_TABLES[feed]}", counts=Counts(applied=applied, duplicate=2, superseded=1),
            rows_written=applied, rows_deleted=applied // 10, warnings=[f"a warning {HOSTILE}"] if number == 29 else [],
            checks=[CheckResult(check="id: at least 0", consequence="quarantine", rows=applied, failed=0, keys=[HOSTILE])],
            progress=TableProgress(sources=[source.upper() if feed == "payroll" else source], highest=f"{number:040d}#1"),
        )  # fmt: skip
        receipt = Receipt(
            feed=feed, hour=hour, sequence=number + 1, manifest_version=1, objects=1, bytes=10_000, split=1,
            landed=applied + 3 + 4 + bad + held - 1, control=4, bad=bad, held=held, cut_by=number + 1,
            held_transactions=2 if feed == "inventory" and number >= 2 else 0,
            held_since=lake.newest.plus(-27) if feed == "inventory" and number >= 2 else None,
            tables=[table], published_at=hour.plus(1).start, newest=hour.start, notes=[f"a note {HOSTILE}"],
            stopped={"crm.people": f"column age is integer, and would become text {HOSTILE}"} if stopped else {},
        )  # fmt: skip
        receipt.balance()
        found.append(receipt)
    return found


_RECEIPT = {
    "feed": "string", "hour": "string", "sequence": "bigint", "landed": "bigint", "split": "bigint", "applied": "bigint",
    "duplicate": "bigint", "superseded": "bigint", "control": "bigint", "held": "bigint", "quarantined": "bigint",
    "published_at": "timestamp", "receipt": "string",
}  # fmt: skip
_QUARANTINE = {
    "sequence": "bigint", "stage": "string", "hour": "string", "landed_this_hour": "boolean", "table": "string",
    "object": "string", "record": "bigint", "entry": "int", "topic": "string", "position": "string", "reason": "string",
    "raw": "binary", "change": "string",
}  # fmt: skip
_HELD = {
    "sequence": "bigint", "tx": "string", "since": "string", "hours": "array<string>", "changes": "bigint",
    "parts": "bigint", "needed": "bigint", "ended": "boolean", "tables": "array<string>", "position": "string",
}  # fmt: skip


def _told(receipt: Receipt) -> dict[str, Any]:
    counts = {name: getattr(receipt.counts, name) for name in ("applied", "duplicate", "superseded")}
    own = {name: getattr(receipt, name) for name in _RECEIPT if name != "receipt" and name not in counts}
    return own | counts | {"hour": str(receipt.hour), "receipt": receipt.model_dump_json()}


def _kept_back(lake: WrittenLake) -> list[dict[str, Any]]:
    reasons = ("it is no JSON", f"unknown op {HOSTILE}")
    return [
        {
            "sequence": receipt.sequence, "stage": "decode", "hour": str(receipt.hour), "landed_this_hour": True,
            "table": None, "object": f"mall/{receipt.hour}/{HOSTILE}.gz", "record": number, "entry": 0,
            "topic": HOSTILE, "position": None, "reason": reasons[number], "raw": f"{HOSTILE} {receipt.hour}".encode(),
            "change": json.dumps({"key": {"id": HOSTILE}}) if number else None,
        }
        for receipt in lake.receipts["mall"] if receipt.bad for number in range(receipt.bad)
    ]  # fmt: skip


def _held(lake: WrittenLake) -> list[dict[str, Any]]:
    last = lake.receipts["inventory"][-1].sequence
    common = {"sequence": last, "since": str(lake.newest.plus(-27)), "hours": [str(lake.newest.plus(-27))], "ended": False,
              "parts": 1, "needed": 3, "tables": ["inventory.stock"], "position": "1"}  # fmt: skip
    return [common | {"tx": "9:tx-1", "changes": 1}, common | {"tx": HOSTILE, "changes": 2}]


def _write(
    catalog: Catalog, name: Sequence[str], columns: Mapping[str, str], rows: list[dict[str, Any]], more: Any = None
) -> Any:
    """A table of these rows, which says that it is ours."""
    schema = pa.schema([(column, _ARROW[kind]) for column, kind in columns.items()])
    for end in range(1, len(name)):
        catalog.create_namespace_if_not_exists(tuple(name[:end]))
    table = catalog.create_table(tuple(name), schema, properties={TABLE_FORMAT: str(FORMAT), **(more or {})})
    table.append(pa.Table.from_pylist(rows, schema))
    return table
