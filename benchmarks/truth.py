"""The sums over the benchmark's table that are held against the source's, in SQL that Spark and DuckDB both read."""

from __future__ import annotations

#: By name, as ``truth.json`` has them.
SUMS = {
    "rows": "count(*)",
    "ids": "sum(id)",
    "cents": "cast(sum(total) * 100 AS bigint)",
    "quantities": "sum(quantity)",
    "contact_length": "sum(length(contact))",
    "note_length": "sum(length(note))",
}


def differing(found: dict[str, int], truth: dict[str, int]) -> dict[str, int]:
    """What the sums of a table have less the truth's, where that is not zero."""
    return {name: found[name] - wanted for name, wanted in truth.items() if found[name] != wanted}
