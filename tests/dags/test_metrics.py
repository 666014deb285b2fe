"""The metrics of a publication, with a stand-in for what Airflow sends metrics to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

from tidemark.hours import Hour
from tidemark.ledger.receipts import Counts, Receipt, TableReceipt

PROJECT = Path(__file__).parent.parent.parent
BEGAN = datetime(2026, 11, 20, 8, tzinfo=UTC)
FIGURES = {"landed": 7, "applied": 4, "quarantined": 2, "held": 1, "lag_seconds": 300.0}


@pytest.fixture
def sent() -> Iterator[dict[str, tuple[float, dict[str, str] | None]]]:
    """By name, each gauge and its tags."""
    found: dict[str, tuple[float, dict[str, str] | None]] = {}

    def gauge(name: str, value: float, tags: dict[str, str] | None = None) -> None:
        found[name] = (value, tags)

    stats.initialize(factory=lambda: SimpleNamespace(gauge=gauge), export_legacy_names=False)
    yield found
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)


@pytest.fixture
def publish(feeds: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Runs the last task of a run that began at BEGAN, of an hour that was published so long after that."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.api.datamodels._generated import DagRunType
    from airflow.sdk.execution_time.context import OutletEventAccessors

    from tidemark.ledger import publication_history
    from tidemark.orchestration.operators import SparkStage

    task: Any = DagBag(dag_folder=str(PROJECT / "dags" / "ingest.py")).dags["ingest_shop"].get_task("validate_publish")
    run = SimpleNamespace(
        run_type=DagRunType.MANUAL, data_interval_start=None, logical_date=None, start_date=BEGAN, dag_id="ingest_shop",
        run_id="by hand",
    )  # fmt: skip
    context = {"dag_run": run, "params": {"hour": "2026-11-20T07"}}
    monkeypatch.setattr(SparkStage, "is_done", lambda self, state, hours: True)

    def published(after: timedelta) -> None:
        table = TableReceipt(table="shop.people", counts=Counts(applied=4), rows_written=4)
        receipt = Receipt(
            feed="shop", hour=Hour("2026-11-20T07"), sequence=9, manifest_version=1, objects=1, bytes=5, landed=7, split=0,
            control=0, bad=2, held=1, tables=[table], published_at=BEGAN + after,
        )  # fmt: skip
        monkeypatch.setattr(publication_history, "load_receipt", lambda settings, feed, hour: receipt)
        task.execute({**context, "outlet_events": OutletEventAccessors()})

    return published


def test_a_publication_sends_its_figures_with_the_feed_as_tag(
    publish: Any, sent: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    publish(timedelta(minutes=5))
    assert sent == {f"tidemark.hour.{name}": (value, {"feed": "shop"}) for name, value in FIGURES.items()}


def test_where_metrics_have_no_tags_the_feed_is_in_the_name(publish: Any, sent: dict[str, Any]) -> None:
    publish(timedelta(minutes=5))
    assert sent == {f"tidemark.hour.{name}.shop": (value, None) for name, value in FIGURES.items()}


def test_a_run_that_published_nothing_sends_nothing(publish: Any, sent: dict[str, Any]) -> None:
    publish(timedelta(minutes=-5))
    assert sent == {}
