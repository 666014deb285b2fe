"""How SETTLED rows go into an Iceberg table: as new rows, or by one MERGE, the field's upsert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.fold.few_keys import condition
from tidemark.fold.row_join import is_deleted, is_newer_row, joined_stamp, joined_value
from tidemark.identifiers import TIDEMARK, quote
from tidemark.tables.staged_change import StagedChange

#: The temporary view that :func:`merge_sql` reads the SETTLED rows from.
SETTLED_VIEW = "tidemark_settled"
_VALUES_VIEW = "tidemark_values"


def new_rows(settled: DataFrame, columns: dict[str, str]) -> DataFrame:
    """SETTLED as rows of a table that has none yet. ``columns``: of the table, with their types."""
    sent = _sent(settled)
    values = {name: F.col("row")[name] if name in sent else F.lit(None) for name in columns}
    typed = [values[name].cast(kind).alias(name) for name, kind in columns.items()]
    return settled.where(~F.col("deleted")).select(*typed, F.col("tidemark").alias(TIDEMARK))


def merge_sql(target: str, columns: Sequence[str], change: StagedChange) -> str:
    """The MERGE of a change into ``target``, a table of these columns. A column that the change does not know is null."""
    sent = _sent(change.settled)
    # Settled keys are whole. In a table without a key, each copy of a row has its own sort key.
    on = (
        " AND ".join(f"t.{quote(name)} = s.key.{quote(name)}" for name in change.key)
        or f"t.{TIDEMARK}.sort_key = s.tidemark.sort_key"
    )
    if change.key_values:
        on += f" AND {condition(change.key_values, 't.')}"

    def value(name: str) -> str:
        return f"s.row.{quote(name)}" if name in sent else "NULL"

    def assignment(name: str) -> str:
        new = joined_value(name, value(name)) if name in change.joined else value(name)
        return f"t.{quote(name)} = {new}"

    stamp = joined_stamp() if change.joined else "s.tidemark"
    updates = ", ".join([*map(assignment, columns), f"t.{TIDEMARK} = {stamp}"])
    names = ", ".join([*map(quote, columns), TIDEMARK])
    values = ", ".join([*map(value, columns), "s.tidemark"])
    newer = f" AND {is_newer_row()}" if change.late and not change.joined else ""
    return (  # every name in it is quoted
        f"MERGE INTO {target} t USING {SETTLED_VIEW} s ON {on} "  # noqa: S608
        f"WHEN MATCHED AND {is_deleted(change.joined)}{newer} THEN DELETE "
        f"WHEN MATCHED{newer} THEN UPDATE SET {updates} "
        f"WHEN NOT MATCHED AND NOT s.deleted THEN INSERT ({names}) VALUES ({values})"
    )


def fill(spark: SparkSession, target: str, values: Mapping[str, Column], hour: str) -> None:
    """Give all rows of ``target`` a constant in each of these columns. They are rows that the ``hour`` wrote then: as any of
    these they meet the checks."""
    # SQL has no literal for every expression: the values come from a table of one row.
    spark.range(1).select(*(value.alias(name) for name, value in values.items())).createOrReplaceTempView(_VALUES_VIEW)
    assigned = ", ".join(f"t.{quote(name)} = v.{quote(name)}" for name in values)
    spark.sql(
        f"MERGE INTO {target} t USING {_VALUES_VIEW} v ON true "
        f"WHEN MATCHED THEN UPDATE SET {assigned}, t.{TIDEMARK}.hour = :hour",
        args={"hour": hour},
    )
    spark.catalog.dropTempView(_VALUES_VIEW)


def _sent(settled: DataFrame) -> set[str]:
    """The columns that SETTLED rows have."""
    return set(settled.select("row.*").columns)
