"""Commands that change tables: run, land, reload, replay, maintain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.console import FeedName, LastHour, err, out, progress
from tidemark.errors import ConfigError
from tidemark.hours import hours_between
from tidemark.settings import Settings

if TYPE_CHECKING:
    from tidemark.ledger.receipts import Receipt


def run(
    feed: FeedName,
    hour: Annotated[str, typer.Option(help="The (first) hour in UTC, like 2026-11-20T07.")],
    to: LastHour = None,
) -> None:
    """Run all stages for one hour or several, in this process, without Airflow."""
    from tidemark.feeds.loading import find_feed
    from tidemark.pipeline.hour import run_hour

    settings = Settings()
    found = find_feed(feed, settings)
    for each in hours_between(hour, to or hour):
        with progress(f"{feed} {each}") as stage:
            receipt = run_hour(found, each, settings, stage)
        _print_account(receipt)


def land(
    feed: FeedName,
    hour: Annotated[str, typer.Option(help="The hour in UTC, like 2026-11-20T07.")],
    anew: Annotated[
        bool, typer.Option("--anew", help="In place of what landed of it before and is not published.")
    ] = False,
) -> None:
    """Copy an hour's export to the landing, as `run` does first.

    With --anew for a landed copy that cannot be read: the export, mended where it has to be, counts in its place, and the
    hour's receipt says so. What is published stays.
    """
    from tidemark.feeds.loading import find_feed
    from tidemark.ledger.state_store import load_state
    from tidemark.pipeline.hour import land_anew
    from tidemark.pipeline.land import land as land_export

    settings = Settings()
    found = find_feed(feed, settings)
    with progress(f"{feed} {hour}: land"):
        manifest = (land_anew if anew else land_export)(found, hour, settings)
    gone = f", withdrew {len(manifest.withdrawn)}" if manifest.withdrawn else ""
    shown = f"version {manifest.version}, {len(manifest.objects)} objects{gone}"
    if 0 < load_state(settings, feed).version_of(manifest.hour) < manifest.version:
        shown += f"; the hour is published without it: `tidemark run {feed} --hour {manifest.hour}` publishes it"
    out.print(f"{feed} {hour}: {shown}", markup=False)


def reload(
    feed: FeedName,
    hour: Annotated[str, typer.Option(help="The hour in UTC in which the load begins, like 2026-11-20T07.")],
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...", help="Tables, as published or as the source names them. Default: all of the feed."
        ),
    ] = None,
    positions_begin_again: Annotated[
        bool,
        typer.Option(
            "--positions-begin-again",
            help="The source is another one (a new cluster, another server): its positions count from the load on.",
        ),
    ] = False,
    empty: Annotated[
        bool, typer.Option("--empty", help="The source's tables are empty: no row of a load will come.")
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it back.")] = False,
) -> None:
    """Say that the source loads tables anew: the load's rows replace them, at its place in the order.

    What was sent before it is gone, as by a truncate. For sources whose messages do not say so themselves. Again changes
    nothing.
    """
    from tidemark.feeds.loading import find_feed
    from tidemark.ledger.reloads import ALL, BEGIN_AGAIN, EMPTY, declaration, name_reloads, parse_declaration

    settings = Settings()
    found = find_feed(feed, settings)
    words = {word for word, said in ((BEGIN_AGAIN, positions_begin_again), (EMPTY, empty)) if said}
    given = tables or ([ALL] if words else [])
    with progress(f"{feed} {hour}: reload"):
        named, again = name_reloads(found, [declaration(name, words) for name in given], hour, settings, revoke=revoke)
    parts = map(parse_declaration, named)
    names = [declaration("all tables" if name == ALL else found.published_name(name), said) for name, said in parts]
    shown = f"reload of {', '.join(names)}" if names else "no reload begins in it"
    if again:
        shown += f"; the hour is published: `tidemark run {feed} --hour {hour}` applies it"
    elif names:
        shown += "; it counts when the hour is run, and in every later run"
    out.print(f"{feed} {hour}: {shown}", markup=False)


def quarantine_replay(
    feed: FeedName,
    hour: Annotated[str | None, typer.Option(help="The (first) hour in UTC. Default: all with something kept.")] = None,
    to: LastHour = None,
) -> None:
    """Take up again what is in quarantine, with the feed file as it is now.

    In its own place in the order, as if it had been right at first. What is still wrong stays, with its reason. Again
    changes nothing.
    """
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
        with progress(f"{feed} {each}") as stage:
            receipt = replay_hour(found, each, settings, stage)
        if receipt is None:
            out.print(f"{feed} {each}: nothing is in quarantine", markup=False)
        else:
            _print_account(receipt)


def maintain(feed: FeedName) -> None:
    """Remove what is no longer needed: old tombstones and cuts, as the feed file says, and orphaned files.

    Tables, receipts, the change log and what landed stay. It waits for a run of the feed to end.
    """
    from tidemark.feeds.loading import find_feed
    from tidemark.operations.maintenance import maintain as remove_unneeded

    settings = Settings()
    found = find_feed(feed, settings)
    with progress(feed) as stage:
        done = remove_unneeded(found, settings, stage)
    out.print(
        f"{feed}: removed {done.tombstones} tombstones, {done.cuts} cuts, {done.branches} branches, {done.orphans} "
        f"orphaned files, {done.folders} folders, {done.landed} landed files; rewrote {done.rewritten} files",
        markup=False,
    )


def _print_account(receipt: Receipt) -> None:
    counts = receipt.counts
    out.print(
        f"{receipt.feed} {receipt.hour}: landed {receipt.landed}, applied {counts.applied}, "
        f"duplicate {counts.duplicate}, superseded {counts.superseded}, control {receipt.control}, "
        f"held {receipt.held}, quarantined {receipt.quarantined}",
        markup=False,
    )
    for table, why in receipt.stopped.items():
        err.print(f"{receipt.feed} {receipt.hour}: {table} is stopped and stays as it was: {why}", markup=False)
