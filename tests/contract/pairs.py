"""Which container a format can go in."""

from __future__ import annotations

from tidemark.formats import FORMATS

#: (format, container) that cannot go together, and why.
EXCUSED = {
    ("ibm", "lines"): "its records hold line feeds",
    **{(name, "raw"): "only ibm's records end themselves" for name in FORMATS if name != "ibm"},
}
