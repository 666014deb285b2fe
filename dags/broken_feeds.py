"""Shows the mistakes of feed files as an import error of this file, which makes no DAG of its own (airflow).

Here, and not in ``ingest.py``: Airflow takes every DAG of a file with an import error off the schedule.
"""

from __future__ import annotations

from tidemark.feeds.loading import load_feeds
from tidemark.settings import Settings

settings = Settings()
load_feeds(settings.path(settings.feeds), deep=False)
