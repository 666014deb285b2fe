"""The oracle itself, on histories small enough to be done by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

from tests.convergence.oracle import (
    BROKEN,
    Account,
    Change,
    Image,
    Message,
    Row,
    Source,
    Transaction,
    Value,
    account,
    rows,
)

KEY = (1,)


def image(**values: Value) -> Image:
    return frozenset(values.items())


def insert(at: int, key: int = 1, **values: Value) -> Change:
    return Change("t", at, "insert", (key,), image(id=key, **values))


def update(at: int, key: int = 1, absent: str = "", **values: Value) -> Change:
    return Change("t", at, "update", (key,), image(id=key, **values), frozenset(absent.split()))


def delete(at: int, key: int = 1) -> Change:
    return Change("t", at, "delete", (key,))


def shown(*changes: Change) -> dict[int, tuple[Mapping[str, Value], str]]:
    """What is left, the same in whichever order the changes are given."""
    found = {
        str(result): result
        for order in permutations(changes)
        for result in [{k[0]: (dict(row.values), " ".join(sorted(row.absent))) for k, row in rows(order).items()}]
    }
    (only,) = {str(sorted(r.items(), key=str)): r for r in found.values()}.values()
    return only


def test_what_was_not_sent_stays() -> None:
    assert shown(insert(1, a=1, b=1), update(2, absent="b", a=None)) == {1: ({"id": 1, "a": None, "b": 1}, "")}


def test_what_nobody_sent_is_absent_until_it_comes() -> None:
    assert shown(update(2, absent="b", a=2)) == {1: ({"id": 1, "a": 2, "b": None}, "b")}
    assert shown(update(2, absent="b", a=2), insert(1, a=1, b=1)) == {1: ({"id": 1, "a": 2, "b": 1}, "")}
    assert shown(update(2, absent="b", a=2), insert(3, a=3, b=3)) == {1: ({"id": 1, "a": 3, "b": 3}, "")}


def test_a_delete_ends_the_row() -> None:
    assert shown(insert(1, a=1), delete(2)) == {}
    assert shown(insert(1, a=1, b=1), delete(2), update(3, absent="b", a=3)) == {1: ({"id": 1, "a": 3, "b": None}, "b")}
    assert shown(insert(1, a=1), delete(2), insert(3, a=3)) == {1: ({"id": 1, "a": 3}, "")}


def test_a_truncate_ends_what_was_before_it_and_nothing_after() -> None:
    assert shown(insert(1, a=1), insert(2, 2, a=2), Change("t", 3, "truncate"), insert(4, 2, a=4)) == {
        2: ({"id": 2, "a": 4}, "")
    }


def test_columns_change_in_rows_of_before_and_in_no_others() -> None:
    def alter(at: int, fill: Value = None, **names: str | None) -> Change:
        pairs = tuple((None if old == "new" else old, new) for old, new in names.items())
        return Change("t", at, "alter", names=pairs, fill=fill)

    both = insert(1, a=1, b=2), insert(4, 2, a=3, b=4)
    assert shown(*both, alter(3, a="b", b="a")) == {
        1: ({"id": 1, "b": 1, "a": 2}, ""),
        2: ({"id": 2, "a": 3, "b": 4}, ""),
    }
    assert shown(*both, alter(3, a=None, b="c"))[1] == ({"id": 1, "c": 2}, "")
    assert shown(*both, alter(3, fill="x", new="c"))[1] == ({"id": 1, "a": 1, "b": 2, "c": "x"}, "")
    unsent = update(1, absent="a", b=2), update(4, absent="c", b=5)
    assert shown(*unsent, alter(3, a="c")) == {1: ({"id": 1, "b": 5, "c": None}, "c")}


def test_what_cannot_be_read_waits_for_what_describes_it() -> None:
    alone, described = Message("a", (insert(1, a=1),), described_by="x"), Message("x")
    assert [Source().counted(landed) for landed in ([alone], [alone, described])] == [set(), {insert(1, a=1)}]
    assert account(Source(), [alone], [alone], []) == Account(landed=1, held=1)


def test_a_key_change_carries_over() -> None:
    moved = delete(3), Change("t", 3, "insert", (2,), image(id=2, a=3), frozenset({"b"}), (1,))
    assert shown(insert(1, a=1, b=1), *moved) == {2: ({"id": 2, "a": 3, "b": 1}, "")}
    again = delete(5, 2), Change("t", 5, "insert", (3,), image(id=3, a=5), frozenset({"b"}), (2,))
    assert shown(insert(1, a=1, b=1), *moved, *again) == {3: ({"id": 3, "a": 5, "b": 1}, "")}
    assert shown(*moved) == {2: ({"id": 2, "a": 3, "b": None}, "b")}
    assert shown(insert(1, a=1, b=1), delete(2), *moved) == {2: ({"id": 2, "a": 3, "b": None}, "b")}


def test_a_key_change_carries_over_before_its_delete_lands() -> None:
    moved = Change("t", 2, "insert", (2,), image(id=2, a=2), frozenset({"b"}), (1,))
    there = {1: ({"id": 1, "a": 1, "b": 1}, "")}
    assert shown(insert(1, a=1, b=1), moved) == there | {2: ({"id": 2, "a": 2, "b": 1}, "")}
    assert shown(insert(1, a=1, b=1), moved, delete(2)) == {2: ({"id": 2, "a": 2, "b": 1}, "")}


def test_copies_are_counted_in_no_order() -> None:
    one, other = image(id=1), image(id=2)
    source = Source(keyless={"m"})
    changes = [
        Change("m", 1, "insert", sent=one), Change("m", 2, "insert", sent=one), Change("m", 3, "delete", taken=one),
        Change("m", 4, "update", sent=other, taken=one), Change("m", 5, "insert", sent=one),
    ]  # fmt: skip
    messages = [Message(str(change.position), (change,)) for change in changes]
    assert source.tables(messages) == {"m": Counter({one: 1, other: 1})}
    assert source.tables([*messages, messages[0]]) == source.tables(messages), "the same again"
    assert source.tables(messages[2:4]) == {"m": Counter({other: 1})}, "what is owed is not shown"
    emptied = Message("6", (Change("m", 4, "truncate"),))
    assert source.tables([*messages, emptied]) == {"m": Counter({one: 1})}


def test_a_transaction_takes_part_when_all_of_it_is_there() -> None:
    source = Source(
        transactions={"x": Transaction(frozenset("abc")), "y": Transaction(frozenset("de"), taken_back="e")}
    )
    a, b, c = Message("a", (insert(1, a=1),), "x"), Message("b", (insert(2, 2, a=2),), "x"), Message("c", (), "x")
    d = Message("d", (insert(3, 3, a=3), insert(4, 4, a=4)), "y", entries=2)
    assert source.tables([a, b, b, d]) == {}
    assert source.tables([c, b, a, d]) == {"t": {KEY: Row({"id": 1, "a": 1}), (2,): Row({"id": 2, "a": 2})}}
    assert account(source, [a, b, b], [a, b], []) == Account(landed=3, held=3)
    assert account(source, [c, d], [a, b, c, d], [a, b]) == Account(landed=2, split=1, control=1, held=2)
    e = Message("e", (), "y")
    assert account(source, [d, e], [d, e], []) == Account(landed=2, split=1, control=3)
    assert source.tables([d, e]) == {}


def test_a_bad_change_waits_with_its_transaction_whatever_comes_before_or_after_it() -> None:
    source = Source(checked={"t"}, transactions={"x": Transaction(frozenset("ab"))})
    a, b = Message("a", (insert(1, 1, n=-1),), "x"), Message("b", (insert(2, 2, n=2),), "x")
    alone, newer = Message("c", (insert(3, 3, n="none"),)), Message("d", (update(4, 1, n=4),))
    assert source.tables([a, b, alone, newer]) == {"t": {KEY: Row({"id": 1, "n": 4})}}
    assert source.tables([newer, alone]) == source.tables([a, newer]) == source.tables([newer])
    assert source.refused([a, b, alone, newer]) == {*a.changes, *alone.changes}
    assert source.refused([a, newer]) == set(), "it is not whole"
    assert Source(transactions=source.transactions).tables([a, b]) == {
        "t": {KEY: Row({"id": 1, "n": -1}), (2,): Row({"id": 2, "n": 2})}
    }
    assert account(source, [a, b, alone], [a, b, alone], []) == Account(landed=3, quarantined=3)
    assert account(source, [b], [a, b], [a]) == Account(landed=1, quarantined=1)
    assert account(source, [b], [a, b, b], [a, b]) == Account(landed=1, quarantined=1)
    by_delivery = replace(source, by_delivery=True)
    assert account(by_delivery, [b], [a, b, b], [a, b]) == Account(landed=1, held=1)


def test_a_transaction_counts_once_each_of_its_messages_is_there_without_what_is_bad() -> None:
    source = Source(checked={"t"}, transactions={"x": Transaction(frozenset("ab"))})
    a, b = Message("a", (insert(1, 1, n=-1),), "x"), Message("b", (insert(2, 2, n=2),), "x")
    mended = Message("a", (insert(1, 1, n=1),), "x")
    rows = {"t": {KEY: Row({"id": 1, "n": 1}), (2,): Row({"id": 2, "n": 2})}}
    assert source.tables([a, b, mended]) == source.tables([mended, b]) == source.tables([mended, b, a]) == rows
    assert source.tables([a, mended]) == {}, "it is not whole"
    assert source.refused([a, b, mended]) == {*a.changes}
    assert account(source, [a, b], [mended, b, a, b], [mended, b]) == Account(landed=2, quarantined=1)
    assert account(source, [mended], [a, b, mended], [a, b]) == Account(landed=1)


def test_where_transactions_are_split_only_what_is_bad_waits_and_its_other_half() -> None:
    source = Source(checked={"t"}, splits=True, transactions={"x": Transaction(frozenset("abc"))})
    a, b = Message("a", (insert(1, 1, n=-1),), "x"), Message("b", (insert(2, 2, n=2), delete(3, 2)), "x")
    c = Message("c", (Change("t", 3, "insert", (3,), image(id=3, n="none"), frozenset(), (2,)),), "x")
    assert source.tables([a, b]) == {}, "it is not whole"
    assert source.tables([a, b, c]) == {"t": {(2,): Row({"id": 2, "n": 2})}}
    assert source.refused([a, b, c]) == {*a.changes, *c.changes}
    assert account(source, [a, b, c], [a, b, c], []) == Account(landed=3, quarantined=3)
    mended = Message("a", (insert(1, 1, n=1),), "x")
    assert source.tables([a, b, c, mended]) == {"t": {KEY: Row({"id": 1, "n": 1}), (2,): Row({"id": 2, "n": 2})}}


def test_what_cannot_be_decoded_is_bad_wherever_it_stands_and_not_refused() -> None:
    source = Source(transactions={"x": Transaction(frozenset("ab"))})
    a, b = Message("a", (insert(1, 1, n=BROKEN),), "x"), Message("b", (insert(2, 2, n=2),), "x")
    assert source.tables([a, b]) == {} and source.refused([a, b]) == set()
    assert account(source, [a], [a], []) == Account(landed=1, quarantined=1), "also of a transaction that is not whole"
    assert account(source, [b], [a, b], [a]) == Account(landed=1, quarantined=1)
    mended = Message("a", (insert(1, 1, n=1),), "x")
    assert source.tables([a, b, mended]) == {"t": {KEY: Row({"id": 1, "n": 1}), (2,): Row({"id": 2, "n": 2})}}
    bad = Message("b", (insert(2, 2, n="none"),), "x")
    assert source.refused([a, bad]) == set(), "its transaction waits, and nothing of it is judged"
    assert source.refused([a, bad, mended]) == replace(source, splits=True).refused([a, bad]) == {*bad.changes}


def test_the_other_half_of_a_bad_key_change_waits() -> None:
    source = Source()
    moved = delete(3), Change("t", 3, "insert", (2,), image(id=2, n="none"), frozenset(), (1,))
    sent = [Message("a", (insert(1, n=1),)), Message("b", (*moved, insert(4, 4, n=4)))]
    assert source.tables(sent) == {"t": {KEY: Row({"id": 1, "n": 1}), (4,): Row({"id": 4, "n": 4})}}
    assert account(source, sent, sent, []) == Account(landed=2, quarantined=1)
