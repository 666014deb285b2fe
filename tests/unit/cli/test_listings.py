"""What the listings import, on a lake that holds something: they answer at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.hours import Hour
from tidemark.lake.spark_conf import CATALOG
from tidemark.lake.stored_formats import FORMAT, TABLE_FORMAT
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.receipts import Counts, Receipt, TableReceipt
from tidemark.ledger.state_store import save_state
from tidemark.settings import Settings

HOUR = Hour.parse("2026-11-20T00")
OBJECT = "shop/topic/dt=2026-11-20/hr=00/v00001/part"

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
    rows = {
        "tidemark.receipts": {"feed": "shop", "hour": HOUR, "sequence": 1, "receipt": RECEIPT.model_dump_json()},
        "tidemark.shop.held": {
            "sequence": 1, "tx": "7", "since": HOUR, "hours": [HOUR], "changes": 1, "parts": 1, "needed": 2, "ended": True,
            "tables": ["shop.orders"],
        },
        "tidemark.shop.quarantine": {
            "sequence": 1, "stage": "decode", "hour": HOUR, "landed_this_hour": True, "table": None, "object": OBJECT,
            "record": 3, "entry": 0, "topic": "topic", "position": None, "reason": "no JSON", "raw": b"\xff{", "change": None,
        },
    }  # fmt: skip
    for name, row in rows.items():
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        held = pa.Table.from_pylist([row])
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
