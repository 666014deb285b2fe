"""A DAG for each feed that finds out where a row of its tables comes from, for the page in Airflow. Only by hand.

One task that only reads, beside whatever writes (``tidemark explain`` does the same); it may be run again at any time.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from tidemark.feeds.model import Feed
from tidemark.orchestration.dag_support import describe_explain, sound_feeds
from tidemark.orchestration.operators import SparkExplain, task_defaults
from tidemark.settings import Settings

JOB = Path(__file__).resolve().parent.parent / "jobs" / "explain.py"


def explain(feed: Feed) -> DAG:
    with DAG(
        dag_id=f"explain_{feed.feed}",
        description=f"Finds out where a row of {feed.feed} comes from",
        doc_md=describe_explain(feed),
        schedule=None,
        is_paused_upon_creation=False,  # it does nothing that nobody has asked for
        params={
            "table": Param(type="string", minLength=1, title="Table", description="The published schema.table."),
            "key": Param(
                type="array",
                items={"type": "string"},
                minItems=1,
                title="Key",
                description="A value for each column of its key, in its order, one a line.",
            ),
        },
        tags=["tidemark", *feed.tags],
        # Who asked is looking at the page, which says what became of the question: nobody else is told.
        default_args=task_defaults(feed) | {"on_failure_callback": None},
    ) as dag:
        SparkExplain(task_id="explain", feed=feed.feed, stage="explain", job=str(JOB), writes=False)
    return dag


settings = Settings()
for sound in sound_feeds(settings.path(settings.feeds)):
    globals()[f"explain_{sound.feed}"] = explain(sound)
