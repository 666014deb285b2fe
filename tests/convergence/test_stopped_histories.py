"""A table that cannot go on for some publications of a plan stops alone. Once it is mended, and each hour whose changes
wait has run again, in any order, all tables are what the oracle says, whatever was held meanwhile."""

from __future__ import annotations

import copy
import math
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.convergence.delivery_plan import HOURS, DeliveryPlan, Publication
from tests.convergence.histories import draw_histories
from tests.convergence.test_convergence import CONTAINERS, FORMATS, MANY, explained, findings, refused
from tests.convergence.wire import Format
from tidemark.feeds.model import Feed
from tidemark.lake.catalog import find_table
from tidemark.ledger.quarantine import STOPPED, list_kept_back, list_stopped
from tidemark.ledger.state_store import load_state
from tidemark.operations.audit import audit
from tidemark.pipeline.hour import replay_hour, run_hour
from tidemark.settings import Settings

pytestmark = [pytest.mark.promise(2, 3), pytest.mark.long]

#: By the formats whose feeds declare the type of ``n``: the type that it cannot become.
TEXT = {"debezium": "text", "ibm_kafka": "VARCHAR(40)"}
#: How many histories a plan has: what is held between hours matters here, not how many there are.
FEW = MANY // 10
SEEDS = range(1, 1 + math.ceil(int(os.environ.get("TIDEMARK_HISTORIES", "3000")) / MANY))


@pytest.mark.parametrize("format_", [pytest.param(one, id=one.name) for one in FORMATS if one.name in TEXT])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stopped_table_is_in_the_end_as_if_nothing_had_stopped_it(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: Format, seed: int
) -> None:
    containers = CONTAINERS[format_.name]
    run_stopping_plan(replace(format_, container=containers[seed % len(containers)]), seed, FEW, settings, tmp_path)


def run_stopping_plan(format_: Format, seed: int, count: int, settings: Settings, out: Path) -> None:
    """Run all hours of a plan, some of them by a feed file in which a table's ``n`` is of another type."""
    name = f"stopping_{format_.name}_{seed}"
    plan, drawn = (
        DeliveryPlan(format_, draw_histories(format_.encoder.TRAITS, count, seed), seed, out / "exports"),
        Random(name),
    )
    file = format_.feed(name, str(plan.exports)) | {"on_table_stop": "table"}
    if plan.source.splits:
        file["transactions"] = {**file.get("transactions", {}), "bad": "split"}
    broken = copy.deepcopy(file)
    table = drawn.choice([table for table in broken["tables"].values() if table.get("key") != []])
    table["columns"]["n"] = TEXT[format_.name]
    stops = drawn.randint(1, len(plan.order) - 2)
    mended = drawn.randint(stops + 1, len(plan.order))
    published: list[Publication] = []
    for index, at in enumerate(plan.order):
        plan.land(at)
        there = find_table(settings, name, table["name"].split(".")[1]) is not None
        feed = Feed.model_validate(broken if stops <= index < mended and there else file)
        run_hour(feed, HOURS[at.hour], settings)
        published.append(at)
        context = f"{format_.name}, seed {seed}, {table['name']} stops, after {', '.join(map(str, published))}"
        if stops <= index < mended - 1:
            assert not [str(finding) for finding in audit(feed, settings).findings], context
            continue
        feed = Feed.model_validate(file)
        catch_up(feed, settings, drawn)
        bad = plan.source.refused(plan.landed(published))
        assert refused(settings, feed) == {(change.table, str(dict(change.sent)["n"])) for change in bad}, context
        found = findings(plan, plan.landed(published), name, settings, None)
        assert not found, f"{context}:\n{explained(plan, found, f'{seed} {count}')}"
    assert not [str(finding) for finding in audit(Feed.model_validate(file), settings).findings]


def catch_up(feed: Feed, settings: Settings, drawn: Random) -> None:
    """Run the hours again whose changes of stopped tables wait. Until all of them have, the tables are told as stopped."""
    while hours := sorted({row["hour"] for row in list_kept_back(settings, feed.feed) if row["stage"] == STOPPED}):
        assert list_stopped(settings, load_state(settings, feed.feed)), hours
        again = drawn.choice([run_hour, replay_hour])
        assert again(feed, drawn.choice(hours), settings) is not None
