"""One hour of a feed on its way through the stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from pyspark.sql import SparkSession

from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.state_store import save_state
from tidemark.settings import Settings


@dataclass(frozen=True, kw_only=True)
class HourRun:
    """What every stage of an hour is given."""

    spark: SparkSession
    """The session that the stages work in."""
    feed: Feed
    """The feed that the hour is of."""
    settings: Settings
    """The installation's settings."""
    manifest: Manifest
    """What has landed for the hour."""
    state: FeedState
    """What the feed has published, and the publication in the making."""

    @property
    def hour(self) -> Hour:
        """The hour."""
        return self.manifest.hour

    @property
    def sequence(self) -> int:
        """The number of the publication in the making."""
        return self.state.attempt.sequence

    @property
    def folded_by(self) -> str:
        """A hash of what the hour is screened and judged by: the feed file, and the modules of checks that it names."""
        found = sha256(self.feed.folded_by.encode())
        modules = {table.checks_module.partition(":")[0] for table in self.feed.tables.values() if table.checks_module}
        for module in sorted(modules):
            file = self.settings.path(self.settings.checks) / f"{module}.py"
            found.update(sha256(file.read_bytes() if file.is_file() else b"").digest())
        return found.hexdigest()[:16]

    def save(self, state: FeedState) -> HourRun:
        """Replace the feed's state; the run with what is stored now. ConflictError where another run has done so."""
        return replace(self, state=save_state(self.settings, state))

    def begin(self) -> HourRun:
        """Begin an attempt of the hour, under a number of its own."""
        return self.save(self.state.beginning(self.manifest))
