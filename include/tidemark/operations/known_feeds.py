"""Which feeds there are: those with a feed file, and those that have ever published."""

from __future__ import annotations

from tidemark.errors import ConfigError
from tidemark.feeds.loading import feed_names
from tidemark.feeds.problems import nearest
from tidemark.lake.catalog import read_rows
from tidemark.settings import Settings


def published_feeds(settings: Settings) -> list[str]:
    """The feeds that have published anything, whether they still have a feed file or not."""
    return sorted({row["feed"] for row in read_rows(settings, "tidemark", "receipts", columns=("feed",))})


def check_known(settings: Settings, feed: str) -> None:
    """ConfigError for a name that no feed has, neither in the folder of feeds nor among what was ever published."""
    folder = settings.path(settings.feeds)
    known = set(feed_names(folder)) if folder.is_dir() else set()  # what is published can be read without feed files
    if feed not in known:
        known |= set(published_feeds(settings))
    if feed not in known:
        fix = nearest(feed, known) or (
            f"there are: {', '.join(sorted(known))}" if known else "write its first feed file"
        )
        raise ConfigError(f"there is no feed {feed!r}", fix=fix)
