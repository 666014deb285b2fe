"""What a record says: one module per format, found by name through this registry.

A module offers ``Options`` (a pydantic model: the feed's ``format`` block) and the functions of
:class:`tidemark.formats.contract.Format`. Modules are imported when a feed names them, so that reading feed files
for the DAGs does not import Spark.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

FORMATS = {
    "canal": "tidemark.formats.canal.decode",
    "dataworks": "tidemark.formats.dataworks.decode",
    "debezium": "tidemark.formats.debezium.decode",
    "ibm": "tidemark.formats.ibm.decode",
    "qlik": "tidemark.formats.qlik.decode",
}


def load_format(name: str) -> ModuleType:
    """The module of a format. ``KeyError`` when nobody registered it (feed files are checked before)."""
    return import_module(FORMATS[name])
