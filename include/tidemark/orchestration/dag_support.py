"""What the DAG files need besides Airflow: the hour of a run, the feeds, their pools and the descriptions of DAGs.

Pure, and imported at every parse of a DAG file: neither Airflow nor Spark, pandera or boto3 is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.errors import ConfigError
from tidemark.feeds.loading import load_feed
from tidemark.feeds.model import Feed
from tidemark.hours import Hour, hours_between

if TYPE_CHECKING:
    from airflow.sdk import Context

#: What the names of the feeds' pools begin with.
POOL_PREFIX = "tidemark_"

#: How the ``hour`` of a run by hand is written.
HOUR_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}$"


def sound_feeds(folder: Path) -> list[Feed]:
    """The feeds of a folder whose files are right, by name. One wrong file must not take the others' DAGs down."""
    feeds = []
    for path in sorted(folder.glob("*.yaml")):
        with suppress(ConfigError):
            feeds.append(load_feed(path, deep=False))
    return feeds


def hour_of_run(
    run_type: str, asked: str | None, interval_start: datetime | None, logical_date: datetime | None
) -> str:
    """The hour a DAG run is for, like ``2026-11-20T07``.

    The ``hour`` that somebody asked for wins. Runs by schedule and by backfill are for the hour their data interval
    begins in. A run by hand is for the hour of its logical date: its interval is the one before that, as Airflow computes
    it. ConfigError for a run that has neither, and for a backfill of which every run would be for one hour.
    """
    if asked and run_type == "backfill":
        raise ConfigError(
            f"every run of this backfill would be for the hour {asked}",
            fix="leave `hour` out of its configuration: each run is for the hour that its interval begins in",
        )
    if asked:
        return str(Hour.parse(asked))
    within = interval_start if run_type in ("scheduled", "backfill") else logical_date
    if within is not None:
        return str(Hour.of(within.astimezone(UTC).replace(minute=0, second=0, microsecond=0)))
    raise ConfigError(
        f"this run ({run_type}) does not say which hour it is for",
        fix='trigger it with a logical date, or with an hour in UTC, like {"hour": "2026-11-20T07"}; for many hours use a '
        "backfill",
    )


def run_hour(context: Context) -> str:
    """The hour of the task's DAG run, like ``2026-11-20T07``."""
    run = context["dag_run"]
    asked = context["params"].get("hour")
    return hour_of_run(run.run_type.value, asked, run.data_interval_start, run.logical_date)


def reloads_of_run(run_type: str, asked: Sequence[str] | None) -> list[str]:
    """The tables whose reload begins in the hour of a DAG run; ``*``: all of the feed's.

    ConfigError for a run by schedule or by backfill: these would begin the reload again in each of their hours.
    """
    tables = [name.strip() for name in asked or [] if name.strip()]
    if tables and run_type in ("scheduled", "backfill"):
        raise ConfigError(
            f"this run ({run_type}) cannot begin a reload: it is named once, for the hour in which the load begins",
            fix='trigger that hour by hand, like {"hour": "2026-11-20T07", "reload": ["shop.orders"]}',
        )
    return tables


def replay_arguments(first: str | None, last: str | None) -> list[str]:
    """The arguments of a replay: no hour (all that have anything in quarantine), one, or the first and the last of several.

    ConfigError for a last hour without a first, or before it.
    """
    if last and not first:
        raise ConfigError("`to` names the last of several hours, but nothing the first", fix="give `hour` too")
    if first and last:
        between = hours_between(first, last)
        return [str(between[0]), str(between[-1])]
    return [str(Hour.parse(first))] if first else []


def pool_of(feed: str) -> str:
    """The one-slot pool of a feed: whatever writes its tables takes it, in every kind of run. The plugin makes it."""
    return POOL_PREFIX + feed


def longest_run(feed: Feed) -> timedelta:
    """After how long Airflow fails a run of the hourly DAG: its wait, and all tries of its four stages."""
    return feed.exports.wait + 4 * (feed.retries + 1) * feed.stage_timeout


def published_tables(feed: Feed) -> list[str]:
    """The published names of the tables that the feed's file names, sorted."""
    return sorted({feed.published_name(source_table) for source_table in feed.tables})


def describe(feed: Feed) -> str:
    """The ``doc_md`` of a feed's DAG."""
    dag_id = f"ingest_{feed.feed}"
    tables = "\n".join(f"- `{name}`" for name in published_tables(feed)) or "- as the messages name them"
    when = (
        f"Runs on `{feed.schedule}` (UTC) from {feed.start:%Y-%m-%d %H:%M} on."
        if feed.on_schedule
        else "Not on schedule: runs by trigger and by backfill."
    )
    return f"""\
**{feed.description}**

{when} One run is one hour: the export of that hour is landed, decoded, folded into the tables, checked and published.
The same hour may run again at any time, and hours may run in any order: the tables come out the same.

**Which hour a run is for**: Airflow names a run, and lists it, by when it may start, which is the end of its hour. The run
`backfill__2026-11-20T08:00:00+00:00` is for the hour 07, with which its data interval begins. A run by hand says it in its
parameters. The Tidemark page (under *Browse*) lists hours, each with its run.

**Topics**
{chr(10).join(f"- `{topic}`" for topic in feed.topics)}

**Tables**
{tables}

**One hour by hand**: trigger with the hour in UTC. Without one it is the hour of the run's logical date: of one that is not
over yet, the run waits for the export. A run by hand takes no run's place: the one on schedule comes all the same.

    airflow dags trigger {dag_id} --conf '{{"hour": "2026-11-20T07"}}'

**Many hours**: both ends are included; the DAG must not be paused. Several runs at a time are quickest: small hours that have
landed are published by one Spark job, one after the other, for which their runs wait; large ones are decoded side by side.
Any order gives the same tables.

    airflow backfill create --dag-id {dag_id} --from-date 2026-11-20T00:00:00Z --to-date 2026-11-20T05:00:00Z \\
        --reprocess-behavior completed --max-active-runs 4

**A reload**: when the source loads a table anew and its messages do not say so, name the table in the run of the hour in
which the load begins; `*` is all tables. What was sent of it before the load is gone, as by a truncate. Behind a name may
stand `(positions begin again)`: the source is another one; and `(empty)`: its table is empty, and no row of a load will come.

    airflow dags trigger {dag_id} --conf '{{"hour": "2026-11-20T07", "reload": ["*"]}}'

**When a task fails**: what can pass by itself (storage or catalog did not answer) is tried again, up to {feed.retries}
times. What someone has to fix first fails at once, and the log's last lines say where and how. Readers stay on the
last good hour.

**What was kept back**: the DAG `replay_{feed.feed}` replays what is in quarantine.

Owner: {feed.owner}
"""


def describe_maintain(feed: Feed) -> str:
    """The ``doc_md`` of the DAG that maintains a feed."""
    keep = feed.retention
    cuts = "forever" if keep.cuts is None else f"for {keep.cuts}"
    when = "Every day at 03:30 (UTC)." if feed.on_schedule else "Not on schedule: trigger it."
    return f"""\
Removes what `{feed.feed}` no longer needs. {when} Tables read the same before and after; the change log, the receipts,
the quarantine and what landed stay.

- tombstones of publications older than {keep.tombstones}
- cuts of hours: kept {cuts}
- audit branches of publications that were never finished, and files older than {keep.orphans} that nothing refers to
- small data files are compacted

It takes the feed's pool, so that no hour is published meanwhile. By hand:

    airflow dags trigger maintain_{feed.feed}

Owner: {feed.owner}
"""


def describe_replay(feed: Feed) -> str:
    """The ``doc_md`` of the DAG that replays a feed's quarantine."""
    dag_id = f"replay_{feed.feed}"
    return f"""\
Replays what hours of `{feed.feed}` have in quarantine, with the feed file as it is now: after a fix of the file,
once missing metadata have landed, or when a check was relaxed. Each record has the same effect, in the same order, as if
it had been right at first. What is still wrong stays in quarantine, with its reason. A second replay changes nothing.

All hours that have anything in quarantine, one of them, or several (both ends are included):

    airflow dags trigger {dag_id}
    airflow dags trigger {dag_id} --conf '{{"hour": "2026-11-20T07"}}'
    airflow dags trigger {dag_id} --conf '{{"hour": "2026-11-20T07", "to": "2026-11-20T09"}}'

An hour that stopped before it was published needs no replay: run it again. It takes the feed's pool, so that no hour
is published meanwhile.

Owner: {feed.owner}
"""


def describe_explain(feed: Feed) -> str:
    """The ``doc_md`` of the DAG that explains rows of a feed's tables."""
    dag_id = f"explain_{feed.feed}"
    return f"""\
Finds out where a row of a table of `{feed.feed}` comes from: every change that ever spoke of it, what became of each, and
which one gave each of its values. The table's page (under *Browse*, Tidemark) triggers it and shows the answer, to which
the task's link *Answer* leads. Answers are kept for a day. It only reads, and needs no pool.

    airflow dags trigger {dag_id} --conf '{{"table": "schema.table", "key": ["7"]}}'

Owner: {feed.owner}
"""
