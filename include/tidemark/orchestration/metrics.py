"""The metrics of a publication, sent to whatever Airflow sends its own to."""

from __future__ import annotations

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats

from tidemark.ledger.receipts import Receipt

#: Settings of Airflow's section ``metrics`` under which a metric keeps its tags. Plain StatsD drops them.
_WITH_TAGS = ("otel_on", "statsd_datadog_enabled", "statsd_influxdb_enabled")


def send_metrics(receipt: Receipt) -> None:
    """Send what the receipt of a published hour says, as gauges: counts of records, and seconds from the hour's end to its
    publication."""
    figures: dict[str, float] = {
        "landed": receipt.landed,
        "applied": receipt.counts.applied,
        "quarantined": receipt.quarantined,
        "held": receipt.held,
    }
    if receipt.published_at is not None:
        figures["lag_seconds"] = (receipt.published_at - receipt.hour.end).total_seconds()
    tagged = any(conf.getboolean("metrics", key, fallback=False) for key in _WITH_TAGS)
    for name, value in figures.items():
        if tagged:
            stats.gauge(f"tidemark.hour.{name}", value, tags={"feed": receipt.feed})
        else:
            stats.gauge(f"tidemark.hour.{name}.{receipt.feed}", value)
