"""A DAG that runs once a day, when all 24 hours of the feed `shop` are published. Copy it into `dags/`.

It reads the cut of the day's last hour: hours that come later change the table, and never the cut.
"""

from __future__ import annotations

from airflow.sdk import (
    DAG,
    Asset,
    DayWindow,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfDayMapper,
    get_current_context,
    task,
)

EVERY_HOUR_OF_THE_DAY = RollupMapper(upstream_mapper=StartOfDayMapper(input_format="%Y-%m-%dT%H"), window=DayWindow())

with DAG(
    dag_id="daily_orders",
    description="Counts the orders at the end of each day",
    schedule=PartitionedAssetTimetable(
        assets=Asset("tidemark/shop/hours"), default_partition_mapper=EVERY_HOUR_OF_THE_DAY
    ),
    catchup=False,
):

    @task
    def count_orders() -> int:
        from tidemark.operations.read_table import read_snapshot
        from tidemark.settings import Settings

        day = get_current_context()["dag_run"].partition_key
        rows, _ = read_snapshot(Settings(), "shop.orders", f"{day}T23")
        return rows.num_rows

    count_orders()
