"""From stored types to wanted ones: added, widened in place, or refused because values would be lost."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tidemark.errors import SchemaError
from tidemark.values.columns import ColumnType
from tidemark.values.type_changes import fits, reconcile, refuse_other_key, unsafe, widens, wider_of

DECIMALS = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))
TYPES = st.one_of(
    DECIMALS.map(lambda of: f"decimal({of[0]},{of[1]})"),
    st.sampled_from(["int", "bigint", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", "string"]),
)
TABLES = st.dictionaries(st.sampled_from("abcd"), TYPES)


def largest(precision: int, scale: int) -> Decimal:
    return Decimal((0, (9,) * precision, -scale))


@given(new=DECIMALS, old=DECIMALS)
def test_a_decimal_fits_where_its_longest_value_does(new: tuple[int, int], old: tuple[int, int]) -> None:
    # The largest value needs all digits before the point, the smallest all behind it.
    holds = largest(new[0] - new[1], 0) <= largest(old[0] - old[1], 0) and new[1] <= old[1]
    assert fits("decimal({},{})".format(*new), "decimal({},{})".format(*old)) == holds


@given(old=TYPES, new=TYPES)
def test_what_is_widened_in_place_holds_every_old_value(old: str, new: str) -> None:
    assume(old != new)
    if widens(old, new):
        assert fits(old, new)
        assert not new.startswith("decimal") or old.rpartition(",")[2] == new.rpartition(",")[2], (
            "the scale is the same"
        )


@given(old=TYPES, new=TYPES)
def test_no_two_types_are_wider_than_each_other(old: str, new: str) -> None:
    assume(old != new)
    assert not (widens(old, new) and widens(new, old))
    assert not (fits(old, new) and fits(new, old))


@given(stored=TABLES, wanted=TABLES)
def test_every_wanted_column_is_added_widened_or_fits_and_again_nothing_is_left(
    stored: dict[str, str], wanted: dict[str, str]
) -> None:
    refused = [
        name
        for name in stored.keys() & wanted.keys()
        if (old := stored[name]) != (new := wanted[name]) and not fits(new, old) and not widens(old, new)
    ]
    if refused:
        with pytest.raises(SchemaError, match=f"column [{''.join(refused)}] is .* without losing values"):
            reconcile("s.t", stored, wanted)
        return
    add, widen = reconcile("s.t", stored, wanted)
    assert add == {name: wanted[name] for name in wanted.keys() - stored.keys()}
    assert all(widens(stored[name], new) and new == wanted[name] for name, new in widen.items())
    after = stored | add | widen
    assert all(after[name] == new or fits(new, after[name]) for name, new in wanted.items())
    assert reconcile("s.t", after, wanted) == ({}, {})


@given(stored=TABLES, declared=TABLES)
def test_the_wider_type_of_both_never_narrows_a_column(stored: dict[str, str], declared: dict[str, str]) -> None:
    wider = wider_of(stored, {name: ColumnType(spark, "hex") for name, spark in declared.items()})
    assert wider.keys() == declared.keys()
    for name, spark in wider.items():
        assert spark in (declared[name], stored.get(name))
        assert spark == declared[name] or fits(declared[name], spark)
        assert spark == stored.get(name) or name not in stored or not fits(declared[name], stored[name])


@pytest.mark.parametrize(
    ("old", "new", "possible"),
    [
        ("int", "bigint", True), ("float", "double", True), ("decimal(5,2)", "decimal(9,2)", True),
        ("decimal(5,2)", "decimal(9,3)", False), ("int", "double", False), ("bigint", "int", False),
        ("int", "string", False), ("date", "timestamp", False), ("bigint", "decimal(20,0)", False),
    ],
)  # fmt: skip
def test_only_icebergs_promotions_are_made_in_place(old: str, new: str, possible: bool) -> None:
    assert widens(old, new) is possible


@pytest.mark.parametrize("stored", ["bigint", "string"])
def test_a_stored_type_that_is_wider_stays(stored: str) -> None:
    assert reconcile("s.t", {"a": stored}, {"a": "int"}) == ({}, {})
    assert wider_of({"a": stored}, {"a": ColumnType("int")}) == {"a": stored}


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [({"Id": "int"}, {"id": "int"}), ({}, {"id": "int", "ID": "int"}), ({"a": "int", "A": "int"}, {})],
)
def test_names_that_differ_only_in_case_are_refused(stored: dict[str, str], wanted: dict[str, str]) -> None:
    with pytest.raises(SchemaError, match="differ only in case") as raised:
        reconcile("s.t", stored, wanted)
    assert raised.value.table == "s.t"


@pytest.mark.parametrize("name", ["_tidemark", "_TideMark"])
def test_our_own_column_cannot_come_from_the_source(name: str) -> None:
    with pytest.raises(SchemaError, match="keeps for itself"):
        reconcile("s.t", {}, {name: "int"})


def test_a_change_that_loses_values_says_how_to_go_on() -> None:
    error = unsafe("s.t", "price", "bigint", "date")
    assert "price is bigint and would become date" in str(error)
    assert error.table == "s.t" and error.fix and "another `name`" in error.fix


@pytest.mark.parametrize(
    ("stored", "key", "what", "declare"),
    [
        (["id"], ("id", "day"), "the key is id and would become id, day", "`key: [id]`"),
        (["id"], (), "the key is id and would become none", "`key: [id]`"),
        ([], ("id",), "the key is none and would become id", "`key: []`"),
        (["a", "b"], ("b", "a"), "the key is a, b and would become b, a", "`key: [a, b]`"),
        (["id"], ("n",), "the key is id and would become n", "`key: [id]`"),
        (["a", "b"], ("b",), "the key is a, b and would become b", "`key: [a, b]`"),
    ],
)
def test_another_key_is_refused(stored: list[str], key: tuple[str, ...], what: str, declare: str) -> None:
    with pytest.raises(SchemaError, match=what) as raised:
        refuse_other_key("s.t", "shop", stored, key)
    assert (raised.value.feed, raised.value.table) == ("shop", "s.t")
    assert raised.value.fix and raised.value.fix.startswith(f"declare the old key ({declare})")
    assert ("Of Debezium's messages" in raised.value.fix) is bool(key and not {*stored} <= {*key})


def test_the_same_key_is_none_of_these() -> None:
    refuse_other_key("s.t", "shop", ["id"], ("id",))
    refuse_other_key("s.t", "shop", [], ())
