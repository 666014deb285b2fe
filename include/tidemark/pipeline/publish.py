"""Publish: the validated hour becomes what readers see.

Each table's main is fast-forwarded to its audit branch and gets the hour's tag; tables of the feed that the hour did
not touch get the tag too, so that the cut is whole. An hour that ran before keeps the cut that it has, which people may
have cited, unless the feed says `cuts: amend`: then its cut and those of later hours are made again. The cut of an hour
that first runs late, and those that are made again, are made apart (:mod:`tidemark.pipeline.late_cuts`). The receipt
comes last: from then on the hour is published. When it is stopped anywhere in between, a rerun finishes the same
publication.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.errors import ConflictError
from tidemark.feeds.model import Feed
from tidemark.ledger.pending_publication import PendingPublication
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.system_tables import append_receipt
from tidemark.logs import get_logger, log_stage
from tidemark.pipeline.late_cuts import make_late_cuts, to_amend
from tidemark.settings import Settings
from tidemark.snapshots import open_snapshot

log = get_logger()


def publish(
    spark: SparkSession, feed: Feed, history: PublicationHistory, pending: PendingPublication, settings: Settings
) -> Receipt:
    """Publish a validated pending publication; returns its receipt. Moves main, writes tags, appends the receipt."""
    receipt = pending.receipt
    if not pending.validated or receipt.sequence != history.last_sequence + 1:
        raise ConflictError(
            f"publication {receipt.sequence} was made before another one finished",
            fix="run the hour again from compact",
            feed=feed.feed,
            hour=receipt.hour,
        )
    before, touched = history.of_hour(receipt.hour), set(pending.staged)
    late = before is None and any(hour > receipt.hour for hour in history.hours)
    cut = before is None and not late
    others = {t.table for r in history.receipts for t in r.tables} - touched
    for table in sorted(touched):
        with log_stage("publish", "published", table=table):
            snapshot = open_snapshot(spark, feed, table, settings)
            snapshot.publish(receipt.hour, pending.publication, cut=cut)
            snapshot.retire(pending.retired.get(table, []))
    if late:
        make_late_cuts(spark, feed, history, pending, settings)
    amended = to_amend(feed, history, receipt.hour)
    for hour in amended:
        make_late_cuts(spark, feed, history, pending, settings, of=hour)
    if others and cut:
        with log_stage("publish", "tagged the tables that the hour did not touch") as line:
            line["tables"] = len(others)
            for table in sorted(others):
                snapshot = open_snapshot(spark, feed, table, settings)
                if snapshot.columns():  # none: only truncates have come of it so far
                    snapshot.tag(receipt.hour)
    cut_by = history.cut(receipt.hour).made_by or receipt.sequence
    notes = receipt.notes + ([f"cuts made again: {', '.join(amended)}"] if amended else [])
    receipt = receipt.model_copy(
        update={"published_at": datetime.now(UTC), "cut_by": cut_by, "amended": amended, "notes": notes}
    )
    append_receipt(spark, receipt)
    return receipt
