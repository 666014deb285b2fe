"""Objects read as decode reads them: what landing saw in their bytes is known."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession

from tidemark.containers import load_container


def read_landed(spark: SparkSession, container: str, paths: Iterable[Path | str], options: BaseModel) -> DataFrame:
    """RECORDS of objects, plain or gzip."""
    module, objects = load_container(container), [Path(path) for path in paths]
    contents = [module.inspect(_chunks(path), options) for path in objects]
    plain = all(content.plain for content in contents)
    records: DataFrame = module.read(spark, [str(path) for path in objects], options, plain=plain)
    return records


def _chunks(path: Path, size: int = 997) -> list[bytes]:
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    return [content[at : at + size] for at in range(0, len(content), size)]
