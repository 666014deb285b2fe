"""Every format decodes its fixtures to the changes written beside them.

A fixture is a folder ``data/<format>/<case>/`` with a feed file, the objects of one hour and ``changes.jsonl``: a line
per entry, in the order of objects, records and entries, with the columns of CHANGES that are not null.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import Row, SparkSession

from tests.landed_records import read_landed
from tidemark.containers import CONTAINERS, load_container, text
from tidemark.feeds.model import Feed
from tidemark.formats import FORMATS, load_format
from tidemark.formats.contract import CHANGES
from tidemark.formats.ibm import decode as ibm

DATA = Path(__file__).parent / "data"
PROJECT = Path(__file__).parent.parent.parent
CASES = sorted(path.parent for path in DATA.glob("*/*/changes.jsonl"))


def _shown(row: Row) -> dict[str, Any]:
    shown = {name: value for name, value in row.asDict(recursive=True).items() if value is not None}
    shown["object"] = Path(shown["object"]).name
    shown.pop("raw", None)
    if "committed_at" in shown:
        shown["committed_at"] = shown["committed_at"].isoformat()
    return shown


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_fixtures_a_page_and_a_generator(name: str) -> None:
    assert any(case.parent.name == name for case in CASES), f"no fixtures in {DATA / name}"
    page = PROJECT / "docs/formats" / f"{name}.md"
    assert f"type: {name}" in page.read_text("utf-8"), "its page shows an example feed"
    assert callable(import_module(f"tidemark_samples.{name}").generate)


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_offers_what_the_stages_need(name: str) -> None:
    module = load_container(name)
    assert {"Options", "read", "inspect"} <= set(dir(module))
    assert module.Options.model_config.get("extra") == "forbid", "unknown keys are mistakes"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
@pytest.mark.usefixtures("compiled")
def test_a_fixture_decodes_to_its_changes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, case: Path) -> None:
    """As in a large hour, in compiled expressions, and with the lines of few objects dealt out: most other tests run as a
    small hour does."""
    for module in (text, ibm):
        monkeypatch.setattr(module, "tasks_at_once", lambda _: 100)
    feed = Feed.model_validate(yaml.safe_load((case / "feed.yaml").read_text("utf-8")))
    objects = [str(path) for path in sorted(case.iterdir()) if path.name not in ("feed.yaml", "changes.jsonl")]
    records = read_landed(spark, feed.container["type"], objects, feed.container_options)
    changes = load_format(feed.format["type"]).decode(records, feed, feed.format_options)
    assert changes.columns == CHANGES.names
    got = [_shown(row) for row in changes.orderBy("object", "record", "entry").collect()]
    expected = [json.loads(line) for line in (case / "changes.jsonl").read_text("utf-8").splitlines()]
    assert got == expected
