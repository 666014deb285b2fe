"""A DAG for each feed that replays what is in quarantine. Only by hand: after someone has fixed something.

One task in the feed's one-slot pool: it goes through all stages of each hour (``tidemark quarantine replay`` does the
same), and may be run again at any time.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from tidemark.feeds.model import Feed
from tidemark.orchestration.assets import published_assets
from tidemark.orchestration.dag_support import HOUR_PATTERN, describe_replay, sound_feeds
from tidemark.orchestration.operators import SparkReplay, task_defaults
from tidemark.settings import Settings

JOB = Path(__file__).resolve().parent.parent / "jobs" / "replay.py"


def hour(title: str, description: str) -> Param:
    return Param(None, type=["null", "string"], pattern=HOUR_PATTERN, title=title, description=description)


def replay(feed: Feed) -> DAG:
    with DAG(
        dag_id=f"replay_{feed.feed}",
        description=f"Replays what {feed.feed} has in quarantine",
        doc_md=describe_replay(feed),
        schedule=None,
        is_paused_upon_creation=False,  # it does nothing that nobody has asked for
        max_active_runs=1,
        params={
            "hour": hour("Hour", "The (first) hour, in UTC, like 2026-11-20T07. Default: all with something kept."),
            "to": hour("To", "The last hour, included. Default: only the first."),
        },
        tags=["tidemark", *feed.tags],
        default_args=task_defaults(feed),
    ) as dag:
        SparkReplay(
            task_id="replay",
            feed=feed.feed,
            stage="replay",
            job=str(JOB),
            writes=True,
            outlets=published_assets(feed),
        )
    return dag


settings = Settings()
for sound in sound_feeds(settings.path(settings.feeds)):
    globals()[f"replay_{sound.feed}"] = replay(sound)
