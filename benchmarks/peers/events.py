"""The hour's events read by DuckDB, for the peers that leave the reading of files to it."""

from __future__ import annotations

#: The columns of the table: its type, and its expression over an image of the row.
COLUMNS = {
    "id": ("BIGINT", "image.id"),
    "customer_id": ("BIGINT", "image.customer_id"),
    "status": ("VARCHAR", "image.status"),
    "total": ("DECIMAL(14, 2)", "image.total"),
    "tax_rate": ("DECIMAL(9, 4)", "image.tax_rate"),
    "quantity": ("INTEGER", "image.quantity"),
    "is_gift": ("BOOLEAN", "image.is_gift"),
    "placed_at": ("TIMESTAMPTZ", "image.placed_at"),
    "updated_at": ("TIMESTAMP", "make_timestamp(image.updated_at)"),
    "ship_on": ("DATE", "DATE '1970-01-01' + image.ship_on"),
    "contact": ("VARCHAR", "image.contact"),
    "note": ("VARCHAR", "image.note"),
}
#: As the events write them: microseconds, and days.
_WRITTEN = {name: type_ for name, (type_, _) in COLUMNS.items()} | {"updated_at": "BIGINT", "ship_on": "INTEGER"}
_IMAGE = "{" + ", ".join(f'"{name}": "{type_}"' for name, type_ in _WRITTEN.items()) + "}"
_EVENT = (
    f'{{"op": "VARCHAR", "source": {{"sequence": "VARCHAR", "lsn": "BIGINT"}}, "before": {_IMAGE}, "after": {_IMAGE}}}'
)


def select_changes(objects: list[str]) -> str:
    """SQL of all changes of these files: the table's columns, ``deleted``, and ``place``, text that sorts as commits did.

    LSNs go back where transactions interleave, so the last commit before the change comes first in its place.
    """
    columns = ", ".join(f"{expression} AS {name}" for name, (_, expression) in COLUMNS.items())
    return f"""
        WITH records AS (
            SELECT "offset", from_json(value, '{_EVENT}') AS event
            FROM read_json({objects}, format = 'newline_delimited', columns = {{'offset': 'BIGINT', 'value': 'VARCHAR'}})
            WHERE value IS NOT NULL
        ), images AS (
            SELECT coalesce(event.after, event.before) AS image, event.op = 'd' AS deleted,
                (event.source.sequence::JSON->>0)::BIGINT AS last_commit,
                format('{{:020d}}{{:020d}}{{:020d}}', last_commit, event.source.lsn, "offset") AS place
            FROM records
        )
        SELECT {columns}, deleted, place FROM images"""  # noqa: S608 - constants of this module, and files of the benchmark


def select_newest(objects: list[str]) -> str:
    """SQL of the newest change of each key, as :func:`select_changes` has it."""
    return f"{select_changes(objects)} QUALIFY row_number() OVER (PARTITION BY image.id ORDER BY place DESC) = 1"
