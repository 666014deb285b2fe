"""Transactions: which are complete, and what becomes of those that are not.

A transaction is complete when its end has come, and with it as many distinct parts as its end and its counters say.
The entries of a transaction may land in several hours: until it is complete, its changes are held and reach no table.
When the source redelivers part of a transaction that was published long ago, that part is complete by what the change
log already holds of the rest. A transaction that waits in quarantine, for a change of it was refused, is taken up again when
more of it comes: that may be a good copy of what was refused. While it is replayed, nothing of it is complete before all of
it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from tidemark.changelog.good_copies import without_copied
from tidemark.changelog.ties import TiedHour, only_markers_tell, with_pairs
from tidemark.changelog.transaction_status import (
    FEW_NAMES,
    of_messages,
    tell_torn,
    tells_deliveries,
    transaction_status,
    unused_of_hour,
    with_earlier,
    without_messages,
    without_whole_delivery,
)
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.identifiers import PAIR
from tidemark.ledger.change_log import is_row, published_name, without_entries
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.kept_back import kept_back, never_completed, waiting_whole
from tidemark.ledger.quarantine import ALONGSIDE, ENTRY, NEVER_COMPLETED, STOPPED
from tidemark.ledger.source_transactions import is_waited_for


@dataclass(frozen=True, kw_only=True)
class HourEntries:
    """What the transactions of an hour are completed from."""

    feed: Feed
    """The feed, as its file has it now."""
    hour: Hour
    """The hour."""
    state: FeedState
    """What was published before the hour."""
    ties: TiedHour
    """The change log and the hour's new entries."""
    held: DataFrame | None
    """The transactions that the last publication left open; None: there are none."""
    rolled_back: DataFrame | None
    """The transactions that the source rolled back (``tx``); None: there are none."""
    replay: bool
    """Whether the hour takes up entries from quarantine again."""
    new: Column
    """Whether an entry of the log is one of the hour's new ones."""
    published: Column
    """Whether an entry of the log is published."""
    bad: bool
    """Whether a record of the hour cannot be decoded."""

    @property
    def ever_bad(self) -> bool:
        """Whether any record ever could not."""
        return self.bad or bool(self.state.with_bad)


@dataclass(frozen=True, kw_only=True)
class WholeTransactions:
    """An hour's changes, by what becomes of their transactions."""

    rows: DataFrame
    """The changes of complete transactions, and of none, with ``landed_this_hour``."""
    still_open: DataFrame | None = None
    """The transactions that stay held (columns of the system table ``held``); None: there are none."""
    given_up: DataFrame | None = None
    """Changes that go to quarantine, with their ``reason``; None: there are none."""
    withdrawn: DataFrame | None = None
    """Published changes that prove to be of another transaction, or of one or none, or of a delivery that does not count:
    what counts of them is among ``rows``. None: there are none."""
    redelivered: DataFrame | None = None
    """Changes of deliveries that do not count, because another one of their transaction does; None: there are none."""
    taken_up: DataFrame | None = None
    """Of ``rows``, those that are in quarantine with their transaction, of which more has come; None: there are none."""
    held: int = 0
    """Changes of the hour that are held."""
    held_transactions: int = 0
    """Transactions that are held, of whatever hour."""
    held_since: str | None = None
    """The hour in which the oldest of them began."""
    given_up_changes: int = 0
    """Changes of the hour that are given up."""
    given_up_transactions: int = 0
    """Transactions that are given up, of whatever hour."""
    rolled_back_changes: int = 0
    """Changes of the hour that the source rolled back."""
    notes: list[str] = field(default_factory=list)
    """What the hour's receipt says of them."""


def complete_transactions(entries: HourEntries) -> WholeTransactions:
    """The changes of the transactions that the hour completes; the others are held, or follow the feed's policy for
    overdue ones."""
    kept, comes_again = _given_up_before(entries)
    given_up_before = kept if kept is None or not comes_again else kept.where(~_is_taken_up())
    held = _held_entries(entries, given_up_before)
    retied = _retied(entries, held, given_up_before)
    candidates = _candidates(entries, held, retied)
    whole = WholeTransactions(rows=_changes(entries, held))
    if retied is not None:
        whole = _withdraw(whole, retied.where(is_row()), entries)
    if kept is not None and comes_again:
        again = kept.where(_is_taken_up())
        candidates = candidates.unionByName(_published_beside(entries, again, held))
        whole = _take_up(whole, again, entries)
    if entries.bad or (entries.state.with_bad and (held is not None or comes_again)):
        candidates = without_copied(candidates, entries.feed)
    open_ = _open(entries, candidates, given_up_before).localCheckpoint()
    if entries.rolled_back is not None:
        whole = _drop_rolled_back(whole, entries.rolled_back)
        open_ = open_.join(entries.rolled_back, "tx", "left_anti")
    if entries.feed.transactions.tables_outside:
        whole, open_ = _publish_at_rest(whole, open_, entries)
    if not getattr(entries.feed.format_options, "transactions", True):
        whole, open_ = _publish_unread(whole, open_)
    whole = _hold_open(whole, open_, entries, candidates)
    counted = entries.ties.log.where(entries.published | entries.new)
    unused = unused_of_hour(candidates, counted, entries.feed, entries.state)
    if unused is not None:
        redelivered = of_messages(whole.rows, unused).localCheckpoint()
        whole = replace(whole, rows=without_messages(whole.rows, unused), redelivered=redelivered)
    displaced = _displaced(entries, held, unused)
    return whole if displaced is None else replace(whole, withdrawn=displaced)


def _candidates(entries: HourEntries, held: DataFrame | None, retied: DataFrame | None) -> DataFrame:
    """The entries of all transactions that the hour may complete, or open."""
    candidates = entries.ties.landed.where("tx is not null")
    if held is not None:
        candidates = candidates.unionByName(held.where("tx is not null"))
    return candidates if retied is None else candidates.unionByName(retied.where("tx is not null"))


def _changes(entries: HourEntries, held: DataFrame | None) -> DataFrame:
    """The hour's changes and the held ones, with ``landed_this_hour``."""
    landed = entries.ties.landed.where(is_row()).withColumn("landed_this_hour", F.lit(True))
    return (
        landed
        if held is None
        else landed.unionByName(held.where(is_row()).withColumn("landed_this_hour", F.lit(False)))
    )


def _drop_rolled_back(whole: WholeTransactions, rolled_back: DataFrame) -> WholeTransactions:
    """Without the changes of these transactions (``tx``)."""
    dropped = _of(whole.rows.where("landed_this_hour"), rolled_back).count()
    return replace(whole, rows=_without(whole.rows, rolled_back), rolled_back_changes=dropped)


def _publish_at_rest(
    whole: WholeTransactions, open_: DataFrame, entries: HourEntries
) -> tuple[WholeTransactions, DataFrame]:
    """Open transactions without those that have brought nothing in this hour, which are published as they are."""
    resting = _rests(_now(entries)) & ~F.col("spared")
    if not (gaps := open_.where(resting).count()):
        return whole, open_
    note = f"{gaps} transactions are published as they are: what they lack may be of tables outside the feed"
    return replace(whole, notes=[*whole.notes, note]), open_.where(~resting)


def _publish_unread(whole: WholeTransactions, open_: DataFrame) -> tuple[WholeTransactions, DataFrame]:
    """Open transactions without the source's own, held from when the feed file still had them read: the rest of them comes in
    no transaction, and their end is no end."""
    unread = is_waited_for() & ~F.col("spared")
    if not (held := open_.where(unread).count()):
        return whole, open_
    note = f"{held} transactions that were held are published as they are: the feed file reads no transactions any more"
    return replace(whole, notes=[*whole.notes, note]), open_.where(~unread)


def _hold_open(
    whole: WholeTransactions, open_: DataFrame, entries: HourEntries, candidates: DataFrame
) -> WholeTransactions:
    """Without the changes of open transactions: they are held, or, overdue, given up where the feed says so."""
    overdue, policy = _overdue(entries), entries.feed.transactions.overdue
    stays = F.lit(policy == "hold") | ~overdue
    told = open_.agg(F.count_if(overdue), F.count_if(stays), F.min(F.when(stays, F.col("since")))).first()
    late, stay, since = told or (0, 0, None)
    if late and policy == "quarantine":
        names = F.broadcast(open_.where(overdue).select("tx"))
        given_up = _of(whole.rows, names).withColumn("reason", F.lit(NEVER_COMPLETED))
        whole = replace(
            whole, rows=_without(whole.rows, names), given_up=given_up, given_up_transactions=late,
            given_up_changes=given_up.where("landed_this_hour").count(),
        )  # fmt: skip
    if stay:
        open_ = open_.where(stays)
        names = F.broadcast(open_.select("tx"))
        whole = replace(
            whole, rows=_without(whole.rows, names), still_open=open_, held_transactions=stay, held_since=since,
            held=_of(whole.rows.where("landed_this_hour"), names).count(),
            notes=whole.notes + tell_torn(_of(candidates, names), entries.feed),
        )  # fmt: skip
    return replace(whole, notes=[*whole.notes, f"{late} overdue transactions ({policy})"]) if late else whole


def publishes_unfinished(feed: Feed) -> bool:
    """Whether a transaction is published some time though no more of it comes."""
    return feed.transactions.overdue == "apply" or feed.transactions.tables_outside


def open_at(entries: DataFrame, then: Column, feed: Feed, hour: Hour, *, bad: bool = False) -> DataFrame:
    """Of published log entries: the transactions (``tx``) that have parts beside those of entries that ``then`` is true
    of, or that only the feed's policy publishes. As of ``hour``: one that it applied by then is not open. ``bad``: whether
    any record of them may not be decoded."""
    entries = entries.where("tx is not null")
    names = entries.where(F.lit(publishes_unfinished(feed)) | ~then).select("tx").distinct()
    of_then = entries.where(then).join(names, "tx", "left_semi")
    of_all = entries.join(names, "tx", "left_semi")
    if bad:
        of_then, of_all = without_copied(of_then, feed), without_copied(of_all, feed)
    known = transaction_status(of_then, feed)
    whole = transaction_status(of_all, feed).select("tx", F.col("parts").alias("of_parts"))
    # Without the others it may look whole: IBM's segments do not say how many there are.
    open_ = known.join(whole, "tx").where(~F.col("complete") | (F.col("parts") < F.col("of_parts")))
    if (waits := without_whole_delivery(of_then, of_all, feed)) is not None:
        open_ = _of(open_, waits)
    if feed.transactions.overdue == "apply":
        open_ = open_.where(F.col("since") >= _oldest(feed, hour))
    if feed.transactions.tables_outside:
        open_ = open_.where(~_rests(hour))
    return open_.select("tx")


def _rests(now: Hour) -> Column:
    """Whether a transaction has brought nothing in the hour ``now``."""
    return F.array_max("hours") < now


def _oldest(feed: Feed, hour: Hour) -> str:
    """Transactions that are open since before this hour are overdue as of ``hour``."""
    return f"{hour.start - feed.transactions.alarm:%Y-%m-%dT%H}"


def _matters() -> Column:
    """Whether a transaction holds anything: a begin alone does not, for the entries that follow it say themselves what
    they belong to."""
    return (F.col("changes") > 0) | F.col("ended")


def _of(rows: DataFrame, transactions: DataFrame) -> DataFrame:
    """The rows of these transactions (``tx``)."""
    return rows.join(transactions, "tx", "left_semi").select(*rows.columns)


def _without(rows: DataFrame, transactions: DataFrame) -> DataFrame:
    """The rows that are of none of these transactions (``tx``)."""
    return rows.join(transactions, "tx", "left_anti").select(*rows.columns)


def _given_up_before(entries: HourEntries) -> tuple[DataFrame | None, bool]:
    """Entries in quarantine, each with its ``hour`` and ``tx``, because their transaction never completed, or a change of it
    was refused (``stage``, ``reason``), and whether the hour has more of it (``comes``); None where there never were any. Not
    those that a replay takes up again. And whether any transaction of them is to be taken up again (:func:`_is_taken_up`)."""
    state, by_markers = entries.state, only_markers_tell(entries.feed) and entries.state.in_quarantine != {}
    if not (state.gave_up or state.kept_whole or by_markers):
        return None, False
    kept = kept_back(entries.ties.log.sparkSession, entries.feed.feed, state)
    kept = waiting_whole(kept, _told_by_markers(kept, entries) if by_markers else None)
    if entries.replay:
        kept = kept.where(F.col("hour") != entries.hour)
    comes = F.lit(False)
    # A replay decodes what it takes up again. Where deliveries can be told apart, another one is whole by itself.
    if not (entries.replay or tells_deliveries(entries.feed) is not None):
        coming = entries.ties.landed.where("tx is not null").select("tx", F.lit(True).alias("coming")).distinct()
        kept, comes = kept.join(coming, "tx", "left"), F.coalesce("coming", F.lit(False))
    # A stopped table's changes wait for those of other hours.
    waits = F.bool_and((F.col("stage") != STOPPED) & ~never_completed()).over(Window.partitionBy("tx"))
    kept = kept.withColumns({"comes": comes, "waits": waits})
    kept, found = kept.select("hour", *ENTRY, "tx", "reason", "comes", "waits"), Observation()
    kept = kept.observe(found, F.count_if(_is_taken_up()).alias("taken_up")).localCheckpoint()
    return F.broadcast(kept), bool(found.get["taken_up"])


def _told_by_markers(kept: DataFrame, entries: HourEntries) -> DataFrame:
    """The changes of the hours that ``kept`` rows of the quarantine are of, with the transaction that markers name now
    (``told.tx``): when a change was refused, none may have shown that it is of one, or of which. Not those of which what is
    refused waits alone."""
    if (counted := entries.state.in_quarantine) is not None:
        hours = [hour for hour, count in counted.items() if count]
    else:
        hours = [row.hour for row in kept.select("hour").distinct().collect()]
    changes = entries.ties.log.where(entries.published & is_row() & F.col("hour").isin(hours))
    if entries.feed.transactions.bad != "hold":
        changes = changes.where(F.startswith(F.col("tx"), F.lit(PAIR)))
    return changes.select("hour", *ENTRY, F.struct("tx").alias("told"))


def _is_taken_up() -> Column:
    """Whether an entry in quarantine is judged again with its transaction, of which more has come: that may be a good copy of
    what was refused."""
    return F.col("comes") & F.col("waits")


def _published_beside(entries: HourEntries, again: DataFrame, held: DataFrame | None) -> DataFrame:
    """All published entries of the transactions of which entries are taken up ``again``, but those that are held."""
    published = _of(_published_in_transactions(entries), F.broadcast(again.select("tx").distinct()))
    return without_entries(published, held)


def _take_up(whole: WholeTransactions, again: DataFrame, entries: HourEntries) -> WholeTransactions:
    """With the changes in quarantine that are taken up ``again``, and what was refused of their transactions."""
    hours = [row.hour for row in again.select("hour").distinct().collect()]
    kept = kept_back(again.sparkSession, entries.feed.feed, entries.state).select("hour", *ENTRY)
    log = entries.ties.log.where(is_row() & F.col("hour").isin(hours)).join(kept, ["hour", *ENTRY], "left_semi")
    taken_up = _of(log.select(*entries.ties.log.columns), F.broadcast(again.select("tx").distinct())).localCheckpoint()
    rows = taken_up.withColumns({"table": published_name(entries.feed), "landed_this_hour": F.lit(False)})
    if whole.taken_up is not None:
        taken_up = whole.taken_up.unionByName(taken_up)
    return replace(whole, rows=whole.rows.unionByName(rows), taken_up=taken_up)


def _published_in_transactions(entries: HourEntries) -> DataFrame:
    """Where positions began again, so may the names of transactions: what is of before completes nothing behind it."""
    began, published = entries.state.began_again, entries.published & F.col("tx").isNotNull()
    since = F.col("hour") >= began if began is not None and entries.hour >= began else F.lit(True)
    return entries.ties.log.where(published & since)


def _held_entries(entries: HourEntries, given_up: DataFrame | None) -> DataFrame | None:
    """Log entries of the held transactions, from the hours in which they landed."""
    if entries.held is None:
        return None
    names = F.broadcast(entries.held.select("tx", F.explode("hours").alias("hour")))
    log, before = entries.ties.log, entries.ties.log_before
    published = before.where(entries.published & F.col("tx").isNotNull())
    held = without_entries(published, given_up).join(names, ["tx", "hour"], "left_semi")
    if before is not log:
        held = log.join(held.select("hour", *ENTRY), ["hour", *ENTRY], "left_semi").select(*log.columns)
    # Few entries, and each question would read their hours again. The feed file may name their tables otherwise by now.
    return held.withColumn("table", published_name(entries.feed)).localCheckpoint()


def _retied(entries: HourEntries, held: DataFrame | None, given_up: DataFrame | None) -> DataFrame | None:
    """Published entries that were taken for changes by themselves, or of another transaction, and were not held."""
    if entries.ties.retied is None:
        return None
    return without_entries(without_entries(entries.ties.retied, given_up), held)


def _withdraw(whole: WholeTransactions, retied: DataFrame, entries: HourEntries) -> WholeTransactions:
    """With published changes that prove to be of these transactions, or of none: they show, wait or go with the others of
    theirs. What of them is in quarantine stays there, but for what waits with a transaction that it is not of."""
    state, columns = entries.state, {"table": published_name(entries.feed), "landed_this_hour": F.lit(False)}
    again, taken_up = retied, None
    if state.in_quarantine != {}:
        kept = kept_back(retied.sparkSession, entries.feed.feed, state)
        others = kept.where(F.col("stage") == ALONGSIDE).select(*ENTRY)
        taken_up = retied.where("tx is null").join(others, ENTRY, "left_semi").select(*retied.columns).localCheckpoint()
        again = without_entries(retied, kept).unionByName(taken_up)
    rows = whole.rows.unionByName(again.withColumns(columns))
    return replace(whole, rows=rows, withdrawn=retied, taken_up=taken_up)


def _open(entries: HourEntries, candidates: DataFrame, given_up: DataFrame | None) -> DataFrame:
    """Transactions of the candidate entries that are not complete, not even with what the log already holds of them.

    Changes that were given up do not complete a transaction. ``spared`` marks the transactions that only wait for changes
    in quarantine to be replayed: they are never overdue.
    """
    if given_up is None:
        return _incomplete(entries, candidates, None)
    refused = given_up.where(F.col("reason") != NEVER_COMPLETED).select("tx")
    blocked = transaction_status(candidates.join(refused, "tx", "left_semi"), entries.feed).where(_matters())
    blocked = blocked.drop("complete")
    others = _incomplete(entries, candidates.join(refused, "tx", "left_anti"), given_up)
    waiting = others.unionByName(blocked.withColumn("spared", F.lit(True)))
    # What it lacks is in quarantine, whatever else of it is here.
    needed = F.when(F.col("spared"), F.col("parts")).otherwise(F.col("needed"))
    return waiting.withColumns({"ended": F.col("ended") | F.col("spared"), "needed": needed})


def _incomplete(entries: HourEntries, candidates: DataFrame, given_up: DataFrame | None) -> DataFrame:
    """The same, of transactions of which no change was refused."""
    candidates = with_pairs(candidates, candidates, entries.feed)
    seen = transaction_status(candidates, entries.feed).where(~F.col("complete") & _matters())
    seen = seen.drop("complete")
    highest = entries.state.highest
    if highest is None and not entries.replay:
        return seen.withColumn("spared", F.lit(False))
    # Below the highest sort key applied it may be a redelivery of a transaction that is complete in the log. Above it too
    # the log may have what it lacks: its end has come, or overdue parts of it were applied.
    maybe_old = F.lit(entries.replay) | F.coalesce(F.col("position") <= F.lit(highest), F.lit(True))
    maybe_old |= F.col("ended")
    if entries.feed.transactions.overdue == "apply":
        maybe_old |= F.col("parts") < F.col("needed")
    asked = Observation()
    few_names = F.slice(F.collect_set(F.when(maybe_old, F.col("tx"))), 1, FEW_NAMES + 1)
    seen = seen.observe(asked, few_names.alias("names")).localCheckpoint()
    few = asked.get["names"] if given_up is None else None
    if few == []:  # as nearly always: the log of before is not looked at
        return seen.withColumn("spared", F.lit(False))
    names = seen.where(maybe_old).select("tx")
    if given_up is not None:
        names = names.unionByName(seen.join(given_up, "tx", "left_semi").select("tx")).distinct()
    names, published = F.broadcast(names), _published_in_transactions(entries)
    if few is not None and len(few) <= FEW_NAMES and not only_markers_tell(entries.feed):
        # Which files have none of them is known without opening them.
        published = published.where(F.col("tx").isin(few))
    found = candidates.join(names, "tx", "left_semi")
    earlier = with_pairs(published, names, entries.feed).join(names, "tx", "left_semi")

    def complete_with(published: DataFrame) -> DataFrame:
        together = with_earlier(found, published, entries.feed, entries.state.places_until)
        together = without_copied(together, entries.feed) if entries.ever_bad else together
        return F.broadcast(transaction_status(together, entries.feed).where("complete").select("tx"))

    open_ = seen.join(complete_with(without_entries(earlier, given_up)), "tx", "left_anti")
    if given_up is None:
        return open_.withColumn("spared", F.lit(False))
    with_all = complete_with(earlier).withColumn("spared", F.lit(True))
    return open_.join(with_all, "tx", "left").withColumn("spared", F.coalesce("spared", F.lit(False)))


def _displaced(entries: HourEntries, held: DataFrame | None, unused: DataFrame | None) -> DataFrame | None:
    """Published changes that were taken for all of a transaction, or were applied by the feed's policy, of which another
    delivery is whole now."""
    if unused is None or not entries.state.last_sequence:
        return None
    now = unused.where(F.col("whole_by") > F.lit(entries.state.last_sequence))
    shown = of_messages(entries.ties.log.where(entries.published & is_row()), now)
    shown = without_entries(shown, held).localCheckpoint()
    return None if shown.isEmpty() else shown


def _overdue(entries: HourEntries) -> Column:
    """Whether a transaction has been held for longer than the feed allows."""
    return (F.col("since") < _oldest(entries.feed, _now(entries))) & ~F.col("spared")


def _now(entries: HourEntries) -> Hour:
    """The hour as of which transactions are overdue: the one that runs. A replay runs later than its own hour: the newest
    hour there is."""
    return max(entries.hour, entries.state.newest_hour or entries.hour) if entries.replay else entries.hour
