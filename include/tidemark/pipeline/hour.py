"""An hour of a feed, stage by stage: what the Spark jobs of the DAG call, and ``tidemark run`` all at once.

Each function reads its inputs from the lake and leaves its outputs there, so that any of them can be run again at any
time, in this process or another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta

from pyspark.sql import SparkSession

from tidemark.crash import kind_of
from tidemark.errors import ConflictError, StateError, TerminalError, TidemarkError
from tidemark.feeds.loading import find_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour, hours_between
from tidemark.lake.lake_marker import check_lake
from tidemark.lake.session import open_session, tell_catalog
from tidemark.lake.tuning import tune_session, without_long_methods
from tidemark.ledger.change_log import is_decoded, log_snapshot
from tidemark.ledger.hour_order import MOST_IN_A_ROW, comes_next
from tidemark.ledger.hour_run import HourRun
from tidemark.ledger.manifest import Manifest, all_objects, has_landed
from tidemark.ledger.publication_history import load_receipt
from tidemark.ledger.quarantine import hours_in_quarantine, recall
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.state_store import is_own, load_state, save_state, stops_when_overtaken
from tidemark.logs import get_logger, log_context, log_stage
from tidemark.pipeline.decode import decode, unreadable_named
from tidemark.pipeline.fold import fold
from tidemark.pipeline.land import land
from tidemark.pipeline.late_cuts import own_cut, rows_of_checked_tables
from tidemark.pipeline.publish import publish, record_receipt
from tidemark.pipeline.validate import validate
from tidemark.settings import Settings
from tidemark.storage.feed_lock import FeedLock, feed_lock
from tidemark.tables.published_table import discard_columns

Progress = Callable[[str], None]

log = get_logger()


def _silent(stage: str) -> None:
    """Report no progress."""


def run_hour(feed: Feed, hour: str, settings: Settings, progress: Progress = _silent) -> Receipt:
    """All stages of one hour in this process; the receipt. ``progress`` is called with each stage's name as it begins."""
    progress("land")
    land(feed, hour, settings)
    return _all_stages(feed, hour, settings, progress)


def land_anew(feed: Feed, hour: str, settings: Settings) -> Manifest:
    """Land an hour's export in place of what landed of it and is not published: for landed copies that cannot be read, or
    that should not be. The manifest names what it withdraws, and so does the hour's receipt. What is published stays.
    """
    with log_context(feed=feed.feed, hour=hour), locked(settings, feed.feed):  # nothing of it is published meanwhile
        state = load_state(settings, feed.feed)
        published, made = state.version_of(Hour.parse(hour)), state.next
        if made is not None and made.hour == hour and made.validated:  # whoever comes next publishes it
            published = max(published, made.manifest_version)
        return land(feed, hour, settings, anew_behind=published)


def replay_hour(feed: Feed, hour: str, settings: Settings, progress: Progress = _silent) -> Receipt | None:
    """Take up again what an hour's publications put in quarantine, with the feed file as it is now; the hour's new
    receipt, or None when nothing is in quarantine. Stopped anywhere, this or a plain run of the hour goes on with it.
    """
    check_lake(settings)
    progress("recall")
    with log_context(feed=feed.feed, hour=hour):
        if recall(feed, hour, settings):
            log.info("recalled what is in quarantine", stage="replay", reason="a replay was asked for")
        elif (last := load_state(settings, feed.feed).unrecorded) is None or last.hour != hour:
            log.info("nothing is in quarantine", stage="replay")
            return None
    return _all_stages(feed, hour, settings, progress)


def _all_stages(feed: Feed, hour: str, settings: Settings, progress: Progress) -> Receipt:
    small = load_state(settings, feed.feed).is_small(all_objects(settings, feed.feed, hour))
    spark = open_session(settings, feed.feed, small=small)
    progress("decode")
    decode_stage(spark, feed, hour, settings)
    with log_context(feed=feed.feed, hour=hour):
        with locked(settings, feed.feed) as held:
            progress("assemble and fold")
            _fold(spark, feed, hour, settings)
            progress("validate and publish")
            receipt = _publish(spark, feed, hour, settings, held)
        _log_receipt(receipt)
    return receipt


@contextmanager
def locked(settings: Settings, feed: str, hour: str | None = None) -> Iterator[FeedLock]:
    """The feed lock, of a lake that this release may write: a migration may have come while the stage waited."""
    check_lake(settings)
    with feed_lock(settings, feed, hour) as held:
        check_lake(settings)
        yield held


def decode_stage(spark: SparkSession, feed: Feed, hour: str, settings: Settings) -> None:
    """Decode the hour, unless this version of its export is published, or a publication of the hour is validated: the log
    then holds what it publishes. An hour in which a table was stopped takes its quarantine up again."""
    stopped = load_state(settings, feed.feed).stopped.get(hour, {})
    if stopped and recall(feed, hour, settings):
        with log_context(feed=feed.feed, hour=hour):
            log.info("takes up again what waits", stage="decode", tables=len(stopped), reason="a table was stopped")
    # The newest of the hour's versions is what the log holds in the end.
    with log_context(feed=feed.feed, hour=hour), locked(settings, feed.feed, hour):
        since = log_snapshot(spark, feed.feed)
        run = _begin(spark, feed, hour, settings)
        if run.state.is_done(run.manifest):
            log.info("published before: nothing to decode", stage="decode", version=run.manifest.version)
            return
        if (made := run.state.next) is not None and made.validated and made.hour == hour:
            log.info(
                "left the hour as it is: it is validated, and published first", stage="decode", sequence=made.sequence
            )
            return
        _tune_session(run)
        tell_catalog(spark, settings)
        _decode(run, since)


def _begin(spark: SparkSession, feed: Feed, hour: str, settings: Settings) -> HourRun:
    """The hour as a stage finds it."""
    manifest, state = all_objects(settings, feed.feed, hour), load_state(settings, feed.feed)
    return HourRun(spark=spark, feed=feed, settings=settings, manifest=manifest, state=state)


def _decode(run: HourRun, since: int | None) -> None:
    """Decode the hour. ``since``: the log's snapshot before the manifest and the state were read."""
    tuned = without_long_methods(run.spark) if run.settings.tuning else nullcontext()
    with log_stage("decode", "decoded") as line, unreadable_named(run.manifest), tuned:
        entries = decode(run, since)
        line |= {"objects": len(run.manifest.objects), "version": run.manifest.version}
        line |= {"entries": entries} if entries is not None else {}


def fold_stage(spark: SparkSession, feed: Feed, hour: str, settings: Settings) -> None:
    """Assemble and fold the hour, unless it is published.

    First a publication is finished that another hour began, or this hour with an export that has changed since. The hour
    is decoded again when more of it has landed since it was decoded, or the feed file says otherwise how to."""
    with log_context(feed=feed.feed, hour=hour), locked(settings, feed.feed):
        _fold(spark, feed, hour, settings)


def _fold(spark: SparkSession, feed: Feed, hour: str, settings: Settings) -> HourRun:
    with locked(settings, feed.feed, hour):  # what is folded does not change meanwhile
        since = log_snapshot(spark, feed.feed)
        run = record_receipt(_begin(spark, feed, hour, settings))
        if run.state.is_done(run.manifest):
            log.info("published before: nothing to fold", stage="fold", version=run.manifest.version)
            return run
        _tune_session(run)
        if (made := run.state.next) is not None and made.validated:
            if made.of(run.manifest):
                log.info("folded and validated before", stage="fold", sequence=made.sequence)
                return run
            run = _finish(run)
        if not is_decoded(settings, feed, hour, run.manifest.version):
            # Its own run may be behind this one: the hour was never decoded, or more has landed or was recalled since.
            reason = "the log does not hold all that has landed, or was recalled, as the feed file reads it now"
            log.info("decoding", stage="decode", reason=reason)
            _decode(run, since)
        with stops_when_overtaken(settings, run.state):
            return fold(run)


def _finish(run: HourRun) -> HourRun:
    """Publish what another run, of another hour or of this one, has validated; the run after that."""
    with log_context(hour=run.state.attempt.hour), stops_when_overtaken(run.settings, run.state):
        log.info("finishing what another run began to publish", stage="publish", for_hour=run.hour)
        try:
            run, receipt = publish(run)
        except ConflictError:
            state = load_state(run.settings, run.feed.feed)
            if state.next is not None:
                raise
            return replace(run, state=state)  # it was set aside
        _log_receipt(receipt)
    return run


def publish_stage(spark: SparkSession, feed: Feed, hour: str, settings: Settings) -> Receipt:
    """Validate and publish the hour; its receipt, also when it was published before.

    When another hour was folded or published since this one was folded, or more of this one has landed, its
    branches and rows are out of date, and it is folded again; as when the feed file or a module of checks has changed,
    which would judge what another one screened. In a DAG this happens because the hours of a feed take the feed lock task
    by task, and a retry lets others go first.
    """
    with log_context(feed=feed.feed, hour=hour):
        with locked(settings, feed.feed) as held:
            receipt = _publish(spark, feed, hour, settings, held)
        _log_receipt(receipt)
    return receipt


def _publish(spark: SparkSession, feed: Feed, hour: str, settings: Settings, held: FeedLock) -> Receipt:
    run = record_receipt(_begin(spark, feed, hour, settings))
    if run.state.is_done(run.manifest):
        log.info("published before: nothing to publish", stage="publish", version=run.manifest.version)
        return _published_receipt(feed, hour, settings)
    _tune_session(run)
    made = run.state.next
    if made is None or not made.of(run.manifest) or not (made.validated or made.folded_by == run.folded_by):
        reason = "another hour came between, more has landed, or the feed file or a module of checks has changed"
        log.info("folding again", stage="fold", reason=reason)
        run = _fold(spark, feed, hour, settings)
    with stops_when_overtaken(settings, run.state):
        try:
            with locked(settings, feed.feed, hour):  # what validate folds again does not change meanwhile
                own = own_cut(run)
                run = validate(run, rows_of_checked_tables(own, run) if own is not None else ())
        except TerminalError as error:
            _discard(run, type(error).__name__)
            raise
        held.check()
        return publish(run, own)[1]


def _discard(run: HourRun, reason: str) -> None:
    """Nobody goes on with the publication that this run was making: its hour is to be folded again."""
    state = load_state(run.settings, run.feed.feed)
    if (made := state.next) is not None and (state.revision == run.state.revision or is_own(state)):
        with log_context(stage="validate"):
            log.warning("discarded the publication", sequence=made.sequence, tables=len(made.staged), reason=reason)
            save_state(run.settings, state.model_copy(update={"next": None}))
            discard_columns(run.spark, run.feed.feed, made.staged, made.sequence)


def _published_receipt(feed: Feed, hour: str, settings: Settings) -> Receipt:
    receipt = load_receipt(settings, feed.feed, hour)
    if receipt is None:
        raise StateError(
            "the hour is published, and its receipt is missing",
            fix=f"`tidemark audit {feed.feed}` says what else is missing; restore tidemark.receipts from a backup",
            feed=feed.feed,
            hour=hour,
        )
    return receipt


def _log_receipt(receipt: Receipt) -> None:
    """The last line of an hour: what became of every record of it."""
    counts = receipt.counts
    log.info(
        "receipt", sequence=receipt.sequence, landed=receipt.landed, split=receipt.split, applied=counts.applied,
        duplicate=counts.duplicate, superseded=counts.superseded, control=receipt.control, held=receipt.held,
        quarantined=receipt.quarantined, released=counts.released_applied, tables=len(receipt.tables),
        waiting=sum(table.waiting for table in receipt.tables),
        warnings=sum(len(table.warnings) for table in receipt.tables),
    )  # fmt: skip


def _tune_session(run: HourRun) -> None:
    if run.settings.tuning:
        tune_session(run.spark, small=run.state.is_small(run.manifest), landed_bytes=run.manifest.bytes)


def decode_hour(feed: str, hour: str) -> None:
    """The decode job's work."""
    settings = Settings()
    decode_and_go_on(open_session(settings, f"decode {feed} {hour}"), feed, Hour.parse(hour), settings)


def decode_and_go_on(spark: SparkSession, feed: str, hour: Hour, settings: Settings) -> None:
    """Decode an hour, and then do all the rest of it where it is not large and the feed's next; and go on with those behind
    it that are small and have landed, or are decoded too."""
    decode_stage(spark, find_feed(feed, settings), hour, settings)
    for number in range(MOST_IN_A_ROW):
        if not go_on(spark, feed, hour.plus(number), settings):
            break


def go_on(spark: SparkSession, feed: str, hour: Hour, settings: Settings) -> bool:
    """Publish an hour that has landed in this process, where it is small, or decoded and not large, next in order, and
    nobody is at work on the feed: to start Spark for each stage takes as long as such stages do. Whether it did. What fails
    here is left to the stages' own tasks, which then fail themselves, and are tried again, under their own names."""
    if not has_landed(settings, feed, hour):
        return False
    with log_context(feed=feed, hour=hour):
        try:
            # As its own tasks would read it: it may have been edited since the hour before.
            receipt = _publish_next(spark, find_feed(feed, settings), hour, settings)
        except Exception as error:  # whatever it is, their tasks meet it again
            reason = error.problem if isinstance(error, TidemarkError) else kind_of(error)
            log.info("left the rest of the hour to its own tasks", reason=reason)
            return False
        if receipt is not None:
            _log_receipt(receipt)
    return receipt is not None


def _publish_next(spark: SparkSession, feed: Feed, hour: Hour, settings: Settings) -> Receipt | None:
    """The receipt of an hour that :func:`go_on` may publish; None: it may not."""
    run = _begin(spark, feed, hour, settings)
    decoded = is_decoded(settings, feed, hour, run.manifest.version)
    fits = run.state.is_small(run.manifest) or (decoded and not run.manifest.large)
    if run.state.is_done(run.manifest) or not (fits and comes_next(settings, run.state, hour)):
        return None
    with feed_lock(settings, feed.feed, timeout=timedelta(0)) as held:
        _fold(spark, feed, hour, settings)
        return _publish(spark, feed, hour, settings, held)


def fold_hour(feed: str, hour: str) -> None:
    """The fold job's work."""
    settings = Settings()
    fold_stage(open_session(settings, f"fold {feed} {hour}"), find_feed(feed, settings), hour, settings)


def publish_hour(feed: str, hour: str) -> Receipt:
    """The publish job's work."""
    settings = Settings()
    return publish_stage(open_session(settings, f"publish {feed} {hour}"), find_feed(feed, settings), hour, settings)


def replay_hours(feed: str, first: str | None = None, last: str | None = None) -> None:
    """The replay job's work: every hour from first to last, or of all, that has anything in quarantine."""
    settings = Settings()
    found = find_feed(feed, settings)
    hours = hours_to_replay(found, first, last, settings)
    if not hours:
        log.info("nothing is in quarantine", feed=feed, stage="replay")
    for hour in hours:
        replay_hour(found, hour, settings)


def hours_to_replay(feed: Feed, first: str | None, last: str | None, settings: Settings) -> list[Hour]:
    """The hours, oldest first: those with anything in quarantine, from ``first`` to ``last`` (default: only the first;
    without one: of all there are). An hour that is named by itself is listed in any case: its replay then says why not."""
    if first is None:
        return hours_in_quarantine(settings, feed.feed)
    if last is None:
        return hours_between(first, first)
    between = hours_between(first, last)
    return hours_in_quarantine(settings, feed.feed, between[0], between[-1])
