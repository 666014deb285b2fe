"""Generators of exports with a known outcome, for the demo, the tests and the benchmark. Plain Python, no Spark.

One module per format, of the format's name; the module is a :class:`Generator`. Everything follows from the seed.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from tidemark.formats import FORMATS

if TYPE_CHECKING:
    from tidemark_samples import canal, dataworks, debezium, ibm, qlik
    from tidemark_samples.exporting import Sample

    # The type checker compares each module with the Protocol here: at run time a module is found by its name alone.
    _canal: Generator = canal
    _dataworks: Generator = dataworks
    _debezium: Generator = debezium
    _ibm: Generator = ibm
    _qlik: Generator = qlik


class Generator(Protocol):
    """The module that generates a format's sample."""

    @property
    def FEED(self) -> str:
        """The name of the feed that it writes."""

    def generate(self, out: Path, sample: Sample, /) -> None:
        """Write ``exports/``, ``feeds/<feed>.yaml`` and ``truth/<hour>/<schema.table>.jsonl`` into a folder.

        The truth is what `tidemark show --as-of` must print at each hour's cut.
        """


def load_sample(format_: str) -> Generator:
    """The generator of a format. ``KeyError`` for a format that nobody registered."""
    if format_ not in FORMATS:
        raise KeyError(format_)
    return cast(Generator, import_module(f"tidemark_samples.{format_}"))
