"""A DAG for each feed file: an hour's export becomes checked tables.

Every run is for one hour (see ``hour_of_run``), and every task may run again at any time. Hours of a feed are landed
side by side, and large ones decoded so; what writes the tables takes the feed's one-slot pool, so that scheduled runs,
backfills and runs by hand never write at once. In the pool the oldest hour goes first, and an hour that has begun to write
is published before the next begins: a preference, not a need, for any order gives the same tables. No task depends on the
hour before (``depends_on_past``): a failed hour would stop all later ones, and a backfill could not run backwards.

A feed file with mistakes has no DAG here; ``broken_feeds.py`` shows its mistakes.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param, get_current_context, task

from tidemark.feeds.model import Feed
from tidemark.orchestration.alerts import late_alert, on_failed_run
from tidemark.orchestration.assets import hourly_asset, published_assets
from tidemark.orchestration.dag_support import HOUR_PATTERN, describe, longest_run, run_hour, sound_feeds
from tidemark.orchestration.operators import SparkDecode, SparkStage, WaitForExport, name_run_reloads, task_defaults
from tidemark.orchestration.timetable import HoursOnRequest, HoursOnSchedule
from tidemark.settings import Settings

JOBS = Path(__file__).resolve().parent.parent / "jobs"

HOUR = Param(
    None,
    type=["null", "string"],
    pattern=HOUR_PATTERN,
    title="Hour",
    description="The hour to run, in UTC, like 2026-11-20T07. Default: the hour of the logical date; of one that is not over "
    "yet, the run waits for the export. Runs by schedule and by backfill know theirs.",
)

RELOAD = Param(
    None,
    type=["null", "array"],
    items={"type": "string"},
    title="Reload",
    description="Tables, one a line, that the source loads anew from this hour on, where its messages do not say so; * is "
    "all of them. What was sent of them before the load is gone. Name them once, in the hour in which the load begins.",
)


def ingest(feed: Feed) -> DAG:
    cron = feed.schedule if feed.start else None
    with DAG(
        dag_id=f"ingest_{feed.feed}",
        description=feed.description,
        doc_md=describe(feed),
        schedule=HoursOnSchedule(cron, timezone="UTC") if cron else HoursOnRequest(),
        start_date=feed.start if cron else None,
        catchup=bool(cron),
        max_active_runs=4,
        dagrun_timeout=longest_run(feed),
        deadline=late_alert(feed),
        on_failure_callback=on_failed_run(feed),
        params={"hour": HOUR, "reload": RELOAD},
        tags=["tidemark", *feed.tags],
        default_args=task_defaults(feed),
    ) as dag:

        @task
        def land() -> None:
            from tidemark.orchestration.kafka_login import settings_of
            from tidemark.pipeline.land import land as land_hour

            context = get_current_context()
            # What has landed may be published at once, by the job of the hour before, and its cut stays as it was made then.
            name_run_reloads(context, feed)
            land_hour(feed, run_hour(context), settings_of(feed))

        decode = SparkDecode(
            task_id="decode", feed=feed.feed, stage="decode", job=str(JOBS / "decode.py"), writes=False
        )
        fold = SparkStage(
            task_id="assemble_fold",
            feed=feed.feed,
            stage="fold",
            job=str(JOBS / "fold.py"),
            writes=True,
            weight_rule="absolute",
            priority_weight=1,
        )
        publish = SparkStage(
            task_id="validate_publish",
            feed=feed.feed,
            stage="publish",
            job=str(JOBS / "publish.py"),
            writes=True,
            weight_rule="absolute",
            priority_weight=2,
            outlets=[*published_assets(feed), hourly_asset(feed.feed)],
        )
        WaitForExport(task_id="wait", feed=feed) >> land() >> decode >> fold >> publish
    return dag


settings = Settings()
for sound in sound_feeds(settings.path(settings.feeds)):
    globals()[f"ingest_{sound.feed}"] = ingest(sound)
