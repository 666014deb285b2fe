"""A row is a join: what a settled row and the stored one come to, as SQL over ``t`` (stored) and ``s`` (SETTLED).

The state of a row is its base (the newest change that needs nothing before it) and, for each column, the value that was
sent last, with the sort key of the change that sent it: one of ``newer``, else the base. Two states join column by column:
the newer value stands, and what is older than the newer base falls away. That is associative, commutative and idempotent,
so that it does not matter in which order states meet, or how often.

A deleted row is a state too: its base is the delete, and all of its columns are absent. A row that is deleted is not
stored, so what meets no stored row must not be older than its key's tombstone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidemark.identifiers import TIDEMARK, quote

_T, _S = f"t.{TIDEMARK}", "s.tidemark"
_NONE = "CAST(map() AS map<string, string>)"


def text_literal(text: str) -> str:
    """A text as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def joined_value(name: str, sent: str) -> str:
    """The value of a column. ``sent``: the settled row's."""
    return f"CASE WHEN NOT s.joins OR {_is_newer(text_literal(name))} THEN {sent} ELSE t.{quote(name)} END"


def _is_newer(name: str) -> str:
    """Whether the settled row's value of a column is the newer one. ``name``: an expression."""
    return f"coalesce({_sent_at(_S, name)} > coalesce({_sent_at(_T, name)}, ''), false)"


def _sent_at(side: str, name: str) -> str:
    return f"coalesce(element_at({side}.newer, {name}), {side}.base_sort_key)"


def is_newer_row() -> str:
    """Whether the settled row is the newer one, of rows that are whole."""
    return f"{_S}.sort_key > {_T}.sort_key"


def is_deleted(joined: Collection[str]) -> str:
    """Whether the stored row goes. ``joined``: the columns that are joined; none: every settled row is newer."""
    return f"s.deleted AND (NOT s.joins OR {is_newer_row()})" if joined else "s.deleted"


def joined_stamp() -> str:
    """The row's ``_tidemark``."""
    base = f"greatest({_S}.base_sort_key, {_T}.base_sort_key)"
    newest = f"CASE WHEN {_S}.sort_key >= {_T}.sort_key THEN {_S}.{{0}} ELSE {_T}.{{0}} END"
    absent = (
        f"array_union(filter({_S}.absent, name -> {_is_newer('name')}), "
        f"filter({_T}.absent, name -> NOT {_is_newer('name')}))"
    )
    newer = (
        f"map_filter(map_zip_with(coalesce({_T}.newer, {_NONE}), coalesce({_S}.newer, {_NONE}), "
        f"(name, one, other) -> greatest(one, other)), (name, at) -> at > coalesce({base}, ''))"
    )
    newer = f"element_at(transform(array({newer}), found -> CASE WHEN cardinality(found) > 0 THEN found END), 1)"
    fields = {
        "sort_key": f"greatest({_S}.sort_key, {_T}.sort_key)", "base_sort_key": base,
        "transaction": newest.format("transaction"), "committed_at": newest.format("committed_at"),
        "hour": f"{_S}.hour", "absent": absent, "newer": newer,
    }  # fmt: skip
    joined = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    return f"CASE WHEN s.joins THEN named_struct({joined}) ELSE {_S} END"


def stamp_names(names: Mapping[str, str | None]) -> tuple[str, dict[str, str]]:
    """For stored columns that have another name now, or (None) hold nothing any more: which rows' ``_tidemark`` names one
    of them, and by field what it is to be."""
    old = f"array({', '.join(map(text_literal, names))})"
    gone = [text_literal(name) for name, now in names.items() if now is None]
    stays = f"name NOT IN ({', '.join(gone)})" if gone else "true"
    cases = " ".join(
        f"WHEN {text_literal(name)} THEN {text_literal(now)}" for name, now in names.items() if now is not None
    )
    now = f"CASE name {cases} ELSE name END" if cases else "name"
    concerned = f"arrays_overlap({TIDEMARK}.absent, {old}) OR arrays_overlap(map_keys({TIDEMARK}.newer), {old})"
    return concerned, {
        "absent": f"transform(filter({TIDEMARK}.absent, name -> {stays}), name -> {now})",
        "newer": f"transform_keys(map_filter({TIDEMARK}.newer, (name, at) -> {stays}), (name, at) -> {now})",
    }
