"""The walk-through ``docs/add-a-format.md`` is followed: its blocks make a format, and the format decodes its record."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tidemark import formats
from tidemark.containers import load_container
from tidemark.feeds.loading import load_feed
from tidemark.formats.contract import CHANGES, Format

PAGE = Path(__file__).parent.parent.parent / "docs/add-a-format.md"


def blocks(language: str) -> list[str]:
    """The page's code blocks in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Format:
    """The sixth format, made as the page says, in a folder of its own."""
    module, registry_line = blocks("python")
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats/tally.py").write_text(module, "utf-8")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "formats")])
    for name, path in ast.literal_eval("{" + registry_line + "}").items():
        monkeypatch.setitem(formats.FORMATS, name, path)
    return formats.load_format("tally")


def shown(row: Row) -> dict[str, Any]:
    """A change as ``changes.jsonl`` has it."""
    found = {name: value for name, value in row.asDict(recursive=True).items() if value is not None and name != "raw"}
    return found | {"object": Path(found["object"]).name}


def test_the_format_of_the_walk_through_decodes_its_fixture(spark: SparkSession, tally: Format, tmp_path: Path) -> None:
    (feed_file,), (objects, changes) = blocks("yaml"), blocks("jsonl")
    (tmp_path / "warehouse.yaml").write_text(feed_file, "utf-8")
    (tmp_path / "part-00000.jsonl").write_text(objects, "utf-8")
    feed = load_feed(tmp_path / "warehouse.yaml")
    records = load_container("kafka_json").read(spark, [str(tmp_path / "part-00000.jsonl")], feed.container_options)
    decoded = tally.decode(records, feed, feed.format_options)
    assert decoded.columns == CHANGES.names
    got = [shown(row) for row in decoded.orderBy("record").collect()]
    assert got == [json.loads(line) for line in changes.splitlines()]


def test_the_message_of_the_walk_through_is_the_one_in_its_fixture() -> None:
    (message,), (objects, _) = blocks("json"), blocks("jsonl")
    assert json.loads(json.loads(objects.splitlines()[0])["value"]) == json.loads(message)


def test_a_type_that_the_format_does_not_know_is_a_mistake_of_the_feed_file(tally: Format) -> None:
    columns = {"id": "integer", "day": "day"}
    assert {name: kind.spark for name, kind in tally.column_types(columns, tally.Options()).items()} == {
        "id": "bigint",
        "day": "date",
    }
    with pytest.raises(ValueError, match="price: 'money' is none of integer, text, day"):
        tally.column_types({"price": "money"}, tally.Options())
