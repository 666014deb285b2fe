"""One inserted row as each format writes it, and the rows of an export as its format and container read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from tests.landed_records import read_landed
from tidemark.feeds.model import Feed
from tidemark.formats import load_format


def _dataworks(at: int, text: str) -> str:
    listed = '[{"name":"id","type":"LONG"},{"name":"n","type":"DOUBLE"}]'
    source = '{"dbType":"MySQL","dbName":"s","tableName":"t"}'
    return (
        f'{{"schema":{{"dataColumn":{listed},"primaryKey":["id"],"source":{source}}},"payload":{{"before":null,'
        f'"after":{{"dataColumn":{{"id":{at},"n":{text},"note":"{LIKE_A_NUMBER}"}}}},"sequenceId":"{at + 1}",'
        f'"op":"INSERT","timestamp":{{"eventTime":1}}}},"version":"0.0.1"}}'
    )


def _canal(at: int, text: str) -> str:
    return (
        f'{{"data":[{{"id":"{at}","n":{text},"note":"{LIKE_A_NUMBER}"}}],"database":"s","table":"t","type":"INSERT",'
        f'"es":1795132800000,"ts":1795132800001,"id":{at + 1},"pkNames":["id"],"old":null,"mysqlType":{{}}}}'
    )


def _debezium(at: int, text: str) -> str:
    sequence = f'[\\"5\\",\\"{at + 9}\\"]'
    source = f'{{"name":"p","ts_ms":1,"schema":"s","table":"t","txId":1,"lsn":{at + 9},"sequence":"{sequence}"}}'
    row = f'{{"id":{at},"n":{text},"note":"{LIKE_A_NUMBER}"}}'
    return f'{{"before":null,"after":{row},"source":{source},"op":"c","ts_ms":1}}'


def _qlik(at: int, text: str) -> str:
    return (
        f'{{"magic":"atMSG","type":"DT","headers":null,"messageSchemaId":null,"messageSchema":null,"message":{{"data":'
        f'{{"id":{at},"n":{text},"note":"{LIKE_A_NUMBER}"}},"beforeData":null,"headers":{{"operation":"INSERT",'
        f'"changeSequence":"{at + 1:035}","timestamp":"2026-11-20T00:00:00.000"}}}}}}'
    )


def _ibm(at: int, text: str) -> str:
    where = f'"0000:0000:0000:0000:{at:04X}"'
    return f'10,"IBM","2026324","000000000000","S","T","ISRT",{where},{where},"2026-11-20-00.00.00",,0000,,,,{at},{text},""\n'


#: Inside a text: what looks like a number of JSON is none.
LIKE_A_NUMBER = 'a \\", \\"b\\": 1.50, [2.50 ]'
#: Format → a message of an inserted row whose column n is this number.
MESSAGES: dict[str, Callable[[int, str], str]] = {
    "canal": _canal, "dataworks": _dataworks, "debezium": _debezium, "ibm": _ibm, "qlik": _qlik,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {"debezium": {"decimals": "numeric"}, "dataworks": {"transactions": False}}
COLUMNS = {"id": "INTEGER", "n": "VARCHAR(99)", "note": "VARCHAR(99)"}


def landed(out: Path) -> list[str]:
    """Objects of the export, where they land."""
    found = []
    for path in sorted(p for p in (out / "exports").rglob("*") if p.is_file() and p.name != "_SUCCESS"):
        to = out / "landing/f" / path.parent.relative_to(out / "exports") / "v00001" / path.name
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)
        found.append(str(to))
    return found


def decoded(spark: SparkSession, out: Path, name: str, container: str, **container_options: Any) -> list[Row]:
    """The changes of an export of topic t."""
    options = {"type": name} | OPTIONS.get(name, {})
    feed = Feed.model_validate(
        {
            "feed": "f", "description": "d", "owner": "o", "topics": ["t"],
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "container": {"type": container} | container_options,
            "format": options,
            "tables": {"S.T" if name == "ibm" else "s.t": {"key": ["id"], "topic": "t", "columns": COLUMNS}},
        }
    )  # fmt: skip
    records = read_landed(spark, container, landed(out), feed.container_options)
    return load_format(name).decode(records, feed, feed.format_options).collect()
