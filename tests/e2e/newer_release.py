"""The `tidemark` command of a release that does not exist yet: 0.2.0, whose stored format is the next one.

    python -m tests.e2e.newer_release migrate

Its step adds a note to every receipt and a property to every published table. With TIDEMARK_TEST_DOCUMENTS=n the
migration dies at the document after the n-th.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import SparkSession

import tidemark
from tidemark.lake import stored_formats

OLD = stored_formats.FORMAT
NOTE = "brought to the next format"

_changed = 0


def _document(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    global _changed
    if _changed == int(os.environ.get("TIDEMARK_TEST_DOCUMENTS", "-1")):
        os._exit(137)
    _changed += 1
    return fields | {"notes": [*fields["notes"], NOTE]} if kind == "receipt" else fields


def _table(spark: SparkSession, kind: str, table: str) -> None:
    if kind == "published":
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('test.step' = 'done')")


def main() -> None:
    """The command, with the next format and the step that leads to it."""
    # Both before the modules that take them over.
    stored_formats.FORMAT = OLD + 1
    tidemark.__version__ = stored_formats.__version__ = "0.2.0"
    from tidemark import cli
    from tidemark.operations import migrate

    migrate.STEPS = (migrate.Step(OLD, "receipts have one more note", _document, _table),)
    cli.main()


if __name__ == "__main__":
    main()
