"""Commands about an installation: its feed files, samples to try it on, the format of its lake, its health."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.console import AsJson, out, print_listing, print_table, progress
from tidemark.errors import TidemarkError
from tidemark.settings import Settings


def feeds_check(
    path: Annotated[
        Path | None, typer.Argument(help="A feed file or a folder of them. Default: TIDEMARK_FEEDS.")
    ] = None,
) -> None:
    """Check feed files: all mistakes at once, each with its place and how to fix it. Exit 1 on any.

    Without mistakes: what the sources may leave out without a trace in their messages, to be looked at there.
    """
    from tidemark.feeds.loading import check_feeds, feed_names, source_gaps

    settings = Settings()
    place = path or settings.path(settings.feeds)
    with progress(f"checking {place}"):
        mistakes = check_feeds(place, settings.path(settings.checks))
    for mistake in mistakes:
        out.print(str(mistake), markup=False)
    if mistakes:
        out.print("1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes", markup=False)
        raise typer.Exit(1)
    none = place.is_dir() and not feed_names(place)
    out.print(f"{place}: {'no feed file is there' if none else 'no mistakes'}", markup=False)
    if gaps := source_gaps(place):
        out.print("No message shows the following: look at the source of each feed.")
    for feed, sentences in gaps.items():
        for sentence in sentences:
            out.print(f"  {feed}: {sentence}.", markup=False)


def feeds_list(as_json: AsJson = False) -> None:
    """List the feeds that have a feed file."""
    from tidemark.feeds.loading import feed_names, find_feed
    from tidemark.operations.listing import Listing, Row

    settings = Settings()
    rows: list[Row] = []
    for name in feed_names(settings.path(settings.feeds)):
        try:
            feed = find_feed(name, settings, deep=False)
        except TidemarkError:
            rows.append([name, "", "", "", "its file has mistakes: `tidemark feeds check`"])
        else:
            begins = f"{feed.schedule} from {feed.start:%Y-%m-%dT%H}" if feed.on_schedule else "on request"
            rows.append([name, str(feed.format["type"]), begins, feed.owner, feed.description])
    print_listing(Listing("Feeds", ["feed", "format", "schedule", "owner", "description"], rows), as_json=as_json)


def sample(
    format: Annotated[str, typer.Argument(help="A format of docs/formats: ibm, debezium …")],
    out_folder: Annotated[Path, typer.Argument(metavar="OUT", help="A folder, made where it is missing.")],
    hours: Annotated[int, typer.Option(help="Number of hours.", min=1)] = 3,
    events: Annotated[int, typer.Option(help="Changes per hour, about.", min=20)] = 200,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    first_hour: Annotated[str, typer.Option(help="The first hour in UTC.")] = "2026-11-20T00",
    poison: Annotated[int, typer.Option(help="Number of records that cannot be decoded.", min=0)] = 0,
    container: Annotated[
        str | None, typer.Option(help="What wraps the records, as in a feed file. Default: the format's usual.")
    ] = None,
) -> None:
    """Write exports of a format with a feed file that reads them, and the tables they must come to at every hour."""
    from tidemark.containers import CONTAINERS
    from tidemark.errors import ConfigError
    from tidemark.formats import FORMATS

    try:
        from tidemark_samples import load_sample
        from tidemark_samples.exporting import Sample
    except ModuleNotFoundError as error:
        raise ConfigError(
            "samples are made by the project's folder alone: the installed package leaves them out",
            fix="run it there: `scripts/in-project tidemark sample …`",
        ) from error

    for word, known in ((format, FORMATS), (container, CONTAINERS)):
        if word is not None and word not in known:
            raise ConfigError(f"there is no {word!r}", fix=f"one of: {', '.join(sorted(known))}")
    with progress(f"writing {out_folder}"):
        wanted = Sample(
            hours=hours, events=events, seed=seed, first_hour=first_hour, poison=poison, container=container or ""
        )
        generator = load_sample(format)
        generator.generate(out_folder, wanted)
    home, jars = (shlex.quote(str(place)) for place in (out_folder, Settings().path(Settings().jars)))
    out.print(f"exports/, feeds/{generator.FEED}.yaml and truth/ are in {out_folder}. To run them:", markup=False)
    out.print(
        f"  TIDEMARK_HOME={home} TIDEMARK_FEEDS=feeds TIDEMARK_EXPORTS=exports "
        f"TIDEMARK_JARS={jars} tidemark run {generator.FEED} --hour {first_hour}",
        markup=False,
    )


def doctor() -> None:
    """Look at this installation: Java, jars, feeds, lake, catalog. Exit 1 when something is missing."""
    from tidemark.operations.doctor import examine

    with progress("looking at this installation"):
        findings = examine(Settings())
    print_table("Tidemark", ["", "what", "found"], [["ok" if f.good else "FIX", f.what, f.found] for f in findings])
    if not all(finding.good for finding in findings):
        raise typer.Exit(1)
