"""Shows the mistakes of feed files as an import error of this file, which makes no DAG (airflow).

Here, and not in ``ingest.py``: Airflow takes every DAG of a file with an import error off the schedule.
"""

from __future__ import annotations

from tidemark.errors import ConfigError
from tidemark.orchestration import sound_feeds
from tidemark.settings import Settings

settings = Settings()
_, mistakes = sound_feeds(settings.path(settings.feeds))
if mistakes:
    raise ConfigError("\n\n".join(str(mistake) for mistake in mistakes))
