"""A DAG for each feed that removes what it no longer needs, daily where the feed is on schedule.

One task in the feed's one-slot pool; it may be run again at any time (``tidemark maintain`` does the same).
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG

from tidemark.feeds.model import Feed
from tidemark.orchestration.dag_support import describe_maintain, sound_feeds
from tidemark.orchestration.operators import SparkMaintain, task_defaults
from tidemark.settings import Settings

JOB = Path(__file__).resolve().parent.parent / "jobs" / "maintain.py"


def maintain(feed: Feed) -> DAG:
    on_schedule = bool(feed.start and feed.schedule)
    with DAG(
        dag_id=f"maintain_{feed.feed}",
        description=f"Removes what {feed.feed} no longer needs",
        doc_md=describe_maintain(feed),
        schedule="30 3 * * *" if on_schedule else None,
        start_date=feed.start if on_schedule else None,
        catchup=False,
        max_active_runs=1,
        tags=["tidemark", *feed.tags],
        default_args=task_defaults(feed),
    ) as dag:
        SparkMaintain(task_id="maintain", feed=feed.feed, stage="maintain", job=str(JOB), writes=True)
    return dag


settings = Settings()
for sound in sound_feeds(settings.path(settings.feeds)):
    globals()[f"maintain_{sound.feed}"] = maintain(sound)
