"""DataWorks' transactions beyond an hour: the markers of all hours tie their rows.

What an hour shows by itself is named when it is decoded. Of its markers a few matter to other hours, its *edges*: those
of its first and its last transaction, and those whose other half is in another hour. They are texts,
``begin:<position>``, ``end:<position>`` and ``bound:<position>``. By the edges of all hours a transaction is all that lies
between its begin and the next marker, whichever hours hold them.

An end whose begin has not come ties only rows of its own hour: where its transaction begins only the begin shows.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from math import isqrt

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.formats.dataworks.pairs import SECOND, is_half, pair_name
from tidemark.formats.dataworks.transactions import BEGIN, BEHIND, BOUND, BY_BEGIN, BY_END, EDGE, END, ENDS
from tidemark.identifiers import PAIR

_DIGITS = 32
_EVERY = "9" * _DIGITS
_WORDS = {BEGIN: "begin:", END: "end:", BOUND: "bound:"}
_BEGIN, _END = _WORDS[BEGIN], _WORDS[END]
#: Entries that are in a transaction, and end none.
_ROWS = ("insert", "update", "delete", "truncate", "bad")
_SPAN = "struct<after: string, until: string, name: string>"


@dataclass(frozen=True)
class Span:
    """A transaction: what lies between its begin and the next marker."""

    after: str
    """The position of its begin, behind which it lies."""
    until: str
    """The position of the next marker, before which it lies; nines alone, where none has come."""
    name: str
    """Its name in ``tx`` of log entries: it tells the begin."""


def edge() -> Column:
    """A log entry's edge; null for all others."""
    kind = F.element_at("unbound", F.lit(EDGE))
    word = F.coalesce(*(F.when(kind == one, F.lit(word)) for one, word in _WORDS.items()))
    return F.when(F.col("op") == "control", F.concat(word, F.ltrim("position", F.lit("0"))))


def edge_position(edge: str) -> str:
    """The position of the marker that an edge stands for."""
    return edge.partition(":")[2].zfill(_DIGITS)


def _points(edges: Iterable[str]) -> list[tuple[str, str]]:
    """(position, edge), in order; of two at a position the begin: what only bounds for its own hour is one for another."""
    return sorted({edge_position(text): text for text in sorted(edges, reverse=True)}.items())


def spans(edges: Iterable[str]) -> list[Span]:
    """The transactions whose begin is an edge, in order."""
    found = []
    for (position, edge), (until, _) in pairwise([*_points(edges), (_EVERY, _END)]):
        if edge.startswith(_BEGIN):
            found.append(Span(position, until, BY_BEGIN + position.lstrip("0")))
    return found


def unpaired(edges: Iterable[str]) -> list[str]:
    """Begins whose next edge is no end, and ends whose last edge is no begin."""
    texts = [text for _, text in _points(edges)]
    begins = [one for one, other in pairwise([*texts, ""]) if one.startswith(_BEGIN) and not other.startswith(_END)]
    ends = [one for other, one in pairwise(["", *texts]) if one.startswith(_END) and not other.startswith(_BEGIN)]
    return sorted(begins + ends, key=edge_position)


def partners(wanted: Collection[str], entries: DataFrame) -> set[str]:
    """The begins and ends that stand in one hour of the log ``entries`` together with the edges ``wanted``, and these."""
    begins = [BY_BEGIN + text.removeprefix(_BEGIN) for text in wanted if text.startswith(_BEGIN)]
    ends = [text.removeprefix(_END).zfill(_DIGITS) for text in wanted if text.startswith(_END)]
    markers = entries.where((F.col("op") == "control") & F.col("kind").isin(*ENDS) & F.col("tx").startswith(BY_BEGIN))
    matching = markers.where(F.col("tx").isin(begins) | F.col("position").isin(ends))
    # The first end: a verdict on what was prepared stands behind it.
    pairs = matching.groupBy("tx").agg(F.min("position").alias("end")).collect()
    return {_BEGIN + pair.tx.removeprefix(BY_BEGIN) for pair in pairs} | {_END + pair.end.lstrip("0") for pair in pairs}


def _misled(hours: Mapping[str, Collection[str]]) -> list[str]:
    """Transactions that seem to go on longer in the hour of their begin than they do: a marker of another hour is next."""
    everywhere = [position for position, _ in _points(text for edges in hours.values() for text in edges)]
    found = set()
    for edges in hours.values():
        for span in spans(edges):
            behind = bisect_right(everywhere, span.after)
            if behind < len(everywhere) and everywhere[behind] < span.until:
                found.add(span.name)
    return sorted(found)


def tied(entries: DataFrame, hours: Mapping[str, Collection[str]]) -> DataFrame:
    """Log entries named by the edges of all ``hours``. Same columns."""
    known = tuple(spans(text for edges in hours.values() for text in edges))
    if not known:
        return entries
    return entries.withColumns(_names(known, tuple(_misled(hours)))).select(*entries.columns)


@lru_cache(maxsize=8)
def _names(known: tuple[Span, ...], misled: tuple[str, ...]) -> dict[str, Column]:
    """What log entries' columns are by the transactions ``known``. An hour asks for the same a hundred times, and each
    time would be hundreds of calls into the JVM."""
    c, tx = F.col, F.col("tx")
    row, begins = c("op").isin(*_ROWS), c("kind") == BEGIN
    loose = F.element_at("unbound", F.lit(BEHIND))
    begun = F.when(tx.startswith(BY_BEGIN), F.lpad(F.substring(tx, len(BY_BEGIN) + 1, _DIGITS), _DIGITS, "0"))
    behind, open_to_doubt = F.coalesce(loose, begun), loose.isNotNull() | F.coalesce(tx.isin(*misled), F.lit(False))

    def holds(span: Column) -> Column:
        inside = (c("position") < span["until"]) | (~row & (c("position") == span["until"]))
        return (span["after"] < c("position")) & inside & (behind <= span["after"])

    found = F.get(F.filter(_near(known), holds), F.lit(0))["name"]
    # Rows before the begin of the end that is behind them in their hour are in no transaction. Behind it they are in that of
    # the end, whose begin is another one that has not come: a marker of their hour stands between.
    ended = [BY_END + span.until.lstrip("0") for span in known]
    # Of what cannot be decoded the log has no images: only its name shows that it is a half.
    half = row & (((c("op") != "bad") & is_half()) | F.coalesce(tx.startswith(PAIR), F.lit(False)))
    until = F.when(tx.isin(ended), F.lpad(F.substring(tx, len(BY_END) + 1, _DIGITS), _DIGITS, "0"))
    begun_before = F.exists(_near(known), lambda span: (span["until"] == until) & (span["after"] < c("position")))
    outside = row & until.isNotNull() & ~begun_before
    alone = F.when(outside, F.when(half, pair_name())).otherwise(tx)
    name = F.when(open_to_doubt & ~begins, F.coalesce(found, alone)).otherwise(tx)
    other = ~name.eqNullSafe(tx)
    renamed, paired = half & other, F.coalesce(name.startswith(PAIR), F.lit(False))
    # The begin is known to be there: perhaps in an hour that holds nothing else of the transaction.
    count = F.when(~row & other, F.lit(1)).when(renamed, F.when(paired, F.lit(2))).otherwise(c("tx_count"))
    return {
        "tx_part": F.when(renamed, F.when(paired, c("kind"))).otherwise(c("tx_part")),
        "tx_end": F.when(renamed, F.when(paired, c("kind") == SECOND)).otherwise(c("tx_end")),
        "tx_count": count,
        "tx": name,
    }


def _near(known: tuple[Span, ...]) -> Column:
    """The few spans, an array, among which an entry's must be: all of them in one array would be looked through for each
    entry."""
    size = isqrt(len(known)) + 1
    parts = [known[at : at + size] for at in range(0, len(known), size)]
    listed = [
        {"after": part[0].after, "until": part[-1].until, "spans": [asdict(span) for span in part]} for part in parts
    ]
    kind = f"array<struct<after: string, until: string, spans: array<{_SPAN}>>>"
    literal, position = F.from_json(F.lit(json.dumps(listed)), kind), F.col("position")
    near = F.filter(literal, lambda part: (part["after"] < position) & (position <= part["until"]))
    return F.flatten(F.transform(near, lambda part: part["spans"]))


def retied(before: Iterable[str], now: Iterable[str]) -> list[tuple[str, str, str]]:
    """Where another transaction holds by the edges ``now`` than ``before``: from behind a position up to another; and its
    name, where it had an end and has another, which may be another verdict on all of it. Empty: other names tell."""
    old, new = ({span.name: span for span in spans(edges)} for edges in (before, now))
    found = []
    for name in old.keys() | new.keys():
        one, other = old.get(name), new.get(name)
        if one and other:
            first, last = sorted((one.until, other.until))
            if first < last:
                found.append((first, last, "") if one.until == _EVERY else (one.after, last, name))
        elif span := one or other:
            found.append((span.after, span.until, ""))
    return sorted(found)
