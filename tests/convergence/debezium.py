"""Debezium PostgreSQL's messages of a unit: a topic per table and one of transaction metadata, no message schemas."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.convergence.histories import KEYLESS, KEYS, ROOM, SPREAD, Deed, Traits, Unit
from tests.convergence.oracle import Change, Message, is_broken
from tests.convergence.wire import Sent, key_row, name_of, prior_row, row
from tidemark_samples.debezium_wire import UNAVAILABLE

_NONE, _S, _BIG = frozenset[str](), frozenset({"s"}), frozenset({"big"})
TRAITS = Traits(
    absent=(_BIG, _S, _S | _BIG, _NONE),
    loads="here",
    split_moves=True,
    alters=("add", "drop"),
    snapshots=True,
    broken=True,
)
_META = "srv.transaction"
_TABLES = (*KEYS, KEYLESS)
TOPICS = (*(f"srv.c.{table}" for table in _TABLES), _META)
_OPS = {"insert": "c", "update": "u", "delete": "d", "truncate": "t"}


def feed(name: str) -> dict[str, Any]:
    """The rest of the feed file."""
    columns = {"id": "bigint", "n": "bigint", "s": "text", "big": "text"}
    tables = {
        f"c.{table}": {
            "name": f"{name}.{table}",
            "columns": columns if table != "b" else {"id": "bigint", "no": "bigint"} | columns,
        }
        for table in _TABLES
    }
    return {"format": {"type": "debezium", "decimals": "string", "transactions": _META}, "tables": tables}


def encode(unit: Unit) -> list[Sent]:
    """In the order of the log. Half of the long transactions began early: their LSNs lie before those of others. Columns
    that come and go are not told: rows have them or have not."""
    if unit.deeds[0][0].op == "alter":
        return []
    way = _way(unit)
    sent = [_row_read(unit, way, index, row) for index, row in enumerate(way.rows)]
    if not (unit.together or unit.deeds[0][0].table == KEYLESS):
        return sent + [one for deed in unit.deeds for one in _deed(unit, way, deed, way.runs[0], None)]
    # Rows without a key are in a transaction: nothing else tells a row that comes again at once from its twin.
    tx = name_of(unit, "tx")
    for run in way.runs:
        if run.begins:
            body = {"status": "BEGIN", "id": f"{unit.number}:{_lsn(way.begun, 1)}", "event_count": None}
            begin = Message(name_of(unit, "begin"), tx=tx)
            sent.append(Sent(begin, _META, _dumps(body), needed=False, in_turn=way.tight, tight=way.tight))
        order = run.counted
        for deed in unit.deeds[run.first : run.until]:
            sent += _deed(unit, way, deed, run, order)
            order += len(deed)
        if run.ends and unit.ending == "commit":
            body = {"status": "END", "id": f"{unit.number}:{_lsn(way.begun, 99)}", "event_count": order}
            end = Message(name_of(unit, "end"), tx=tx)
            sent.append(Sent(end, _META, _dumps(body), in_turn=way.tight, tight=way.tight))
    if unit.ending != "commit":
        sent.append(Sent(Message(name_of(unit, "never"), tx=tx), "", None))
    return sent


@dataclass(frozen=True)
class _Run:
    """What the connector sends of a unit between two of its starts: its deeds from ``first`` on. ``commit``: the LSN that
    it takes for that of the commit before. ``counted``: how many events it has counted before them."""

    first: int
    until: int
    commit: int | None
    begins: bool = True
    counted: int = 0
    ends: bool = True


@dataclass(frozen=True)
class _Way:
    """How a unit is told. ``begun``: by which number its LSNs count. ``read``: the kind of snapshot that comes before it,
    of which are the ``rows``; they have the LSN ``read_at``. ``tight``: all of it comes in one hour, in order."""

    begun: int
    read: str
    rows: tuple[Change, ...]
    read_at: int
    runs: tuple[_Run, ...]
    tight: bool = False


#: The kinds of snapshots before a unit: a whole one, whose connector knows of no commit then; and what can close the window
#: of an incremental one, which is another transaction, or with ``read.only`` the first event of this one, or the commit
#: before it. A heartbeat is as that commit.
_READS = ("snapshot", "signal", "event", "commit", "snapshot", "commit")


def _way(unit: Unit) -> _Way:
    events = [change for deed in unit.deeds for change in deed]
    read = _READS[unit.choice(1, len(_READS))]
    if read == "event" and _loaded(events[0], unit):
        read = "signal"
    rows = unit.chunk
    if read == "snapshot":
        # What was in flight while a snapshot was taken is told by its rows in the same topic.
        lacking = {change.table for change in events} - {KEYLESS} - {row.table for row in unit.stood}
        rows = (*unit.stood, *(_always_there(unit, table) for table in sorted(lacking))) if unit.together else ()
    read = read if rows else ""
    long = (unit.choices[0] + unit.number // SPREAD) % 2 == 1
    begun = unit.number - (700 if long and unit.number > 2000 else 0)
    before = _lsn(unit.number, 0)
    first = _lsn(begun, events[0].position % ROOM)
    read_at = {"snapshot": before + 5, "signal": before + 2, "event": first, "commit": before}.get(read, before)
    commit = {"snapshot": None, "signal": before + 4}.get(read, before)
    runs, tight = _runs(unit, begun, commit, read_at)
    return _Way(begun, read, rows, read_at, runs, tight)


def _always_there(unit: Unit, table: str) -> Change:
    """A row that was there before the histories began, and that no unit changes."""
    key = (unit.number % SPREAD * 100 + 90, 7)[: len(KEYS[table])]
    sent = dict(zip(KEYS[table], key, strict=True)) | {"n": 0, "s": "always", "big": None}
    return Change(table, _lsn(unit.number, 9), "insert", key, frozenset(sent.items()))


def _runs(unit: Unit, begun: int, commit: int | None, read_at: int) -> tuple[tuple[_Run, ...], bool]:
    """The runs of the connector, and whether what they send must come in one hour: a connector before 3.6.1 counts anew when
    it starts again, so that an END says nothing of what came before."""
    count, kind = len(unit.deeds), unit.choice(3, 12)
    if not unit.together or kind > 5:
        return (_Run(0, count, commit),), False
    sent = 1 + kind % count
    known = kind // 2 % (sent + 1)  # deeds after which the connector wrote down where it is
    crashed = _Run(0, sent, commit, ends=sent == count)
    in_first, odd = commit is None, kind % 2 == 1
    if known == 0:  # nothing was written down, or BEGIN, with the snapshot as what was processed before it
        return (crashed, _Run(0, count, read_at if in_first and not odd else commit, begins=odd)), False
    last = _lsn(begun, unit.deeds[known - 1][-1].position % ROOM)
    anew = odd and not in_first
    counted = 0 if anew else sum(len(deed) for deed in unit.deeds[:known])
    return (crashed, _Run(known, count, last if in_first else commit, begins=anew, counted=counted)), anew


def _row_read(unit: Unit, way: _Way, index: int, row: Change) -> Sent:
    """A row that a snapshot reads as it stands."""
    whole = way.read == "snapshot"
    sequence = [None if whole else str(_lsn(unit.number, 0)), str(way.read_at)]
    marks = {"lsn": way.read_at, "txId": unit.number, "snapshot": "true"} if whole else {"snapshot": "incremental"}
    value = _dumps(_event(row, "r", sequence, marks, None))
    return Sent(Message(name_of(unit, f"read.{index}"), (row,)), f"srv.c.{row.table}", value, _key(row), in_turn=whole)


def _deed(unit: Unit, way: _Way, deed: Deed, run: _Run, order: int | None) -> list[Sent]:
    """The events of a deed, of which ``order`` are counted before it in its transaction; None: it is in none."""
    sent: list[Sent] = []
    events = [change for each in unit.deeds for change in each]
    for index, change in enumerate(deed, 1):
        topic, key, at = f"srv.c.{change.table}", _key(change), events.index(change)
        lsn = _lsn(way.begun, change.position % ROOM)
        op, sequence = _OPS[change.op], [None if run.commit is None else str(run.commit), str(lsn)]
        marks: dict[str, Any] = {"txId": unit.number, "lsn": lsn}
        read = _loaded(change, unit)
        again = read and unit.choice(1, 2) == 1  # a second snapshot, in the middle of the tables' life
        if again:
            taken = _lsn(unit.number, change.position % ROOM)
            sequence, marks = [None, str(taken)], {"txId": unit.number, "lsn": taken, "snapshot": "true"}
        elif read:
            marks = {"snapshot": "incremental"}
        number = None if order is None else order + index
        transaction = None if number is None else {"id": f"{unit.number}:{lsn}", "total_order": number}
        value = _dumps(_event(change, "r" if read else op, sequence, marks, transaction))
        says = Message(name_of(unit, at), (change,), None if order is None else name_of(unit, "tx"))
        # Kafka spreads messages without a key.
        keyless = change.table == KEYLESS
        in_turn = again or way.tight or ((way.read == "snapshot") and not keyless)
        sent.append(
            Sent(says, topic, value, key, _headers(change, events), tight=way.tight, in_turn=in_turn, spread=keyless)
        )
        if change.op == "delete":
            sent.append(Sent(Message(name_of(unit, f"{at}.tombstone")), topic, None, key))
    return sent


def _key(change: Change) -> bytes | None:
    return None if change.table == KEYLESS or change.op == "truncate" else _dumps(key_row(change))


def _loaded(change: Change, unit: Unit) -> bool:
    """Whether an insert is a row that a snapshot read, which is in no transaction."""
    return (
        change.op == "insert"
        and change.prior is None
        and change.table != KEYLESS
        and not unit.together
        and unit.choice(change.position, 3) == 0
    )


def _lsn(number: int, offset: int) -> int:
    return number * ROOM + offset


def _event(
    change: Change, op: str, sequence: list[str | None], marks: dict[str, Any], transaction: dict[str, Any] | None
) -> dict[str, Any]:
    source = {
        "ts_ms": 1795132800000, "sequence": json.dumps(sequence), "schema": "c", "table": change.table, **marks,
    }  # fmt: skip
    # A column that the source's table did not have then is null, and not named.
    named = {name: value for name, value in row(change).items() if value is not None or change.position % 2}
    after = named | dict.fromkeys(change.absent, UNAVAILABLE)
    return {
        "before": dict(change.taken) if change.taken is not None else None,
        "after": after if change.op in ("insert", "update") else None,
        "source": source,
        "op": "?" if is_broken(change) else op,
        "transaction": transaction,
    }


def _headers(change: Change, events: list[Change]) -> tuple[tuple[str, str], ...]:
    if change.prior is not None:
        return (("__debezium.oldkey", json.dumps(prior_row(change))),)
    moved = [e for e in events if e.prior == change.key and (e.table, e.position) == (change.table, change.position)]
    return (("__debezium.newkey", json.dumps(key_row(moved[0]))),) if change.op == "delete" and moved else ()


def _dumps(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
