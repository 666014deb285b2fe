"""Publish: the validated hour becomes what readers see.

Each table's main is fast-forwarded to its audit branch and gets the hour's tag; tables of the feed that the hour did
not touch get the tag too, so that the cut is whole. An hour that ran before keeps the cut that it has, which people may
have cited, unless the feed says `cuts: amend`: then its cut and those of later hours are made again. The cut of an hour
that first runs late, and those that are made again, are made apart (:mod:`tidemark.pipeline.late_cuts`). Then the feed's
state is replaced: from there on the hour is published. The receipt comes last. When it is stopped anywhere in between, a
rerun finishes the same publication.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tidemark.errors import ConflictError
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import check_state
from tidemark.ledger.system_tables import write_receipt
from tidemark.logs import get_logger, log_context, log_stage
from tidemark.pipeline.late_cuts import is_late, make_late_cuts, own_cut, to_amend
from tidemark.pipeline.late_hour import LateHour
from tidemark.tables.parquet_copies import write_copies
from tidemark.tables.published_table import PublishedTable

log = get_logger()


def publish(run: HourRun, own: LateHour | None = None) -> tuple[HourRun, Receipt]:
    """Publish the validated publication in the making, of whatever hour; the run after it, and its receipt. Moves main,
    writes tags and cuts, the state and the receipt. ``own``: its own cut, where it makes one apart and validate has looked at
    it."""
    feed, state = run.feed, run.state
    made = state.attempt
    if not made.validated or made.receipt is None:
        raise ConflictError(
            f"publication {made.sequence} is not validated",
            fix="run the hour again from fold",
            feed=feed.feed,
            hour=made.hour,
        )
    check_state(run.settings, state)
    _check_tables(run)
    own = own or own_cut(run)
    cut = not state.has(made.hour) and not is_late(state)
    for table in sorted(made.staged):
        with log_stage("publish", "published", table=table):
            retired = made.retired.get(table, [])
            published = PublishedTable(run.spark, table, feed.feed, made.sequence)
            published.publish(made.hour, state.publication, cut=cut, retired=retired)
    amended = to_amend(run, made.hour)
    told = make_late_cuts(run, own, amended)
    others = sorted(state.tables.keys() - set(made.staged)) if cut else []
    if others:
        with log_stage("publish", "tagged the tables that the hour did not touch") as line:
            line["tables"] = len(others)
            for table in others:
                published = PublishedTable(run.spark, table, feed.feed, made.sequence)
                if published.columns():  # none: only truncates have come of it so far
                    published.tag(made.hour)
    write_copies(run)
    notes = made.receipt.notes + told + ([f"cuts made again: {', '.join(amended)}"] if amended else [])
    receipt = made.receipt.model_copy(
        update={
            "published_at": datetime.now(UTC),
            "cut_by": state.cut_by(made.hour) or made.sequence,
            "amended": amended,
            "notes": notes,
        }
    )
    run = run.save(state.after(receipt).model_copy(update={"unrecorded": receipt}))
    return record_receipt(run), receipt


def _check_tables(run: HourRun) -> None:
    """Set the publication aside where one of its tables cannot be published any more: its hour is folded again, and no
    other hour waits for it."""
    made = run.state.attempt
    try:
        for table in sorted(made.staged):
            published = PublishedTable(run.spark, table, run.feed.feed, made.sequence)
            published.check(made.hour, run.state.publication)
    except ConflictError as error:
        with log_context(stage="publish"):
            log.warning("set the publication aside", sequence=made.sequence, table=error.table, reason=error.problem)
        run.save(run.state.model_copy(update={"next": None}))
        raise


def record_receipt(run: HourRun) -> HourRun:
    """Write the receipt that the last publication has left to be written, perhaps as its run died; the run after that."""
    if run.state.unrecorded is None:
        return run
    write_receipt(run.spark, run.state.unrecorded)
    return run.save(run.state.model_copy(update={"unrecorded": None}))
