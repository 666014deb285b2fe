"""Which tables a statement concerns, however it writes their names."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tidemark.changelog.statements import statements
from tidemark.feeds.model import Feed
from tidemark.formats.contract import SchemaEntry


def feed_of(format_: str, tables: Sequence[str]) -> Feed:
    return Feed.model_validate(
        {
            "feed": "f", "description": "-", "owner": "-", "topics": ["t"],
            "exports": {"path": "{topic}/{date}/{hour}/*"}, "container": {"type": "kafka_json"},
            "format": {"type": format_}, "tables": {table: {} for table in tables},
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("format_", "dialect", "of", "text", "concerned"),
    [
        ("dataworks", "postgres", "s.public.items", "ALTER TABLE public.items RENAME TO x", {"s.public.items", "s.public.x"}),
        ("dataworks", "postgres", "s.public.items", "ALTER TABLE items RENAME TO old", {"s.public.items", "s.public.old"}),
        ("dataworks", "oracle", "s.HR.ITEMS", "alter table hr.items rename to old", {"s.HR.ITEMS", "s.HR.old"}),
        ("dataworks", "oracle", "s.HR.ITEMS", "ALTER TABLE items RENAME TO old", {"s.HR.ITEMS", "s.HR.old"}),
        # Messages may name the table by its new name.
        ("dataworks", "oracle", "s.HR.OLD", "ALTER TABLE items RENAME TO old", {"s.HR.ITEMS", "s.HR.OLD"}),
        ("dataworks", "mysql", "s.old", "RENAME TABLE items TO old", {"s.items", "s.old"}),
        ("canal", "mysql", "s.old", "RENAME TABLE Items TO old", {"s.items", "s.old"}),
        ("canal", "mysql", "s.old", "RENAME TABLE z.items TO s.old", {"z.items", "s.old"}),
        ("canal", "mysql", "s.other", "RENAME TABLE s.items TO s.old", {"s.items", "s.old", "s.other"}),
    ],
)  # fmt: skip
def test_a_rename_stops_the_tables_of_its_names_and_that_of_its_message(
    format_: str, dialect: str, of: str, text: str, concerned: set[str]
) -> None:
    feed = feed_of(format_, ["s.public.items", "s.HR.ITEMS", "s.items"])
    told = json.dumps({"op": "RENAME", "text": text, "dialect": dialect})
    found = statements([SchemaEntry(of, "1", told)], feed)
    assert {one.source_table for one in found} == concerned
    assert all(one.problem and one.unsent for one in found)


def test_names_that_differ_by_case_alone_are_two_tables_where_the_feed_has_both() -> None:
    feed = feed_of("canal", ["s.items", "s.Items"])
    told = json.dumps({"op": "RENAME", "text": "RENAME TABLE Items TO old"})
    assert {one.source_table for one in statements([SchemaEntry("s.old", "1", told)], feed)} == {"s.Items", "s.old"}
