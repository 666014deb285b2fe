"""Generators of exports with a known outcome, for the demo, the tests and the benchmark. Plain Python, no Spark.

One module per format, of the format's name. It offers ``generate(out, sample)``, with a
:class:`tidemark.samples.exporting.Sample`, which writes ``exports/``, ``feeds/<feed>.yaml`` and
``truth/<hour>/<schema.table>.jsonl`` (what
`tidemark show --as-of` must print at each hour's cut) into a folder. Everything follows from the seed.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tidemark.formats import FORMATS


def load_sample(format_: str) -> ModuleType:
    """The generator of a format. ``KeyError`` for a format that nobody registered."""
    if format_ not in FORMATS:
        raise KeyError(format_)
    return import_module(f"tidemark.samples.{format_}")
