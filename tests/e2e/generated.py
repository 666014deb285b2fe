"""Hours of a generator, run one after the other as an installation of their own would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed, Table
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples.exporting import Sample

HOURS = ("2026-11-20T00", "2026-11-20T01", "2026-11-20T02")


def generated(sample: ModuleType, out: Path, schema: str | None = None, **arguments: int | str) -> Feed:
    """A generator's feed, which reads the exports it wrote into a folder. ``schema``: it and its tables are published
    under this name instead of their own."""
    sample.generate(out, Sample(hours=len(HOURS), **arguments))
    feed = load_feed(out / "feeds" / f"{sample.FEED}.yaml")
    exports = feed.exports.model_copy(update={"path": f"{out}/exports/{feed.exports.path}"})
    feed = feed.model_copy(update={"exports": exports})
    if schema is None:
        return feed
    sources = {feed.published_name(source): source for source in feed.tables}
    tables = {
        sources.get(table, table): feed.tables.get(sources.get(table, table), Table()).model_copy(
            update={"name": _published(table, schema)}
        )
        for table in tables_of(out)
    }
    return feed.model_copy(update={"feed": schema, "tables": tables})


def tables_of(out: Path) -> list[str]:
    """The tables of a generator's truth, by the names they are published under."""
    return sorted({path.stem for path in out.glob("truth/*/*.jsonl")})


def _published(table: str, schema: str | None) -> str:
    return table if schema is None else f"{schema}.{table.replace('.', '_')}"


def findings(
    out: Path, hour: str, settings: Settings, *, schema: str | None = None, now: bool = False
) -> dict[str, list[str]]:
    """Per table, rows of an hour's cut that are not in the truth (``+``) and rows of the truth that are not there
    (``-``). Rows of a table without a key come in an order of their own. ``now``: what is published, not the cut."""
    found = {}
    for table in tables_of(out):
        truth = [json.loads(line) for line in (out / "truth" / hour / f"{table}.jsonl").read_text().splitlines()]
        rows, key = read_snapshot(settings, _published(table, schema), None if now else hour)
        shown = [json.loads(line) for line in json_lines(rows, key)]
        wanted, got = ([json.dumps(row, sort_keys=True) for row in side] for side in (truth, shown))
        same = got == wanted if key else sorted(got) == sorted(wanted)
        if not same:
            more, less = list(got), list(wanted)
            for line in got:
                if line in less:
                    less.remove(line)
                    more.remove(line)
            found[table] = [f"+{line}" for line in more] + [f"-{line}" for line in less] or ["order"]
    return found


def run_all(feed: Feed, settings: Settings, hours: Sequence[str] = HOURS) -> None:
    """Hours, one after the other."""
    for hour in hours:
        run_hour(feed, hour, settings)
