"""What the listings import, on a lake that holds something: they answer at once."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from rich.console import Console
from typer.testing import CliRunner

from tidemark import cli
from tidemark.cli import reading
from tidemark.hours import Hour
from tidemark.lake.spark_conf import CATALOG
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import Counts, Receipt, TableReceipt
from tidemark.ledger.state_store import save_state
from tidemark.settings import Settings

HOUR = Hour.parse("2026-11-20T00")
OBJECT, GONE = (f"shop/topic/dt=2026-11-20/hr=00/v00001/part-{n}.gz" for n in (1, 2))
#: The bytes of two of its records.
WHOLE, BAD = b'{"data": "w\xc3\xa4hole", "n":  [1,2]}\r', b"\xff{"

#: Whatever takes long to import and is needed by none of them.
NEVER = {
    "pyspark", "py4j", "pandas", "pandera", "airflow", "sqlalchemy", "sqlglot", "boto3", "botocore", "psycopg2", "fastapi",
    "jinja2", "requests", "fsspec",
}  # fmt: skip
#: What only those need that read one of the lake's tables.
TABLES = {"pyiceberg", "pyarrow", "numpy"}


RECEIPT = Receipt(
    feed="shop", hour=HOUR, sequence=1, manifest_version=1, objects=1, bytes=9, landed=4, split=0, control=0, bad=1, held=1,
    tables=[TableReceipt(table="shop.orders", counts=Counts(applied=2))],
    published_at=datetime(2026, 11, 20, 1, tzinfo=UTC),
)  # fmt: skip


def kept(record: int, entry: int = 0, object: str = OBJECT, **columns: Any) -> dict[str, Any]:
    """A row of the quarantine: a change that was decoded, or the bytes of a record that could not be."""
    return {
        "sequence": 1, "stage": "screen", "hour": HOUR, "landed_this_hour": True, "table": None, "object": object,
        "record": record, "entry": entry, "topic": "topic", "position": None, "reason": "n", "raw": None, "change": None,
    } | columns  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of which one feed has published an hour, with a transaction held and a record in quarantine."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(home=home, lake="lake", feeds="feeds")
    for folder in ("lake", "feeds"):
        (home / folder).mkdir()
    (home / "feeds" / "shop.yaml").write_text(
        "feed: shop\ndescription: d\nowner: o\ntopics: [topic]\ncontainer: {type: lines}\nformat: {type: canal}\n"
        "exports: {path: '{topic}/{date}/{hour}/*'}\n"
    )
    RECEIPT.balance()
    state = FeedState.of("shop", [RECEIPT]).model_copy(update={"held_transactions": 1, "held_since": HOUR, "taken": 1})
    save_state(settings, state)
    file = Path(settings.catalog.removeprefix("jdbc:sqlite:"))
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{file}", warehouse=settings.lake_root)
    rows: dict[str, list[dict[str, Any]]] = {
        "tidemark.receipts": [{"feed": "shop", "hour": HOUR, "sequence": 1, "receipt": RECEIPT.model_dump_json()}],
        "tidemark.shop.held": [
            {
                "sequence": 1, "tx": "7", "since": HOUR, "hours": [HOUR], "changes": 1, "parts": 1, "needed": 2,
                "ended": True, "tables": ["shop.orders"],
            }
        ],
        "tidemark.shop.quarantine": [
            kept(3, reason="no JSON", raw=BAD), kept(2, 0, change='{"n":1}'), kept(2, 1, change='{"n":2}'),
            kept(2, object=GONE, change='{"n":3}'), kept(9, change='{"n":4}'),
        ],
    }  # fmt: skip
    landed = Path(settings.landing_root) / OBJECT
    landed.parent.mkdir(parents=True)
    landed.write_bytes(gzip.compress(b"one\n" + WHOLE + b"\n" + BAD + b"\n"))
    for name, listed in rows.items():
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        held = pa.Table.from_pylist(listed)
        fields = [f.with_type(pa.string()) if f.type == pa.null() else f for f in held.schema]
        schema = pa.schema(fields)
        catalog.create_table(name, schema, properties={TABLE_FORMAT: str(FORMAT)}).append(held.cast(schema))
    return home


@pytest.mark.parametrize(
    ("command", "says", "never"),
    [
        (["feeds", "list"], "shop", NEVER | TABLES | {"sqlite3"}),
        (["status"], "waiting", NEVER | TABLES),
        (["tables"], "shop.orders", NEVER),
        (["receipts"], HOUR, NEVER),
        (["held", "shop"], "1 of 2 parts", NEVER),
        (["quarantine", "list", "shop"], "no JSON", NEVER),
        (["quarantine", "show", "shop", OBJECT, "3"], "\\xff{", NEVER),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_listing_imports_what_it_needs(lake: Path, command: list[str], says: str, never: set[str]) -> None:
    code = (
        "import atexit, json, sys; from tidemark.cli import main\n"
        "atexit.register(lambda: sys.stderr.write(json.dumps(sorted({name.split('.')[0] for name in sys.modules}))))\n"
        "main()"
    )
    environment = os.environ | {"TIDEMARK_HOME": str(lake), "TIDEMARK_LAKE": "lake", "TIDEMARK_FEEDS": "feeds"}
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=False, env=environment)
    assert says in done.stdout.decode("utf-8", "backslashreplace"), done.stderr
    assert not never & set(json.loads(done.stderr)), done.stderr


@pytest.mark.parametrize(
    ("place", "shown", "told"),
    [
        ((OBJECT, "3"), BAD, ""),
        ((OBJECT, "2"), WHOLE, ""),
        ((GONE, "2"), b'{"n":3}', "not the record's bytes, but what was decoded from them: its landed object is gone\n"),
        ((OBJECT, "9"), b'{"n":4}', "decoded from them: today's feed file finds no such record in its landed object\n"),
    ],
)  # fmt: skip
def test_a_record_in_quarantine_is_shown_byte_for_byte(
    spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, str], shown: bytes, told: str
) -> None:
    monkeypatch.setenv("TIDEMARK_JARS", str(Settings().path(Settings().jars)))
    for name, value in {"HOME": str(lake), "LAKE": "lake", "FEEDS": "feeds"}.items():
        monkeypatch.setenv(f"TIDEMARK_{name}", value)
    errors = io.StringIO()
    monkeypatch.setattr(reading, "err", Console(file=errors, soft_wrap=True, width=1000))
    done = CliRunner().invoke(cli.app, ["quarantine", "show", "shop", *place])
    assert (done.stdout_bytes, done.exit_code) == (shown, 0)
    assert errors.getvalue().endswith(told) and bool(told) == bool(errors.getvalue())
