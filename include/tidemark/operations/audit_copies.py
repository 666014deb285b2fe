"""Copies in Parquet folders under audit: the newest ones are of the last publication, and hold what their tables hold."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.crash import kind_of
from tidemark.feeds.model import Feed
from tidemark.identifiers import TIDEMARK
from tidemark.lake.catalog import find_table
from tidemark.ledger.publication_history import PublicationHistory
from tidemark.operations.audit_finding import AuditFinding
from tidemark.settings import Settings
from tidemark.tables.parquet_copies import copied_tables, copies_folder, is_whole, newest_copies
from tidemark.tables.published_table import PublishedTable


def wrong_copies(
    spark: SparkSession, feed: Feed, history: PublicationHistory, settings: Settings
) -> list[AuditFinding]:
    """What is wrong with the copies in Parquet folders, of the tables that have one by the feed file."""
    wanted = {table for table in copied_tables(feed) & history.tables if find_table(settings, *table.split(".", 1))}
    if not wanted:
        return []
    fix = "the next publication of the feed writes it"
    try:
        copies = newest_copies(settings, feed.feed)
    except ValueError as error:
        broken = f"their newest document is damaged: {error}"
        return [AuditFinding("copy", copies_folder(settings, feed.feed), broken, "remove it; " + fix)]
    last = history.receipts[-1].sequence
    if copies is None or copies.sequence != last:
        newest = f"the newest is of publication {copies.sequence}" if copies else "there are none"
        return [AuditFinding("copy", copies_folder(settings, feed.feed), f"{newest}, the last one is {last}", fix)]
    findings = []
    for table in sorted(wanted):
        folder = f"{copies_folder(settings, feed.feed)}/{copies.tables.get(table, '')}"
        if table not in copies.tables or not is_whole(folder, settings):
            missing = f"its Parquet folder {copies.tables.get(table, '')} is missing or not whole"
            findings.append(AuditFinding("copy", f"table {table}", missing, fix))
        elif why := _differs(spark, folder, PublishedTable(spark, table, feed.feed)):
            again = f"remove {folder}/_SUCCESS; {fix}"
            findings.append(AuditFinding("copy", f"table {table}", f"its Parquet folder {why}", again))
    return findings


def _differs(spark: SparkSession, folder: str, published: PublishedTable) -> str | None:
    """In what the copy of a table is not the table; None: in nothing."""
    rows = published.read().drop(TIDEMARK)
    try:
        copied = spark.read.schema(rows.schema).parquet(folder)
        more, less = copied.exceptAll(rows).count(), rows.exceptAll(copied).count()
    except (PySparkException, Py4JJavaError) as error:
        return f"cannot be read: {kind_of(error)}"
    return f"has {more} rows that the table has not, and lacks {less} that it has" if more or less else None
