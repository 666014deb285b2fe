"""Commands that look at what is published and what was kept back, and change nothing."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidemark.cli.console import (
    AsJson,
    FeedName,
    OneHour,
    err,
    out,
    plain,
    print_listing,
    print_objects,
    print_table,
    progress,
    without_pandas,
)  # fmt: skip
from tidemark.errors import ConfigError
from tidemark.hours import Hour, hours_came_later
from tidemark.settings import Settings


def show(
    table: Annotated[str, typer.Argument(help="The published schema.table.")],
    as_of: Annotated[str | None, typer.Option(help="The cut of this hour. Default: now.")] = None,
    limit: Annotated[int, typer.Option(help="Rows of a table.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: all rows, a JSON object per line.")] = False,
) -> None:
    """Print a published table's rows, sorted by key."""
    from tidemark.operations.read_table import (
        came_after_cut,
        json_lines,
        read_first_rows,
        read_snapshot,
        reloaded_in,
        table_cells,
    )

    cut = Hour.parse(as_of) if as_of else None
    with progress(f"reading {table}", silent=as_json):
        if as_json:
            rows, key = read_snapshot(Settings(), table, cut)
        else:
            rows, key, number = read_first_rows(Settings(), table, limit, cut)
        later = came_after_cut(Settings(), table, cut) if cut else []
        reloaded = reloaded_in(Settings(), table, cut) if cut else False
    if later:
        err.print(f"{table}: {hours_came_later(later)}; the cut stays as it was made", markup=False)
    if reloaded:
        err.print(f"{table}: reloaded in this hour: what was sent before its load is gone", markup=False)
    if as_json:
        for line in json_lines(rows, key):
            sys.stdout.write(line + "\n")
        return
    at = f" at {cut}" if cut else ""
    print_table(f"{table}{at}: {number} rows", rows.column_names, list(table_cells(rows, key, limit)))
    if number > limit:
        out.print(f"… {number - limit} more; all of them with --json", markup=False)


def explain(
    table: Annotated[str, typer.Argument(help="The published schema.table.")],
    key: Annotated[
        list[str], typer.Argument(help="A value for each column of its key, in its order, as `show` prints it.")
    ],
    column: Annotated[str | None, typer.Option(help="Only what this column comes from.")] = None,
    as_of: Annotated[str | None, typer.Option(help="As the cut of this hour shows it. Default: now.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print every change that ever spoke of a row, what became of it, and which one gave each of the row's values."""
    from tidemark.operations.explain_row import explain_row, explanation_listing

    with progress(f"reading the change log of {table}", silent=as_json):
        found = explain_row(Settings(), table, key, Hour.parse(as_of) if as_of else None, column)
    if as_json:
        print_objects(one for one in found.objects if column is None or one["op"] == "delete" or column in one["sent"])
    else:
        print_listing(explanation_listing(table, key, found, column), as_json=False)


def tx(
    name: Annotated[str, typer.Argument(help="The transaction, as `tidemark held` prints it.", metavar="ID")],
    feed: Annotated[str | None, typer.Option(help="Only of this feed. Default: of all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: a JSON object per transaction.")] = False,
) -> None:
    """Print what became of a source's transaction: its changes, the fate of each, and the first cut that shows it."""
    from tidemark.operations.explain_transaction import explain_transaction, transaction_listing

    with progress(f"reading the change log for {name}", silent=as_json):
        found = explain_transaction(Settings(), name, feed)
    if as_json:
        print_objects(told.object for told in found)
        return
    for told in found:
        listing = transaction_listing(told)
        if not out.is_terminal:  # there a listing has no title
            err.print(plain(listing.title), markup=False)
        print_listing(listing)


@without_pandas
def status(
    feed: Annotated[str | None, typer.Argument(help="Only this feed. Default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print how each feed is: good, late, stopped, waiting or never ran, and why. Exit 1 when one needs a person."""
    from tidemark.feeds.loading import feed_names
    from tidemark.operations.feed_health import examine_feeds, status_listing
    from tidemark.operations.known_feeds import check_known

    settings = Settings()
    if feed is not None:
        check_known(settings, feed)
        names = [feed]
    elif not (names := feed_names(folder := settings.path(settings.feeds))):
        # Whoever watches the exit code watches feeds: a folder that was not mounted is empty.
        fix = "set TIDEMARK_FEEDS to the folder of feed files, or write the first one"
        raise ConfigError(f"no feed file is in {folder}", fix=fix)
    found = examine_feeds(settings, names)
    print_listing(status_listing(found), as_json=as_json)
    if any(one.needs_person for one in found):
        raise typer.Exit(1)


@without_pandas
def tables(
    feed: Annotated[str | None, typer.Argument(help="Only this feed. Default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the published tables."""
    from tidemark.operations.reports import tables_listing

    print_listing(tables_listing(Settings(), feed), as_json=as_json)


@without_pandas
def receipts(
    feed: Annotated[str | None, typer.Argument(help="Only this feed. Default: all.")] = None,
    by_table: Annotated[bool, typer.Option("--tables", help="A line per table.")] = False,
    since: Annotated[str | None, typer.Option(help="From this hour on. Default: the newest hours.")] = None,
    limit: Annotated[int, typer.Option(help="Hours of each feed, without --since.", min=1)] = 48,
    as_json: AsJson = False,
) -> None:
    """Print what became of every record that landed, hour by hour. As JSON: all that the receipts say."""
    from tidemark.operations.reports import (
        newest_receipts,
        receipts_by_table_listing,
        receipts_listing,
        shown_receipts,
    )

    all_receipts = newest_receipts(Settings(), feed)
    shown = shown_receipts(all_receipts, Hour.parse(since) if since else None, limit)
    if as_json and not by_table:
        print_objects(receipt.model_dump(mode="json") for receipt in shown)
    else:
        print_listing((receipts_by_table_listing if by_table else receipts_listing)(shown), as_json=as_json)
    if not since and len(shown) < len(all_receipts):
        err.print(f"… and {len(all_receipts) - len(shown)} older hours: --since HOUR, or --limit", markup=False)


def audit(
    feed: FeedName,
    first: Annotated[str | None, typer.Option("--from", help="The first hour in UTC. Default: the oldest.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last hour, included. Default: the newest.")] = None,
    rebuild_state: Annotated[
        bool, typer.Option("--rebuild-state", help="First make the feed's state again from its receipts.")
    ] = False,
) -> None:
    """Count again from the landed bytes, and hold state, receipts, log, quarantine, cuts and tables against each other.

    A line per hour; each difference with its place and what to do, and exit 1.
    """
    from tidemark.feeds.loading import find_feed
    from tidemark.operations.audit import audit as examine
    from tidemark.operations.audit_state import rebuild_state as rebuild

    settings = Settings()
    found = find_feed(feed, settings)
    if rebuild_state:
        with progress(f"{feed}: making the state again"):
            state = rebuild(feed, settings)
        out.print(
            f"{feed}: made the state again, from the receipts of {state.last_sequence} publications", markup=False
        )
    begin, end = (Hour.parse(hour) if hour else None for hour in (first, last))
    with progress(feed) as stage:
        result = examine(found, settings, begin, end, stage)
    wrong = {hour for hour in result.hours for finding in result.findings if hour in finding.where}
    for hour, landed in result.hours.items():
        verdict = "see below" if hour in wrong else "agrees"
        out.print(f"{feed} {hour}: {landed} records landed, {verdict}", markup=False)
    for finding in result.findings:
        out.print(plain(str(finding)), markup=False)
    if result.findings:
        count = len(result.findings)
        out.print("1 difference" if count == 1 else f"{count} differences", markup=False)
        raise typer.Exit(1)


@without_pandas
def held(feed: FeedName, as_json: AsJson = False) -> None:
    """Print what waits for the rest of its transaction or for metadata, what is missing, and what has waited too long."""
    from tidemark.operations.held import held_listing

    print_listing(held_listing(Settings(), feed), as_json=as_json)


@without_pandas
def quarantine_list(
    feed: FeedName,
    hour: OneHour = None,
    limit: Annotated[int, typer.Option(help="Maximum rows.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """List what is in quarantine, also of an hour that stopped before publishing."""
    from tidemark.operations.reports import quarantine_listing

    listing = quarantine_listing(Settings(), feed, Hour.parse(hour) if hour else None, limit)
    print_listing(listing, as_json=as_json)


@without_pandas
def quarantine_show(
    feed: FeedName,
    object: Annotated[str, typer.Argument(help="The object, as listed.")],
    record: Annotated[int, typer.Argument(help="The record's number in it.")],
) -> None:
    """Write one quarantined record, byte for byte, to standard output.

    Where a decoded change waits whose record is no longer among what landed: the change as JSON, and a word about it on
    standard error.
    """
    from tidemark.errors import TidemarkError
    from tidemark.feeds.loading import find_feed
    from tidemark.ledger.quarantine import list_kept_back
    from tidemark.operations.known_feeds import check_known
    from tidemark.operations.quarantined_record import landed_bytes

    settings = Settings()
    check_known(settings, feed)
    rows = [row for row in list_kept_back(settings, feed, objects=[object]) if row["record"] == record]
    if not rows:
        err.print(f"Error: no record {record} of {object} in quarantine", markup=False)
        raise typer.Exit(1)
    raw = next((row["raw"] for row in rows if row["raw"] is not None), None)
    if raw is None:
        try:
            with progress(f"reading record {record} of {object}"):
                raw = landed_bytes(find_feed(feed, settings), object, record, settings)
        except TidemarkError as error:
            err.print(f"not the record's bytes, but what was decoded from them: {plain(error.problem)}", markup=False)
            raw = "\n".join(str(row["change"]) for row in rows).encode()
    sys.stdout.buffer.write(raw)
