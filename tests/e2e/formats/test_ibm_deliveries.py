"""A transaction of IBM's in segments: by their offsets a gap inside it is seen, and two deliveries are told apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.convergence import ibm
from tests.convergence.wire import Format
from tests.e2e.change_exports import HOURS
from tidemark.errors import ConfigError
from tidemark.feeds.model import Feed
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.quarantine import SCREEN, list_kept_back, recall
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit import audit
from tidemark.operations.held import held_listing
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Message as Record
from tidemark_samples.exporting import write_export

pytestmark = pytest.mark.promise(1, 2, 3)

KAFKA = Format("ibm", ibm, "kafka_json")
#: What a transaction does to the rows of a table with a key and one without: five changes.
CHANGES = (
    ("A", "ISRT", None, (1, "one")), ("KEYLESS", "ISRT", None, (7, "same")), ("A", "ISRT", None, (2, "two")),
    ("KEYLESS", "ISRT", None, (7, "same")), ("A", "REPL", (1, "one"), (3, "one")),
)  # fmt: skip
ROWS = {"a": [(2, "two"), (3, "one")], "keyless": [(7, "same"), (7, "same")]}
EMPTY: dict[str, list[tuple[int, str]]] = {"a": [], "keyless": []}
PUT = datetime(2026, 11, 20)
OTHERS = 20
#: A message: its offset, its segment, and which of the changes it holds.
Piece = tuple[int, str, slice]


def delivery(first: int, *sizes: int) -> list[Piece]:
    """A whole delivery in messages of so many changes, from an offset on."""
    pieces, at = [], 0
    for index, size in enumerate(sizes):
        segment = "0000" if index == len(sizes) - 1 else f"{index + 1:04}"
        pieces.append((first + index, segment, slice(at, at + size)))
        at += size
    assert at == len(CHANGES)
    return pieces


class Topic:
    """A feed of one topic, whose hours are written message by message."""

    def __init__(self, name: str, out: Path, settings: Settings, bad: str | None = None) -> None:
        """``bad``: what becomes of a transaction with a bad change; the row that says two is one then."""
        self.name, self.out, self.settings = name, out, settings
        columns = {"ID": "INTEGER", "S": "VARCHAR(9)"}
        tables: dict[str, dict[str, Any]] = {
            "C.A": {"name": f"{name}.a", "key": ["ID"], "columns": columns},
            "C.KEYLESS": {"name": f"{name}.keyless", "columns": columns},
        }
        if bad is not None:
            check = {"column": "S", "pattern": "one|same|x", "consequence": "quarantine"}
            tables["C.A"] = tables["C.A"] | {"checks": [check]}
        transactions = {"transactions": {"bad": bad}} if bad is not None else {}
        self.feed = Feed.model_validate(
            KAFKA.feed(name, str(out)) | {"format": {"type": "ibm"}, "tables": tables} | transactions
        )  # fmt: skip

    def run(self, hour: str, *pieces: Piece, twice: bool = False, others: Sequence[Piece] = ()) -> Receipt:
        """Write the hour's export, with a small transaction of its own, and run it. ``others``: messages of another
        transaction, which does to rows of its own what the first one does."""
        number = int(hour[-2:])
        own = Record(
            topic="db2.c",
            partition=0,
            offset=1000 + number,
            sent_at=PUT,
            key=None,
            value=_record(9000 + number, "0000", "A", "ISRT", None, (100 + number, "x")),
        )
        mine = [own, *(_message(piece) for piece in pieces), *(_message(piece, OTHERS) for piece in others)]
        write_export(self.out, "db2.c", hour, [mine, mine[1:]] if twice else [mine], "kafka_json")
        return self.again(hour)

    def again(self, hour: str) -> Receipt:
        """Run the hour."""
        return run_hour(self.feed, hour, self.settings)

    def shown(self, hour: str | None = None) -> dict[str, list[tuple[int, str]]]:
        """The transaction's rows of both tables, at an hour's cut or now."""
        found = {}
        for table in EMPTY:
            try:
                rows, key = read_snapshot(self.settings, f"{self.name}.{table}", hour)
            except ConfigError:  # the table is not there yet
                found[table] = []
            else:
                shown = (row for row in map(json.loads, json_lines(rows, key)) if row["ID"] < 100)
                found[table] = sorted((row["ID"], row["S"]) for row in shown)
        return found

    def missing(self) -> list[str]:
        """What held transactions wait for, as people see it."""
        return [row[4] for row in held_listing(self.settings, self.name).rows]

    def audited(self) -> list[str]:
        return [str(finding) for finding in audit(self.feed, self.settings).findings]


def _message(piece: Piece, apart: int = 0, topic: str = "db2.c") -> Record:
    """``apart``: so far from the first transaction are another one's number and its rows' IDs."""
    offset, segment, which = piece
    value = b"".join(
        _record(5 + apart, segment, table, kind, *(one and (one[0] + apart, one[1]) for one in images))
        for table, kind, *images in CHANGES[which]
    )
    return Record(topic=topic, partition=0, offset=offset, sent_at=PUT, key=None, value=value)


def _record(unit: int, segment: str, table: str, kind: str, before: object, after: object) -> bytes:
    number = f"{unit:020x}"
    groups = ":".join(number[i : i + 4] for i in range(0, 20, 4))
    who = f'10,"IBM","2026324","182310000001","C","{table}","{kind}"'
    header = f'{who},"{groups}","{groups}","2026-11-20-18.23.10","P",{segment}'
    values = [f'{one[0]},"{one[1]}"' if one else "," for one in (before, after)]
    return f"{header},{','.join(values)}\n".encode()


def accounted(receipt: Receipt) -> tuple[int, int, int]:
    receipt.balance()
    counts = receipt.counts
    again = counts.duplicate + counts.released_duplicate + counts.superseded + counts.released_superseded
    return counts.applied + counts.released_applied, again, receipt.held


@pytest.mark.full
def test_missing_segments_are_seen_by_their_offsets_and_release_when_they_come(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """One transaction lacks a message in its middle, another one the message before its end."""
    topic = Topic("gaps", tmp_path, settings)
    middle, last = delivery(11, 1, 1, 1, 2), delivery(21, 1, 1, 1, 2)
    first = topic.run(HOURS[0], middle[0], *middle[2:], others=[*last[:2], last[3]])
    assert topic.shown() == EMPTY and first.held_transactions == 2
    held = {row[0][-4:]: row[4] for row in held_listing(settings, topic.name).rows}
    assert held == {f"{5:04x}": "2 of 3 parts", f"{5 + OTHERS:04x}": "1 of 3 parts"}
    (note,) = first.notes
    assert "db2.c, partition 0, between the offsets 11 and 13" in note
    assert "db2.c, partition 0, between the offsets 22 and 24" in note
    second = topic.run(HOURS[1], middle[1], others=[last[2]])
    assert topic.shown() == {
        table: [*rows, *((id_ + OTHERS, text) for id_, text in rows)] for table, rows in ROWS.items()
    }
    assert topic.missing() == [] and second.notes == []
    assert topic.shown(HOURS[0]) == EMPTY
    assert accounted(second) == (11, 0, 0)
    assert topic.audited() == []


OTHER = delivery(31, 2, 3)
CASES = {
    # name: hours with what comes in each
    "one hour": [[*delivery(11, 1, 1, 1, 2), *OTHER]],
    "later, whole": [delivery(11, 1, 1, 1, 2), OTHER],
    "later, in fewer and more": [OTHER, delivery(51, 1, 1, 1, 1, 1)],
    "later, in one message": [delivery(11, 1, 1, 1, 2), delivery(31, 5)],
    "the first is cut off": [delivery(11, 1, 1, 1, 2)[:2], OTHER],
    "the first is cut off, then one message": [delivery(11, 1, 1, 1, 2)[:2], delivery(31, 5)],
    "the second in parts over hours": [delivery(11, 1, 1, 1, 2)[:1], OTHER[1:], OTHER[:1]],
    "the second alone in part": [delivery(11, 1, 1, 1, 2), OTHER[1:]],
    "both over hours": [delivery(11, 1, 1, 1, 2)[:2], [*OTHER[:1], *delivery(11, 1, 1, 1, 2)[2:]], OTHER[1:]],
}


@pytest.mark.full
@pytest.mark.parametrize(
    "backwards", [pytest.param(False, marks=pytest.mark.long), True], ids=["in order", "backwards"]
)
@pytest.mark.parametrize("case", CASES)
def test_two_deliveries_in_segments_of_other_sizes_are_one_transaction(
    spark: SparkSession, settings: Settings, tmp_path: Path, case: str, backwards: bool
) -> None:
    hours = CASES[case]
    # An end by itself, with nothing known of the rest, is a transaction of one message, and shows until more is known.
    end_first = backwards and [piece[1] for piece in hours[-1]] == ["0000"] and hours[-1][0][2] != slice(0, 5)
    topic = Topic(f"sizes_{list(CASES).index(case)}_{int(backwards)}", tmp_path, settings)
    order = list(enumerate(hours))
    landed = 0
    for number, pieces in order[::-1] if backwards else order:
        receipt = topic.run(HOURS[number], *pieces)
        landed += receipt.landed + receipt.split
        assert end_first or topic.shown() in (EMPTY, ROWS), (case, number)
    assert topic.shown() == ROWS
    assert topic.missing() == []
    applied = sum(accounted(r)[0] for r in load_history(settings, topic.name).receipts)
    duplicates = sum(accounted(r)[1] for r in load_history(settings, topic.name).receipts)
    assert applied + duplicates == landed and (end_first or applied == 5 + len(hours))
    for number in range(len(hours)):
        topic.again(HOURS[number])
    assert topic.shown() == ROWS
    assert topic.audited() == []


@pytest.mark.full
def test_parts_of_two_deliveries_make_no_transaction(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """By their numbers alone 1 of one and the end of the other would be all of it. An older change that comes later has
    the keys folded again from the log."""
    topic = Topic("mixed", tmp_path, settings)
    first = topic.run(HOURS[1], delivery(11, 1, 1, 1, 2)[0], OTHER[1])
    assert topic.shown() == EMPTY and first.held_transactions == 1 and topic.missing() == ["1 of 2 parts"]
    topic.run(HOURS[2], OTHER[0])
    assert topic.shown() == ROWS and topic.shown(HOURS[1]) == EMPTY
    topic.run(HOURS[3], *delivery(11, 1, 1, 1, 2)[1:])
    assert topic.shown() == ROWS and topic.audited() == []
    again = topic.run(HOURS[4], *delivery(71, 4, 1), *delivery(81, 1, 1, 1, 2)[:3], twice=True)
    assert topic.shown() == ROWS and topic.missing() == [] and accounted(again) == (1, 16, 0)
    topic.run(HOURS[0])
    assert topic.shown() == ROWS and topic.audited() == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("bad", "wanted"), [("hold", EMPTY), ("split", {"a": [(3, "one")], "keyless": ROWS["keyless"]})]
)
def test_a_bad_change_is_bad_in_every_delivery(
    spark: SparkSession, settings: Settings, tmp_path: Path, bad: str, wanted: dict[str, list[tuple[int, str]]]
) -> None:
    """The cut of a late hour shows the delivery that is whole by then, another one than the tables."""
    topic = Topic(f"bad_{bad}", tmp_path, settings, bad)
    pieces = delivery(11, 2, 2, 1)
    topic.run(HOURS[0], pieces[0])
    topic.run(HOURS[2], pieces[1])
    receipt = topic.run(HOURS[1], pieces[2], *delivery(31, 5))
    assert topic.shown() == wanted
    assert topic.shown(HOURS[1]) == wanted
    refused = [row for row in list_kept_back(settings, topic.name) if row["stage"] == SCREEN]
    assert [json.loads(row["change"])["after"]["S"] for row in refused] == ["two", "two"]
    assert accounted(receipt)[2] == 0 and topic.audited() == []
    for hour in HOURS[:3]:
        assert recall(topic.feed, hour, settings) == (bad == "hold" or hour != HOURS[0])
    again = Topic(topic.name, tmp_path, settings)
    for hour in HOURS[:3]:
        again.again(hour)
    assert again.shown() == ROWS
    assert not list_kept_back(settings, topic.name) and again.audited() == []


@pytest.mark.full
def test_an_end_beside_all_of_its_transaction_in_one_message(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """The end holds a row without a key, which must not count twice: in the tables, where the rest never comes, and in the
    cut of a late hour, where the rest is in later hours."""
    topic, pieces = Topic("ends", tmp_path, settings), delivery(11, 2, 1, 2)
    topic.run(HOURS[0], pieces[2])
    topic.run(HOURS[1], *delivery(31, 5))
    assert topic.shown() == ROWS and topic.audited() == []
    late = Topic("late_ends", tmp_path / "late", settings)
    late.run(HOURS[0], pieces[0])
    late.run(HOURS[2], pieces[1])
    late.run(HOURS[1], pieces[2], *delivery(31, 5))
    assert late.shown() == late.shown(HOURS[1]) == ROWS and late.audited() == []


@pytest.mark.full
def test_a_transaction_in_two_queues_waits_for_both(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    """The hour ends inside what one queue holds of it. By the numbers of both together it would be whole."""
    topic, other = Topic("queues", tmp_path, settings), "db2.d"
    topic.feed = topic.feed.model_copy(update={"topics": ["db2.c", other]})
    of_a = [(11, "0001", slice(0, 1)), (12, "0002", slice(2, 3)), (13, "0000", slice(4, 5))]
    keyless = [_message((11, "0001", slice(1, 2)), topic=other), _message((12, "0000", slice(3, 4)), topic=other)]
    write_export(tmp_path, other, HOURS[0], [keyless[:1]], "kafka_json")
    first = topic.run(HOURS[0], *of_a)
    assert topic.shown() == EMPTY and accounted(first) == (1, 0, 4) and first.held_transactions == 1
    write_export(tmp_path, other, HOURS[1], [keyless[1:]], "kafka_json")
    second = topic.run(HOURS[1])
    assert topic.shown() == ROWS and accounted(second) == (6, 0, 0) and topic.shown(HOURS[0]) == EMPTY
    write_export(tmp_path, other, HOURS[2], [[_message((21, "0000", slice(1, 4, 2)), topic=other)]], "kafka_json")
    again = topic.run(HOURS[2], (31, "0001", slice(0, 1)), (32, "0000", slice(2, 5, 2)))
    assert topic.shown() == ROWS and accounted(again) == (1, 5, 0) and topic.missing() == [] and topic.audited() == []
