"""IBM Q Replication's delimited messages of a unit: a transaction in one message or in segments, all on one topic."""

from __future__ import annotations

from typing import Any

from tests.convergence.histories import KEYLESS, Deed, Traits, Unit
from tests.convergence.oracle import Message, Value
from tests.convergence.wire import Sent, key_row, name_of, prior_row, row

# In the HEX form LOBs are not sent, in the NULL form neither those nor characters.
_HEX, _NULL = frozenset({"big"}), frozenset({"s", "big"})
TRAITS = Traits(absent=(_HEX, _NULL, frozenset()), partial_inserts=True, truncates=False)
TOPICS = ("db2.c",)
_COLUMNS = {"id": "BIGINT", "n": "BIGINT", "s": "VARCHAR(40)", "big": "CLOB(1M)"}
_TABLES = {
    "a": _COLUMNS,
    "b": {"id": "BIGINT", "no": "INTEGER"} | _COLUMNS,
    KEYLESS: _COLUMNS | {"big": "VARCHAR(40)"},  # images before hold no LOBs: what goes would always wait
}
#: More than there are units, or messages of one.
_MOST = 1_000_000
_KINDS = {"insert": "ISRT", "update": "REPL", "delete": "DLET"}


def feed(name: str) -> dict[str, Any]:
    """The rest of the feed file."""
    keys = {"a": ["id"], "b": ["id", "no"], KEYLESS: []}
    tables = {
        f"C.{table.upper()}": {"name": f"{name}.{table}", "key": keys[table], "columns": columns}
        for table, columns in _TABLES.items()
    }
    return {"format": {"type": "ibm", "source_code_page": "1208"}, "tables": tables}


def encode(unit: Unit) -> list[Sent]:
    """A message for each segment, in their order; the last one is 0000. One that never comes is a middle or the last."""
    sent = messages(unit, (len(unit.deeds), 1, 1, 2)[unit.choice(0, 4)])
    if unit.ending == "never":
        # Only a missing last segment, or one before the highest number that came, can be seen.
        return without(sent, unit.choice(2, 2) if len(sent) > 3 else len(sent) - 1, unit)
    return sent


def without(sent: list[Sent], lost: int, unit: Unit) -> list[Sent]:
    """A delivery of which a message never comes."""
    return never_whole([one for index, one in enumerate(sent) if index != lost], unit)


def never_whole(sent: list[Sent], unit: Unit) -> list[Sent]:
    """A delivery that lacks what never comes."""
    never = Message(name_of(unit, "never"), tx=name_of(unit, "tx" if unit.together else "tx0"))
    return [*sent, Sent(never, "", None, delivery=sent[0].delivery if sent else 1)]


def messages(unit: Unit, size: int, delivery: int = 0) -> list[Sent]:
    """A delivery of the unit, in segments of so many deeds."""
    # Without a transaction around them the source commits each by itself.
    alone = not unit.together
    size = 1 if alone else size
    pieces = [unit.deeds[i : i + size] for i in range(0, len(unit.deeds), size)]
    sent = []
    for index, deeds in enumerate(pieces):
        tx = name_of(unit, f"tx{index}" if alone else "tx")
        segment = "0000" if alone or index == len(pieces) - 1 else f"{index + 1:04}"
        lsn = unit.number * 10 + (index if alone else 0)
        value = b"".join(_record(deed, unit, lsn, segment) for deed in deeds)
        name = name_of(unit, f"again.{index}" if delivery else index)
        says = Message(name, tuple(c for deed in deeds for c in deed), tx, entries=len(deeds))
        # What is delivered again stands behind everything.
        offset = (delivery * _MOST + unit.number) * _MOST + index * (2 if alone else 1)
        sent.append(Sent(says, TOPICS[0], value, offset=offset, delivery=delivery))
    return sent


def _record(deed: Deed, unit: Unit, lsn: int, segment: str) -> bytes:
    change = deed[-1]
    table = _TABLES[change.table]
    kind = "REPL" if change.prior is not None else _KINDS[change.op]
    form = {_HEX: "HEX", _NULL: "NULL"}.get(change.absent) if change.absent else None
    identifier = f"IBM-INVALID-COLUMN-003A-{form}" if form else "IBM"
    # A source that is upgraded in mid-stream writes longer numbers.
    groups = 5 if unit.number < 3000 else 8
    header = [
        "10", f'"{identifier}"', '"2026324"', f'"182310{change.position % 10**6:06}"', '"C"', f'"{change.table.upper()}"',
        f'"{kind}"', f'"{_grouped(unit.number, 5)}"', f'"{_grouped(lsn, groups)}"', '"2026-11-20-18.23.10"',
        '"ASNQC910"', segment,
    ]  # fmt: skip
    before = dict(change.taken or ()) or (prior_row(change) if change.prior is not None else {})
    if change.op != "insert" and change.taken is None:
        before = key_row(change)
    after = row(change)
    shown = [_field(before.get(name), False) for name in table]
    shown += [_field(after.get(name), form == "HEX" and name == "s") for name in table]
    return ",".join([*header, *shown]).encode() + b"\n"


def _field(value: Value, in_hex: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    return '"' + (value.encode().hex() if in_hex else value.replace('"', '""')) + '"'


def _grouped(number: int, groups: int) -> str:
    digits = f"{number:0{4 * groups}x}"
    return ":".join(digits[i : i + 4] for i in range(0, len(digits), 4))
