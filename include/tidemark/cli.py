"""The ``tidemark`` command. Tables and progress on a terminal, plain text when piped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from tidemark.errors import TidemarkError
from tidemark.hours import format_hour, hours_between, parse_hour
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.ledger.receipts import Receipt
    from tidemark.operations.reports import Listing

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Verified lakehouse tables out of hourly exports of change-data topics.",
)
feeds_app = typer.Typer(no_args_is_help=True, help="Feed files.")
quarantine_app = typer.Typer(no_args_is_help=True, help="Records and changes that were kept back, with the reason.")
app.add_typer(feeds_app, name="feeds")
app.add_typer(quarantine_app, name="quarantine")

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

Hour = Annotated[str | None, typer.Option(help="An hour in UTC, like 2026-11-20T07.")]


def main() -> None:
    """Entry point: an error of ours is one message and exit 1, not a traceback."""
    try:
        app()
    except TidemarkError as error:
        err.print(
            f"[bold red]Error:[/] {_escape(str(error))}" if err.is_terminal else f"Error: {error}",
            markup=err.is_terminal,
        )
        raise SystemExit(1) from None


@app.command()
def run(
    feed: Annotated[str, typer.Argument(help="The feed's name.")],
    hour: Annotated[str, typer.Option(help="The (first) hour in UTC, like 2026-11-20T07.")],
    to: Annotated[str | None, typer.Option(help="The last hour, included. Default: only the first.")] = None,
) -> None:
    """Run all stages for one hour or several, in this process, without Airflow."""
    from tidemark.feeds.loading import find_feed
    from tidemark.pipeline.hour import run_hour

    settings = Settings()
    found = find_feed(feed, settings)
    for each in hours_between(hour, to or hour):
        with err.status(f"{feed} {each}") as status:
            receipt = run_hour(found, each, settings, _progress(feed, each, status))
        _print_account(receipt)


def _progress(feed: str, hour: str, status: Status) -> Callable[[str], None]:
    def progress(stage: str) -> None:
        status.update(f"{feed} {hour}: {stage}")
        if not err.is_terminal:
            err.print(f"{feed} {hour}: {stage}", markup=False)

    return progress


def _print_account(receipt: Receipt) -> None:
    counts = receipt.counts
    out.print(
        f"{receipt.feed} {receipt.hour}: landed {receipt.landed}, applied {counts.applied}, "
        f"duplicate {counts.duplicate}, superseded {counts.superseded}, control {receipt.control}, "
        f"held {receipt.held}, quarantined {receipt.quarantined}",
        markup=False,
    )


@app.command()
def show(
    table: Annotated[str, typer.Argument(help="The published schema.table.")],
    as_of: Annotated[str | None, typer.Option(help="The cut of this hour. Default: now.")] = None,
    format: Annotated[
        Literal["table", "jsonl"], typer.Option(help="table: the first rows; jsonl: all rows, one per line.")
    ] = "table",
    limit: Annotated[int, typer.Option(help="Rows of a table.", min=1)] = 20,
) -> None:
    """Print a published table's rows, sorted by key."""
    from tidemark.operations.read_table import json_lines, read_snapshot, table_cells

    cut = format_hour(parse_hour(as_of)) if as_of else None
    rows, key = read_snapshot(Settings(), table, cut)
    if format == "jsonl":
        for line in json_lines(rows, key):
            sys.stdout.write(line + "\n")
        return
    at = f" at {cut}" if cut else ""
    _print(f"{table}{at}: {rows.num_rows} rows", rows.column_names, list(table_cells(rows, key, limit)))
    if rows.num_rows > limit:
        out.print(f"… {rows.num_rows - limit} more; all of them with --format jsonl", markup=False)


@app.command()
def receipts(
    feed: Annotated[str | None, typer.Argument(help="Only this feed. Default: all.")] = None,
    tables: Annotated[bool, typer.Option("--tables", help="A line per table.")] = False,
    format: Annotated[Literal["table", "jsonl"], typer.Option(help="jsonl: whole receipts, one per line.")] = "table",
) -> None:
    """Print what became of every record that landed, hour by hour."""
    from tidemark.operations.reports import newest_receipts, receipts_by_table_listing, receipts_listing

    shown = newest_receipts(Settings(), feed)
    if format == "jsonl":
        for receipt in shown:
            sys.stdout.write(receipt.model_dump_json() + "\n")
    else:
        _print_listing((receipts_by_table_listing if tables else receipts_listing)(shown))


@app.command()
def audit(
    feed: Annotated[str, typer.Argument(help="The feed's name.")],
    first: Annotated[str | None, typer.Option("--from", help="The first hour in UTC. Default: the oldest.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last hour, included. Default: the newest.")] = None,
) -> None:
    """Count again from the landed bytes, and hold receipts, change log, quarantine, cuts and tables against each other.

    A line per hour; each difference with its place and what to do, and exit 1.
    """
    from tidemark.feeds.loading import find_feed
    from tidemark.operations.audit import audit as examine

    settings = Settings()
    found = find_feed(feed, settings)
    begin, end = (format_hour(parse_hour(hour)) if hour else None for hour in (first, last))
    with err.status(feed) as status:
        told = examine(found, settings, begin, end, lambda stage: status.update(f"{feed}: {stage}"))
    wrong = {hour for hour in told.hours for finding in told.findings if hour in finding.where}
    for hour, landed in told.hours.items():
        verdict = "see below" if hour in wrong else "agrees"
        out.print(f"{feed} {hour}: {landed} records landed, {verdict}", markup=False)
    for finding in told.findings:
        out.print(_plain(str(finding)), markup=False)
    if told.findings:
        out.print(f"{len(told.findings)} differences", markup=False)
        raise typer.Exit(1)


@app.command()
def maintain(feed: Annotated[str, typer.Argument(help="The feed's name.")]) -> None:
    """Remove what is no longer needed: old tombstones and cuts, as the feed file says, and orphaned files.

    Tables, receipts, the change log and what landed stay. Not while an hour of the feed runs.
    """
    from tidemark.feeds.loading import find_feed
    from tidemark.operations.maintenance import maintain as tidy

    settings = Settings()
    found = find_feed(feed, settings)
    with err.status(feed) as status:
        done = tidy(found, settings, lambda stage: status.update(f"{feed}: {stage}"))
    out.print(
        f"{feed}: removed {done.tombstones} tombstones, {done.cuts} cuts, {done.branches} branches, {done.orphans} "
        f"orphaned files, {done.folders} folders, {done.landed} landed files; rewrote {done.rewritten} files",
        markup=False,
    )


@app.command()
def held(feed: Annotated[str, typer.Argument(help="The feed's name.")]) -> None:
    """Print the transactions that wait for the rest of them, what is missing, and which have waited for too long."""
    from tidemark.operations.reports import held_listing

    _print_listing(held_listing(Settings(), feed))


@quarantine_app.command("list")
def quarantine_list(
    feed: Annotated[str, typer.Argument(help="The feed's name.")],
    hour: Hour = None,
    limit: Annotated[int, typer.Option(help="So many at most.", min=1)] = 50,
) -> None:
    """List what is in quarantine, also of an hour that stopped before publishing."""
    from tidemark.operations.reports import quarantine_listing

    _print_listing(quarantine_listing(Settings(), feed, format_hour(parse_hour(hour)) if hour else None, limit))


@quarantine_app.command("show")
def quarantine_show(
    feed: Annotated[str, typer.Argument(help="The feed's name.")],
    object: Annotated[str, typer.Argument(help="The object, as listed.")],
    record: Annotated[int, typer.Argument(help="The record's number in it.")],
) -> None:
    """Write one quarantined record, byte for byte, to standard output."""
    from tidemark.ledger.quarantine import list_kept_back

    for row in list_kept_back(Settings(), feed):
        if (row["object"], row["record"]) == (object, record):
            sys.stdout.buffer.write(row["raw"] if row["raw"] is not None else str(row["change"]).encode())
            return
    err.print(f"Error: no record {record} of {object} in quarantine", markup=False)
    raise typer.Exit(1)


@quarantine_app.command("replay")
def quarantine_replay(
    feed: Annotated[str, typer.Argument(help="The feed's name.")],
    hour: Annotated[str | None, typer.Option(help="The (first) hour in UTC. Default: all with something kept.")] = None,
    to: Annotated[str | None, typer.Option(help="The last hour, included. Default: only the first.")] = None,
) -> None:
    """Take up again what is in quarantine, with the feed file as it is now: in its own place in the order, as if it had
    been right at first. What is still wrong stays, with its reason. Again changes nothing."""
    from tidemark.errors import ConfigError
    from tidemark.feeds.loading import find_feed
    from tidemark.ledger.quarantine import list_kept_back
    from tidemark.pipeline.hour import hours_to_replay, replay_hour

    if to is not None and hour is None:
        raise ConfigError("--to names the last of several hours, but nothing the first", fix="give --hour too")
    settings = Settings()
    found = find_feed(feed, settings)
    hours = hours_to_replay(found, hour, to, settings)
    if not hours:
        out.print(f"{feed}: nothing is in quarantine", markup=False)
    if hour is None:
        for each in sorted({row["hour"] for row in list_kept_back(settings, feed)} - set(hours)):
            again = f"`tidemark run {feed} --hour {each}` decodes all of it as the feed file is now"
            out.print(f"{feed} {each}: stopped before it was published, nothing to replay: {again}", markup=False)
    for each in hours:
        with err.status(f"{feed} {each}") as status:
            receipt = replay_hour(found, each, settings, _progress(feed, each, status))
        if receipt is None:
            out.print(f"{feed} {each}: nothing is in quarantine", markup=False)
        else:
            _print_account(receipt)


@feeds_app.command("check")
def feeds_check(
    path: Annotated[
        Path | None, typer.Argument(help="A feed file or a folder of them. Default: TIDEMARK_FEEDS.")
    ] = None,
) -> None:
    """Check feed files: all mistakes at once, each with its place and how to mend it. Exit 1 on any."""
    from tidemark.feeds.loading import check_feeds

    settings = Settings()
    place = path or settings.path(settings.feeds)
    mistakes = check_feeds(place)
    for mistake in mistakes:
        out.print(str(mistake), markup=False)
    if mistakes:
        out.print(f"{len(mistakes)} mistakes", markup=False)
        raise typer.Exit(1)
    out.print(f"{place}: no mistakes", markup=False)


@app.command()
def sample(
    format: Annotated[str, typer.Argument(help="A format of docs/formats: ibm, debezium …")],
    out_folder: Annotated[Path, typer.Argument(metavar="OUT", help="A folder, made where it is missing.")],
    hours: Annotated[int, typer.Option(help="So many hours.", min=1)] = 3,
    events: Annotated[int, typer.Option(help="About so many changes an hour.", min=20)] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    first_hour: Annotated[str, typer.Option(help="The first hour in UTC.")] = "2026-11-20T00",
    poison: Annotated[int, typer.Option(help="So many records that cannot be decoded.", min=0)] = 0,
    container: Annotated[
        str | None, typer.Option(help="What wraps the records, as in a feed file. Default: the format's usual.")
    ] = None,
) -> None:
    """Write exports of a format with a feed file that reads them, and the tables they must come to at every hour."""
    from tidemark.containers import CONTAINERS
    from tidemark.errors import ConfigError
    from tidemark.formats import FORMATS
    from tidemark.samples import load_sample
    from tidemark.samples.exporting import Sample

    for word, known in ((format, FORMATS), (container, CONTAINERS)):
        if word is not None and word not in known:
            raise ConfigError(f"there is no {word!r}", fix=f"one of: {', '.join(sorted(known))}")
    load_sample(format).generate(out_folder, Sample(hours, events, seed, first_hour, poison, container or ""))
    (feed,) = (out_folder / "feeds").glob("*.yaml")
    out.print(f"exports/, feeds/{feed.name} and truth/ are in {out_folder}. To run them:", markup=False)
    out.print(
        f"  TIDEMARK_HOME={out_folder} TIDEMARK_FEEDS=feeds TIDEMARK_EXPORTS=exports "
        f"TIDEMARK_JARS={Settings().path(Settings().jars)} tidemark run {feed.stem} --hour {first_hour}",
        markup=False,
    )


@app.command()
def doctor() -> None:
    """Look at this installation: Java, jars, feeds, lake, catalog. Exit 1 when something is missing."""
    from tidemark.operations.doctor import examine

    findings = examine(Settings())
    _print("Tidemark", ["", "what", "found"], [["ok" if f.good else "MEND", f.what, f.found] for f in findings])
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)


def _print_listing(listing: Listing) -> None:
    _print(listing.title, listing.head, listing.rows)


def _print(title: str, head: list[str], cells: list[list[str]]) -> None:
    """A table on a terminal; tab-separated lines when piped."""
    if not out.is_terminal:
        for row in [head, *cells]:
            sys.stdout.write("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in row) + "\n")
        return
    table = Table(title=_escape(title), title_justify="left", title_style="bold")
    for name in head:
        numeric = all(row[head.index(name)].lstrip("-").isdigit() for row in cells) and bool(cells)
        table.add_column(_escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(_escape(cell) for cell in row))
    out.print(table)


def _escape(text: str) -> str:
    """Values from messages are no markup and no terminal commands."""
    from rich.markup import escape

    return escape(_plain(text))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
