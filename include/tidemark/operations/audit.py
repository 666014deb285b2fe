"""Audit: what a feed's receipts say is held against what there is, counted again from the landed bytes.

For each hour: the manifest against the bytes (size, SHA-256), the records that the container counts in them and the
entries of the change log against the receipt, the quarantine and the held transactions against the receipts, the cut of
each table (:mod:`tidemark.operations.audit_cuts`). For the feed: that each receipt balances and none is missing, and
each table against the whole change log, read in a second way (:mod:`tidemark.operations.audit_tables`).

It only reads. An hour that is being published meanwhile shows as a finding: audit when nothing runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.containers import load_container
from tidemark.errors import ConfigError, StoredFormatError, TidemarkError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.lake.catalog import read_rows
from tidemark.lake.lake_marker import check_lake
from tidemark.lake.session import open_session
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.change_log import changes_table, is_published, is_row
from tidemark.ledger.kept_back import kept_back_at_first
from tidemark.ledger.manifest import LandedObject, Manifest, counted_objects, load_manifests
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.ledger.receipts import Receipt
from tidemark.ledger.system_tables import system_table, waiting_entries
from tidemark.operations.audit_copies import wrong_copies
from tidemark.operations.audit_cuts import wrong_cuts
from tidemark.operations.audit_finding import AuditFinding
from tidemark.operations.audit_state import wrong_state
from tidemark.operations.audit_tables import wrong_rows
from tidemark.pipeline.land import read_object
from tidemark.settings import Settings
from tidemark.storage.objects import storage_of

#: (hour, landed object) → the records it holds, counted in its bytes.
Counted = dict[tuple[str, str], int]

_AT_ONCE = 4
_COUNTED = (
    "feed", "hour", "sequence", "landed", "split", "control", "held", "quarantined", "applied", "duplicate",
    "superseded",
)  # fmt: skip


@dataclass
class Audit:
    """What an audit found."""

    hours: dict[str, int] = field(default_factory=dict)
    """The hours looked at, each with how many records landed in it, by its receipt."""
    findings: list[AuditFinding] = field(default_factory=list)
    """What is wrong; empty: nothing is."""


def audit(
    feed: Feed, settings: Settings, first: str | None = None, last: str | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Audit:  # fmt: skip
    """Look at every published hour from ``first`` to ``last`` (default: all), and at what the tables hold of them.

    ConfigError when the feed has published none of them.
    """
    if first and last and last < first:
        raise ConfigError(f"the last hour {last} is before the first, {first}", fix="swap them", feed=feed.feed)
    check_lake(settings)
    found = Audit()
    progress("receipts")
    history = _receipts(feed, settings, found.findings)
    of_state, history = wrong_state(feed.feed, history, settings, whole=not found.findings)
    found.findings += of_state
    hours = [hour for hour in history.hours if (first or hour) <= hour <= (last or hour)]
    if not hours and not found.findings:
        raise _none_published(feed, history, first, last)
    receipts = {hour: receipt for hour in hours if (receipt := history.of_hour(hour))}
    found.hours = {hour: receipt.landed for hour, receipt in receipts.items()}
    spark = open_session(settings, f"audit {feed.feed}", small=history.state.has_small_tables)
    counted: Counted = {}
    for hour, receipt in receipts.items():
        progress(f"bytes of {hour}")
        found.findings += _wrong_bytes(spark, feed, receipt, settings, counted)
    progress("change log")
    found.findings += _wrong_log(spark, feed, history, receipts, counted)
    progress("quarantine and held")
    found.findings += _wrong_system_tables(spark, feed, history, receipts)
    progress("cuts")
    found.findings += wrong_cuts(feed, history, receipts, settings)
    found.findings += wrong_copies(spark, feed, history, settings)
    progress("tables")
    whole = len(hours) == len(history.hours)
    found.findings += wrong_rows(spark, feed, history.state, None if whole else hours, settings)
    return found


def _none_published(feed: Feed, history: PublicationHistory, first: str | None, last: str | None) -> ConfigError:
    if not history.hours:
        return ConfigError("no hour of it is published", feed=feed.feed, fix="run an hour of it first")
    asked = f"from {first} to {last}" if first and last else f"from {first} on" if first else f"until {last}"
    fix = f"name hours from {history.hours[0]} to {history.hours[-1]}, where its published ones are"
    return ConfigError(f"no hour {asked} is published", feed=feed.feed, fix=fix)


def _receipts(feed: Feed, settings: Settings, findings: list[AuditFinding]) -> PublicationHistory:
    """The feed's receipts as far as they can be read; adds to ``findings`` what is wrong with them."""
    receipts = []
    restore = "restore the row of tidemark.receipts from a backup, or take that table back to a snapshot of before"
    for row in read_rows(settings, "tidemark", "receipts", where=[("feed", "=", feed.feed)]):
        where = f"receipt {row['sequence']} of {row['hour']}"
        try:
            receipt = parse_document(Receipt, row["receipt"])
        except (ValueError, StoredFormatError) as error:  # no JSON, no receipt, or without its format
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            findings.append(AuditFinding("receipt", where, f"cannot be read: {why}", restore))
            continue
        receipts.append(receipt)
        in_text = receipt.model_dump() | receipt.counts.model_dump() | {"quarantined": receipt.quarantined}
        if wrong := [name for name in _COUNTED if in_text[name] != row[name]]:
            columns = ", ".join(f"{name} {row[name]}, in its text {in_text[name]}" for name in wrong)
            findings.append(AuditFinding("receipt", where, f"does not agree with itself: {columns}", restore))
        try:
            receipt.balance()
        except TidemarkError as error:
            findings.append(AuditFinding("receipt", where, f"does not balance: {error.problem}", restore))
    receipts.sort(key=lambda receipt: receipt.sequence)
    numbers = Counter(receipt.sequence for receipt in receipts)
    for twice in sorted(number for number, times in numbers.items() if times > 1):
        findings.append(AuditFinding("receipt", f"publication {twice}", "has more than one receipt", restore))
    return PublicationHistory(receipts)


def _wrong_bytes(
    spark: SparkSession, feed: Feed, receipt: Receipt, settings: Settings, counted: Counted
) -> list[AuditFinding]:
    """Compare an hour's manifests and its landed objects with its receipt. Adds the records of each object to ``counted``."""
    at = f"hour {receipt.hour}"
    try:
        manifests = load_manifests(settings, feed.feed, receipt.hour)
    except TidemarkError as error:
        return [AuditFinding("manifest", f"{at}, {error.object}", error.problem, error.fix or "")]
    findings = [
        AuditFinding("manifest", f"{at}, version {version}", "is missing", "restore it from a backup")
        for version in sorted(set(range(1, receipt.manifest_version + 1)) - {m.version for m in manifests})
    ]
    publish = f"`tidemark run {feed.feed} --hour {receipt.hour}` publishes it"
    waiting = [
        AuditFinding("manifest", f"{at}, version {manifest.version}", "is not published", publish)
        for manifest in manifests
        if manifest.version > receipt.manifest_version
    ]
    objects = _published_objects(manifests, receipt)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        checked = pool.map(lambda landed: _wrong_object(feed, landed, receipt.hour, settings, counted), objects)
        findings += [finding for of_object in checked for finding in of_object]
    _count_by_decoding(spark, feed, receipt.hour, objects, settings, counted)
    restore = "restore the manifest from a backup"
    sizes = ("objects", receipt.objects, len(objects)), ("bytes", receipt.bytes, sum(o.bytes for o in objects))
    for name, expected, actual in sizes:
        if expected != actual and not findings:
            findings.append(AuditFinding("manifest", at, f"lists {actual} {name}, the receipt {expected}", restore))
    held = [counted.get((receipt.hour, o.path)) for o in objects]
    if not (findings or None in held) and (records := sum(filter(None, held))) != receipt.landed:
        fix = "one of the two was altered: hold the receipt against `tidemark receipts --json` of a backup"
        findings.append(
            AuditFinding("records", at, f"its objects hold {records}, the receipt says {receipt.landed}", fix)
        )
    return findings + waiting


def _published_objects(manifests: Iterable[Manifest], receipt: Receipt) -> list[LandedObject]:
    """What the hour's receipt accounts for: the objects of all versions up to its own."""
    return counted_objects([m for m in manifests if m.version <= receipt.manifest_version])


def _wrong_object(
    feed: Feed, landed: LandedObject, hour: str, settings: Settings, counted: Counted
) -> list[AuditFinding]:
    location, where = f"{settings.landing_root}/{landed.path}", f"hour {hour}, object {landed.path}"
    restore = f"restore it from a backup or from its source, {landed.source}"
    try:
        stored = storage_of(location, settings).find(location)
        if stored is None:
            return [AuditFinding("object", where, "is missing", restore)]
        if stored.size != landed.bytes:
            found = f"has {stored.size} bytes, its manifest says {landed.bytes}"
            return [AuditFinding("object", where, found, restore)]
        # What landed in another container than the feed file names now is held by its bytes alone.
        known = landed.contained_by == feed.contained_by
        read = read_object(landed.topic, stored, feed, settings, inspect=known)
    except TidemarkError as error:
        return [AuditFinding("object", where, error.problem, restore)]
    if read.sha256 != landed.sha256:
        found = f"has SHA-256 {read.sha256}, its manifest says {landed.sha256}"
        return [AuditFinding("object", where, found, restore)]
    records = read.contents.records
    if records is not None:
        counted[hour, landed.path] = records
        if landed.records not in (None, records):
            found = f"holds {records} records, its manifest says {landed.records}"
            return [AuditFinding("manifest", where, found, "restore the manifest from a backup")]
    if known and landed.plain and not read.contents.plain:
        found = "holds what its manifest says it does not: what may be no UTF-8, or JSON in place of a text"
        return [AuditFinding("manifest", where, found, "restore the manifest from a backup")]
    return []


def _count_by_decoding(
    spark: SparkSession, feed: Feed, hour: str, objects: list[LandedObject], settings: Settings, counted: Counted
) -> None:
    """Count, with Spark, the records of the objects whose container cannot count them while their bytes are read."""
    uncounted = [o for o in objects if o.records is None and o.contained_by == feed.contained_by]
    locations = {f"{settings.landing_root}/{o.path}": o.path for o in uncounted}
    there = [location for location in locations if storage_of(location, settings).find(location)]
    if there:
        records = load_container(feed.container["type"]).read(spark, there, feed.container_options)
        counts = {row.object: row["count"] for row in records.groupBy("object").count().collect()}
        counted.update({(hour, locations[location]): counts.get(location, 0) for location in there})


def _restored(what: str) -> str:
    return f"restore {what} from a backup, or take it back to a snapshot of before (Iceberg's rollback_to_snapshot)"


def _wrong_log(
    spark: SparkSession, feed: Feed, history: PublicationHistory, receipts: dict[Hour, Receipt], counted: Counted
) -> list[AuditFinding]:
    """Compare the hours' entries in the change log with the receipts. One Spark job; it collects two rows per object at most.

    A replay that has not been published has decoded anew what it takes up: records of published objects, which may be other
    entries by now than the receipt counted."""
    if not receipts:
        return []
    log = spark.table(changes_table(feed.feed)).where(F.col("hour").isin(list(receipts)))
    per_object = log.groupBy("hour", "object", is_published(history.state).alias("published")).agg(
        F.count_if(F.col("entry") == 0).alias("landed"),
        F.count_if(F.col("entry") > 0).alias("split"),
        F.count_if(F.col("op") == "bad").alias("bad"),
        F.count_if(F.col("op").isin("control", "schema")).alias("control"),
        F.count_if(is_row()).alias("rows"),
    )
    in_log: dict[str, Counter[str]] = {hour: Counter() for hour in receipts}
    landed: Counter[str] = Counter()
    replayed: set[str] = set()
    for row in per_object.collect():
        counts = row.asDict()
        hour, object_, published = counts.pop("hour"), counts.pop("object"), counts.pop("published")
        if not published and (hour, object_) not in counted:  # it has landed since
            continue
        if not published:
            replayed.add(hour)
        in_log[hour].update(counts)
        landed[object_] += counts["landed"]
    fix = _restored("the change log")
    findings = [
        AuditFinding("change log", f"hour {hour}, object {path}", f"has {landed[path]} of its {records} records", fix)
        for (hour, path), records in sorted(counted.items())
        if landed[path] != records
    ]
    for hour, receipt in receipts.items():
        wanted = {"landed": receipt.landed}
        if hour not in replayed:
            wanted |= {"split": receipt.split, "bad": receipt.bad}
            if not history.state.rolled_back:  # else control also counts changes of transactions that were rolled back
                wanted["control"] = receipt.control
        for name, number in wanted.items():
            if in_log[hour][name] != number:
                found = f"{name} {in_log[hour][name]}, the receipt says {number}"
                findings.append(AuditFinding("change log", f"hour {hour}", found, fix))
    return findings


def _wrong_system_tables(
    spark: SparkSession, feed: Feed, history: PublicationHistory, receipts: dict[Hour, Receipt]
) -> list[AuditFinding]:
    """Compare the quarantine, the held transactions and what waits with the receipts."""
    findings = []
    for hour, there in _in_quarantine(kept_back_at_first(spark, feed.feed, history.state), receipts).items():
        wanted = Counter({"undecodable": receipts[hour].bad, "refused": receipts[hour].refused})
        wanted.update({table.table: table.counts.quarantined for table in receipts[hour].tables})
        for name in sorted(wanted.keys() | there.keys()):
            if there[name] != wanted[name]:
                found = f"{there[name]} in quarantine, the receipt says {wanted[name]}"
                fix = _restored(f"tidemark.{feed.feed}.quarantine")
                findings.append(AuditFinding("quarantine", f"hour {hour}, {name}", found, fix))
    last = history.receipts[-1] if history.receipts else None
    if last is not None:
        held = spark.table(system_table(feed.feed, "held")).where(F.col("sequence") == last.sequence).count()
        if held != last.held_transactions:
            found = f"{held} transactions are listed as held, the receipt says {last.held_transactions}"
            fix = _restored(f"tidemark.{feed.feed}.held")
            findings.append(AuditFinding("held", f"hour {last.hour}, publication {last.sequence}", found, fix))
    waiting = waiting_entries(spark, feed.feed, history.state)
    if last is not None and waiting is not None and (listed := waiting.count()) != last.waiting_entries:
        found = f"{listed} entries are listed as waiting, the receipt says {last.waiting_entries}"
        fix = _restored(f"tidemark.{feed.feed}.waiting")
        findings.append(AuditFinding("held", f"hour {last.hour}, publication {last.sequence}", found, fix))
    return findings


def _in_quarantine(rows: DataFrame, receipts: dict[Hour, Receipt]) -> dict[Hour, Counter[str]]:
    """Hour → how many of its entries are kept back: undecodable, refused, or by table."""
    counts: dict[Hour, Counter[Any]] = {hour: Counter() for hour in receipts}
    per_hour = (
        rows.where(F.col("landed_this_hour") & F.col("hour").isin(list(receipts)))
        .groupBy("hour", "stage", "table")
        .count()
    )
    for hour, stage, table, number in per_hour.collect():
        counts[Hour.parse(hour)][{"decode": "undecodable", "assemble": "refused"}.get(stage, table)] += number
    return counts
