"""An hour of a feed's exports at its source, by the kind of source: objects in folders
(:mod:`tidemark.pipeline.path_exports`), or Kafka itself (:mod:`tidemark.pipeline.kafka_exports`)."""

from __future__ import annotations

from tidemark.errors import NotReadyError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.pipeline.hour_export import HourExport, Readiness
from tidemark.settings import Settings


def look_at(feed: Feed, hour: str, settings: Settings, *, anew: bool = False) -> HourExport:
    """The hour's export as it is now. ``anew``: what has landed does not make up for what the source lacks."""
    if feed.exports.kafka is not None:
        from tidemark.pipeline.kafka_exports import look_at_topics  # its client is loaded by those who need it

        return look_at_topics(feed, Hour.parse(hour), settings)
    from tidemark.pipeline.path_exports import look_at_folders

    return look_at_folders(feed, Hour.parse(hour), settings, anew=anew)


def is_complete(feed: Feed, hour: str, settings: Settings) -> Readiness:
    """Whether an hour can land now. Lists the source; reads nothing."""
    return look_at(feed, hour, settings).readiness()


def require_complete(export: HourExport) -> None:
    """NotReadyError when the hour cannot land yet."""
    found = export.readiness()
    if not found.ready:
        fix = "wait for the exporter; what counts as complete is under `exports` in the feed file"
        raise NotReadyError(f"the export is not complete: {found.why}", fix=fix)
