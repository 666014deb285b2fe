"""Screen: each change is judged by itself, on what it sent, before anything is folded.

A change is refused when its key cannot be read, when it sent a text that is no value of its column's type, or when a value
that it sent fails a check with the consequence *quarantine*. What stands in other changes does not matter to that, nor what
is published. So it is the same whichever hours the changes fall into. With a refused change goes what belongs to it
(:mod:`tidemark.pipeline.withheld`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tidemark.changelog.table_view import TableView, open_state
from tidemark.errors import SchemaError, placed
from tidemark.fold.typed_rows import TableShape
from tidemark.ledger.change_stats import TableStats
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.image_names import has_name
from tidemark.ledger.kept_back import beginning
from tidemark.ledger.quarantine import CHECK_FAILED, ENTRY, SCREEN, STOPPED
from tidemark.logs import get_logger
from tidemark.pipeline.breaking_changes import refused_before
from tidemark.pipeline.hour_changes import HourChanges
from tidemark.pipeline.stopped_tables import changes_of, told
from tidemark.pipeline.withheld import without
from tidemark.tables.published_table import PublishedTable
from tidemark.values.encodings import OR_SPAN

#: By column, what each check of a value is called, and whether a value fails it.
Checks = Mapping[str, Sequence[tuple[str, Callable[[Column], Column]]]]

_CHANGE = "what is published of them is wrong; change how `format` says that they are written"


def _early(least: int, below: int) -> Callable[[Column], Column]:
    """Whether a count is of the first weeks of 1970, or the first 87 seconds of a day, but not of the very beginning, which
    may stand for no time at all."""
    return lambda text: text.try_cast("bigint").between(least, below - 1)


#: By encoding, which texts look as if they were written in another one, and what is said where all of an hour's do. Early
#: counts are those that milliseconds, or microseconds read as nanoseconds, have until the year 2096; a day has 86,400,000
#: milliseconds.
_OTHERWISE: Mapping[str, tuple[Callable[[Column], Column], str]] = {
    "unscaled_decimal": (
        lambda text: text.rlike(r"\A-?\d+(?:\.\d+)?\z"),
        "are written as plain numbers, and read as bytes in base64, as the feed file says: if the source writes its decimals "
        f"so, {_CHANGE}",
    ),
    **{
        f"epoch_{unit}": (
            _early(10**11, below),
            f"are of the first weeks of 1970, read as {unit}econds, as the feed file says: if the source counts them in "
            f"another unit, {_CHANGE}",
        )
        for unit, below in (("micros", 4 * 10**12), ("nanos", 4 * 10**15))
    },
    **{
        f"time_{unit}": (
            _early(10**5, below),
            f"are of the first 87 seconds of a day, read as {unit}econds, as the feed file says: if the source counts them "
            f"in another unit, {_CHANGE}",
        )
        for unit, below in (("micros", 864 * 10**5), ("nanos", 864 * 10**8))
    },
}
_NO_KEY = "the key ({}) is missing or cannot be read; if a part of it is null, have the source name a key without nulls"
_UNREADABLE = "not a value of its column's type: "
_LACKS = "a table without a key needs all columns, and this lacks "

log = get_logger()


def screen(hour: HourChanges) -> HourChanges:
    """The hour without the changes that no table can take, each with what belongs to it; and what is published of the
    tables of the others. Tables that cannot go on are stopped. Writes nothing.

    SchemaError for a table that cannot go on, unless the feed says `on_table_stop: table`. CheckError and ConfigError for
    checks that cannot be made.
    """
    hour = _open_tables(hour, [stats.table for stats in hour.stats])
    refused, warnings = _refused(hour)
    hour = replace(hour, warnings=warnings)
    before = refused_before(hour)
    if refused is None:
        if before is None:
            return hour
        refused = before.select(*ENTRY, "stage", "reason").limit(0)
    hour, touched = without(hour, refused, before=before)
    # Columns and types that only refused changes brought are of no table.
    return _open_tables(hour, touched)


def open_logged(hour: HourChanges) -> HourChanges:
    """The hour, of which no change is published already, with those tables opened anew of which the change log alone tells
    what the others come to: by what it carries of them; or why they are stopped. SchemaError: see :func:`screen`."""
    asked = [
        stats.table for stats in hour.stats
        if (state := hour.states.get(stats.table)) is not None
        and state.shape.key and state.needs_log(stats) and not state.by_log
    ]  # fmt: skip
    return _open_tables(hour, asked, only_new=True)


def stop_tables(hour: HourChanges, stopped: Mapping[str, str]) -> HourChanges:
    """The hour without the changes of more tables that are ``stopped``, each with why, and without what belongs to them."""
    left, touched = without(replace(hour, stopped=stopped), changes_of(hour.assembled.every_row, stopped))
    return _open_tables(left, touched)


def _open_tables(hour: HourChanges, names: Collection[str], *, only_new: bool = False) -> HourChanges:
    """The hour with the states of its tables of these names, or why they are stopped. ``only_new``: none of its changes is
    published already."""
    states, stopped = dict(hour.states), dict(hour.stopped)
    for stats in hour.stats:
        if stats.table not in names or stats.table in stopped:
            continue
        states.pop(stats.table, None)
        try:
            if (state := _open_table(hour, stats, only_new=only_new)) is not None:
                states[stats.table] = state
        except SchemaError as error:
            if hour.run.feed.on_table_stop == "feed":
                raise
            stopped[stats.table] = told(error)
            log.warning("stopped the table", table=stats.table, reason=stopped[stats.table])
    return replace(hour, states=states, stopped=stopped)


def _open_table(hour: HourChanges, stats: TableStats, *, only_new: bool) -> TableView | None:
    """What is published of a table; None of one that only truncates speak of: nothing says which columns it has."""
    run, assembled = hour.run, hour.assembled
    published = PublishedTable(run.spark, stats.table, run.feed.feed, run.sequence)
    published.discard()  # the columns that an attempt which was not published has changed
    if stats.only_truncates and not published.columns():
        return None
    moved, (_, withdrawn) = stats.table in assembled.moved, assembled.withdrawn.get(stats.table, ("", None))
    return open_state(run, stats, assembled.definitions, published, moved=moved, withdrawn=withdrawn, only_new=only_new)


def _refused(hour: HourChanges) -> tuple[DataFrame | None, dict[str, list[str]]]:
    """The changes that are refused (ENTRY, ``stage``, ``reason``); None where there are none. And what the receipt says of
    tables whose values look otherwise than they are read. One Spark job."""
    run, sent = (
        hour.run,
        {stats.table: stats for stats in hour.stats if stats.landed + stats.released > stats.truncates},
    )
    verdict = F.lit(None).cast("string")
    for table in sorted(sent.keys() & hour.states.keys()):
        shape = hour.states[table].shape
        verdict = F.when(F.col("table") == table, judge_change(shape, _checks(run, table, shape))).otherwise(verdict)
    stage = F.lit(SCREEN)
    # changes that were stopped from the start are out of the hour already
    if stopped := {
        s.table: hour.stopped[s.table] for s in hour.stats if s.table in hour.stopped and s.landed + s.released
    }:
        is_stopped = F.col("table").isin(list(stopped))
        reasons = F.create_map(*(F.lit(part) for pair in sorted(stopped.items()) for part in pair))
        verdict = F.when(is_stopped, F.element_at(reasons, F.col("table"))).otherwise(verdict)
        stage = F.when(is_stopped, F.lit(STOPPED)).otherwise(stage)
    if not sent and not stopped:
        return None, {}
    seen, found, doubts = Observation(), Observation(), _doubts(hour, sent)
    # Counted before they are judged, for what Spark counts it has worked out: else it would put all that a change is made of
    # (the names that its columns have now, their one notation) in the place of each mention of it.
    counts = [count for of_column in doubts.values() for count in of_column]
    rows = hour.assembled.every_row.observe(seen, F.count(F.lit(1)).alias("changes"), *counts)
    judged = rows.select(*ENTRY, stage.alias("stage"), verdict.alias("reason")).where("reason is not null")
    refused = judged.observe(found, F.count(F.lit(1)).alias("changes")).localCheckpoint()
    warnings = _warnings(list(doubts), seen.get) if doubts else {}
    return (refused if found.get["changes"] else None), warnings


def _doubts(hour: HourChanges, sent: Collection[str]) -> dict[tuple[str, str, str], list[Column]]:
    """Tables' columns whose values are read as they are because the feed file says so, not the messages, with their encoding:
    how many texts they come with, and how many of these look otherwise (``seen_0``, ``other_0``, ``seen_1`` …)."""
    columns = [
        (stats.table, name, kind.encoding)
        for stats in hour.stats
        if stats.table in sent and stats.table in hour.states and not stats.schemas
        for name, kind in hour.states[stats.table].shape.columns.items()
        if kind.encoding in _OTHERWISE and kind.arg != OR_SPAN  # spans may all be short
    ]
    counts = {}
    for number, (table, name, encoding) in enumerate(columns):
        of_table = (F.col("table") == table) & F.col("op").isin("insert", "update")
        text = F.when(of_table, F.try_element_at("after", F.lit(name)))
        looks_otherwise, _ = _OTHERWISE[encoding]
        counts[table, name, encoding] = [
            F.count(text).alias(f"seen_{number}"),
            F.count_if(looks_otherwise(text)).alias(f"other_{number}"),
        ]
    return counts


def _warnings(columns: Sequence[tuple[str, str, str]], counted: Mapping[str, int]) -> dict[str, list[str]]:
    """What to say of columns whose texts all look as if they were written otherwise than they are read. Four digits are bytes
    in base64 too, of another number; but of a decimal's bytes one in thousands looks so."""
    warnings: dict[str, list[str]] = {}
    for number, (table, name, encoding) in enumerate(columns):
        if 0 < counted[f"seen_{number}"] == counted[f"other_{number}"]:
            told = f"column {name}: all {counted[f'seen_{number}']} values of the hour {_OTHERWISE[encoding][1]}"
            log.warning(told, table=table)
            warnings.setdefault(table, []).append(told)
    return warnings


def _checks(run: HourRun, table: str, shape: TableShape) -> Checks:
    declared = run.feed.declared(table)
    if not declared.checks_module and all(check.consequence != "quarantine" for check in declared.checks):
        return {}
    # pandera takes seconds to import: only for a table that has something to be checked
    from tidemark.pipeline.checks import quarantine_checks

    with placed(feed=run.feed.feed, hour=run.hour, table=table):
        return quarantine_checks(table, declared, shape.spark_types, run.settings)


def judge_change(shape: TableShape, checks: Checks) -> Column:
    """Why a log row of a table is refused; null: it is not.

    Checks are made of what the change itself sent. A column that it neither sends nor lacks its source's table did not have:
    that the table has it by now, and perhaps a value for rows of before (which is in ``after``, and not in ``after_names``),
    depends on what else has landed.
    """
    brings_row = F.col("op").isin("insert", "update")
    is_new = (F.col("op") == "insert") & F.col("prior_key").isNull()
    absent = F.coalesce("absent", F.array().cast("array<string>"))
    after = shape.in_one_notation(F.col("after"))
    failed = []
    for name in filter(checks.__contains__, shape.columns):
        value = shape.value(name, F.element_at(after, F.lit(name)))
        # What an insert lacks is null in its row; a row that goes on, under another key too, keeps what it had.
        lacks = F.array_contains(absent, F.lit(name))
        sent = F.when(lacks, is_new).otherwise(has_name(F.col("after_names"), name))
        failed += [F.when(sent & fails(value), F.lit(called)) for called, fails in checks[name]]
    reasons = [F.when(brings_row, _said(_UNREADABLE, _unreadable(shape, after)))]
    if failed:
        reasons.append(F.when(brings_row, _said(CHECK_FAILED, F.concat_ws("; ", *failed))))
    if shape.key:
        wrong, says = ~_keys_are_whole(shape), F.lit(_NO_KEY.format(", ".join(shape.key)))
    else:
        # Which row goes, and whether another one is equal, is told by all of its values.
        wrong, says = F.size(absent) > 0, F.concat(F.lit(_LACKS), F.array_join(absent, ", "))
    reasons.insert(0, F.when(wrong, says))
    return F.coalesce(*reasons, F.lit(None).cast("string"))


def _unreadable(shape: TableShape, after: Column) -> Column:
    """The texts that are no value of their column's type, each as it was sent. ``after``: in one notation."""

    def shown(name: Column) -> Column:
        sent = beginning(F.element_at("after", name))
        return F.concat(name, F.lit(" ("), shape.wanted(name), F.lit('): "'), sent, F.lit('"'))

    return F.array_join(F.transform(F.array_sort(F.map_keys(shape.without_value(after))), shown), "; ")


def _said(kind: str, listed: Column) -> Column:
    return F.when(listed != "", F.concat(F.lit(kind), listed))


def _keys_are_whole(shape: TableShape) -> Column:
    """Whether a change's key, and the one that an update moves its row away from, can be read."""

    def whole(image: str) -> Column:
        texts = shape.in_one_notation(F.col(image))
        values = (shape.value(name, F.element_at(texts, F.lit(name))).isNotNull() for name in shape.key)
        return F.col(image).isNotNull() & reduce(and_, values)

    stays = (F.col("op") != "update") | F.col("prior_key").isNull()
    return (F.col("op") == "truncate") | (
        F.coalesce(whole("key"), F.lit(False)) & (stays | F.coalesce(whole("prior_key"), F.lit(False)))
    )
