"""`tidemark tx`: what became of a transaction over hours and tables, and the first cut that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.e2e.debezium_messages import COLUMNS, HOURS, TRANSACTIONS, Event, end, event, part, row
from tests.e2e.feed_pair import FeedPair
from tests.e2e.one_table_feed import OneTableFeed
from tidemark.errors import ConfigError
from tidemark.operations.explain_transaction import explain_transaction, transaction_listing
from tidemark.operations.read_table import read_snapshot
from tidemark.settings import Settings

TABLES = {"s.items": {"columns": COLUMNS}, "s.lines": {"columns": COLUMNS}}


@pytest.mark.full
@pytest.mark.promise(3)
def test_a_transaction_is_told_from_its_first_part_to_its_first_cut(
    tmp_path: Path, spark: SparkSession, settings: Settings
) -> None:
    """Number 7 has its parts in two hours and comes twice; 8 waits whole, for one value cannot be read; 9 lacks its end."""
    pair = FeedPair("told", tmp_path, spark, settings, **TRANSACTIONS, tables=TABLES, quarantine={"limit": 1})
    first = part(event("c", 1, row(1, 1)), "7", 1)
    hours: dict[str, list[dict[str, Any]]] = {
        HOURS[0]: [first, *(event("c", 900 + n, row(50, n), table=table) for n, table in enumerate(("items", "lines")))],
        HOURS[1]: [
            part(event("c", 2, row(1, 2), table="lines"), "7", 2), end("7", 2), first | {"offset": 99},
            part(event("c", 11, row(3, "no number")), "8", 1), part(event("c", 12, row(4, 4)), "8", 2), end("8", 2),
            part(event("c", 20, row(5, 5)), "9", 1),
        ],
    }  # fmt: skip
    feeds = tmp_path / "feeds"
    feeds.mkdir()
    text = pair.feed(pair.fixed).model_dump_json(exclude_unset=True).replace("PT0S", "0s")
    (feeds / f"{pair.fixed}.yaml").write_text(text)
    known = settings.model_copy(update={"feeds": feeds})
    for hour, records in hours.items():
        for topic in ("t", "tx"):
            pair.export(hour, [one for one in records if one["topic"] == topic], topic)
        receipt = pair.run(hour)
        if hour == HOURS[0]:
            assert (receipt.held_transactions, receipt.held_since) == (1, HOURS[0])
            (open_,) = explain_transaction(known, "7")
            assert (open_.became, open_.first_cut, open_.hours) == ("held", None, [HOURS[0]])
            assert [one.fate for one in open_.entries] == ["held: it lacks its end"]
    assert (receipt.held_transactions, receipt.held_since) == (1, HOURS[1])
    (told,) = explain_transaction(known, "7", pair.fixed)
    assert (told.became, told.first_cut, told.hours) == ("published whole", HOURS[1], [*HOURS[:2]])
    assert told.fates == {"applied": 2, "control": 1, "duplicate": 1}
    items, lines = f"{pair.fixed}.items", f"{pair.fixed}.lines"
    assert told.tables == [items, lines]
    for table in told.tables:
        ids = [sorted(read_snapshot(settings, table, hour)[0]["id"].to_pylist()) for hour in HOURS[:2]]
        assert ids == [[50], [1, 50]], table
    (kept,) = explain_transaction(known, "8")
    assert (kept.became, kept.first_cut, kept.fates) == ("in quarantine", None, {"control": 1, "in quarantine": 2})
    (waits,) = explain_transaction(known, "9")
    assert (waits.became, waits.first_cut) == ("held", None)
    assert transaction_listing(waits).objects[0]["fate"] == "held: it lacks its end"
    with pytest.raises(ConfigError, match="no transaction '77' has landed"):
        explain_transaction(known, "77")


@pytest.mark.full
def test_rows_of_one_position_without_a_key_are_told_each(
    run: OneTableFeed, settings: Settings, tmp_path: Path
) -> None:
    """PostgreSQL writes a COPY's rows at one LSN, equal ones among them. One more of it comes again with its number."""
    changes: dict[str, Any] = {
        "format": {"type": "debezium", "decimals": "string", "transactions": "t"},
        "table": {"columns": {"id": "bigint", "n": "int"}},
    }

    def copied(n: int, order: int) -> Event:
        return part(event("c", 50, {"id": 1, "n": n}), "70", order) | {"key": None, "offset": order}

    sent = [copied(1, 1), copied(2, 2), copied(2, 3), end("70", 3) | {"topic": "t"}]
    receipt = run(HOURS[0], [*sent, copied(2, 2) | {"offset": 99}], **changes)
    assert (receipt.counts.applied, receipt.counts.duplicate) == (3, 1)
    (told,) = explain_transaction(with_feed_file(settings, run, tmp_path, **changes), "70")
    assert told.fates == {"applied": 3, "control": 1, "duplicate": 1}


@pytest.mark.full
def test_a_change_is_of_the_table_that_it_is_published_as(
    run: OneTableFeed, settings: Settings, tmp_path: Path
) -> None:
    """Also where the feed file has given the name to another of the source's since, which was emptied."""
    changes: dict[str, Any] = {"format": {"type": "debezium", "decimals": "string", "transactions": "t"}}
    other = changes | {"tables": {"s.others": {"name": run.table, "columns": COLUMNS}}}
    run(HOURS[0], [part(event("c", 10, row(1, 1)), "71", 1), end("71", 1) | {"topic": "t"}], **changes)
    emptied = [part(event("t", 20, None, table="others"), "72", 1), end("72", 1) | {"topic": "t"}]
    run(HOURS[1], [*emptied, event("c", 30, row(2, 1), table="others")], **other)
    (told,) = explain_transaction(with_feed_file(settings, run, tmp_path, **other), "71")
    assert (told.tables, told.fates) == ([run.table], {"control": 1, "gone": 1})


def with_feed_file(settings: Settings, run: OneTableFeed, folder: Path, **changes: Any) -> Settings:
    feeds = folder / "feeds"
    feeds.mkdir()
    text = run.definition(**changes).model_dump_json(exclude_unset=True).replace("PT0S", "0s")
    (feeds / f"{run.feed}.yaml").write_text(text)
    return settings.model_copy(update={"feeds": feeds})
