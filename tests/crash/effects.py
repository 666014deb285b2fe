"""Every write of a run, one by one: to the landing, the lake's tables, the pointers. A test dies or fails at any of them.

What the library does to the world goes through a few calls: of its storage, and of Spark (statements, writers). Each
call is an *effect*; its name is the same in every run of the hour.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrameWriter, DataFrameWriterV2, SparkSession

from tidemark.storage.local_files import LocalFiles
from tidemark.storage.s3 import S3Objects
from tidemark.tables.iceberg_metadata import IcebergMetadata

#: Hears of an effect and does it: ``around(name, do)`` returns what ``do()`` returns.
Around = Callable[[str, Callable[[], Any]], Any]

_WRITES = re.compile(r"\s*(?:CREATE|ALTER|DROP|DELETE|MERGE|CALL|INSERT)\b")
_VARIABLE = re.compile(r"\bAS OF VERSION \d+|\s+WHERE\b.*|\s+USING\b.*|\s*\(.*", re.DOTALL)


@dataclass(frozen=True)
class _Call:
    """A method that writes, and the name of its effect from its arguments."""

    owner: type
    method: str
    name: Callable[..., str | None]


def _statement(_self: Any, sql: str, *_: Any, **__: Any) -> str | None:
    if not _WRITES.match(sql):
        return None
    return _VARIABLE.sub("", sql.replace("`", "")).strip()


def _at(location: str) -> str:
    """The path below the lake, without what another run would not have: a number that it has taken, and its own name."""
    return re.sub(r"/\d{8}(-[0-9a-f]{12}$|(?=\.json$))", "", re.sub(r"^.*?/lake/", "", location))


def _small(method: str) -> Callable[..., str]:
    """A small object; of a feed's state, the step of a publication that it is of."""

    def name(_self: Any, location: str, text: str) -> str:
        if "/_state/" not in location:
            return f"{method} {_at(location)}"
        return f"state {_step(json.loads(text))}"

    return name


def _table(metadata: IcebergMetadata) -> str:
    return metadata._name.replace("`", "").removeprefix("lake.")


def _step(state: dict[str, Any]) -> str:
    made = state["next"]
    if made is None:
        return "published" if state["unrecorded"] else "recorded"
    return "validated" if made["validated"] else "staged" if made["receipt"] else "begun"


_CALLS = [
    _Call(SparkSession, "sql", _statement),
    _Call(DataFrameWriterV2, "append", lambda self: f"append {self.tidemark_table}"),
    _Call(DataFrameWriterV2, "overwrite", lambda self, *_: f"overwrite {self.tidemark_table}"),
    _Call(IcebergMetadata, "write", lambda self, what, *_: f"{what} {_table(self)}"),
    _Call(DataFrameWriter, "parquet", lambda self, path, *_, **__: f"parquet {_at(path)}"),
    *(
        _Call(owner, method, _small(method))
        for owner in (LocalFiles, S3Objects)
        for method in ("write_text", "write_new")
    ),
    *(
        _Call(owner, "copy_from", lambda self, source, stored, target, *_: f"copy_from {_at(target)}")
        for owner in (LocalFiles, S3Objects)
    ),
]


@contextmanager
def effects(around: Around) -> Iterator[None]:
    """Every effect goes through ``around``."""

    def watched(call: _Call, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def effect(*arguments: Any, **named: Any) -> Any:
            name = call.name(*arguments, **named)
            if name is None:
                return original(*arguments, **named)
            return around(name, lambda: original(*arguments, **named))

        return effect

    made = DataFrameWriterV2.__init__

    def remember_table(self: Any, df: Any, table: str) -> None:
        self.tidemark_table = table.replace("`", "")
        made(self, df, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataFrameWriterV2, "__init__", remember_table)
        for call in _CALLS:
            patch.setattr(call.owner, call.method, watched(call, getattr(call.owner, call.method)))
        yield
