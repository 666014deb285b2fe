"""The six types of DataWorks messages, and which of them a column of a DDL statement will be sent as.

https://www.alibabacloud.com/help/en/dataworks/user-guide/message-formats (field types)
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.values.columns import ColumnType
from tidemark.values.encodings import epoch_millis

#: A message's type → the published column. DATE is an instant: milliseconds since 1970, without a zone of its own.
SIX_TYPES = {
    "BOOLEAN": ColumnType("boolean"),
    "DOUBLE": ColumnType("double"),
    "DATE": ColumnType("timestamp", "epoch_millis"),
    "BYTES": ColumnType("binary", "base64"),
    "LONG": ColumnType("bigint"),
    "STRING": ColumnType("string"),
}

_SENT_AS = {
    "LONG": "TINYINT SMALLINT MEDIUMINT INT INTEGER BIGINT INT2 INT4 INT8 SMALLSERIAL SERIAL BIGSERIAL",
    "DOUBLE": "FLOAT DOUBLE REAL",
    "DATE": "DATE DATETIME DATETIME2 SMALLDATETIME TIMESTAMP TIMESTAMPTZ",
    "STRING": "CHAR NCHAR VARCHAR NVARCHAR VARCHAR2 NVARCHAR2 TINYTEXT TEXT MEDIUMTEXT LONGTEXT NTEXT CLOB NCLOB ENUM "
    "SET JSON JSONB UUID",
    "BYTES": "BINARY VARBINARY TINYBLOB BLOB MEDIUMBLOB LONGBLOB RAW BYTEA IMAGE",
}
_BY_NAME = {name: six for six, names in _SENT_AS.items() for name in names.split()}


#: The name of the encoding of calendar dates.
CALENDAR_DATE = "calendar_date"


def calendar_date(text: Column, spark: str, arg: str | None) -> Column:
    """Milliseconds since 1970 → the date whose midnight this is in the zone ``arg``; null for another time of the day."""
    zone = F.lit(arg)
    day = F.from_utc_timestamp(epoch_millis(text, "timestamp", None), zone).cast("date")
    # Not by the clock: where summer time begins at midnight, a day begins at one.
    return F.when(F.to_utc_timestamp(day.cast("timestamp"), zone) == epoch_millis(text, "timestamp", None), day)


def declared_type(written: str, zone: str | None) -> ColumnType:
    """A type as the feed writes it: one of the six, where an instant is TIMESTAMP, and DATE is a calendar date, sent as its
    midnight in the ``zone``; or ``decimal(p,s)`` for a number sent as text or as a number.

    Raises ValueError for another, and for a DATE without a zone.
    """
    name = written.strip().upper()
    if name == "DATE":
        if zone is None:
            raise ValueError(
                "DATE, a calendar date, comes as the midnight of the source's zone: write the zone under format, like "
                "`zone: Asia/Shanghai`, or TIMESTAMP where the column is an instant"
            )
        return ColumnType("date", CALENDAR_DATE, zone, of_message=True)
    if name == "TIMESTAMP":
        return SIX_TYPES["DATE"]
    if six := SIX_TYPES.get(name):
        return six
    match = re.fullmatch(r"decimal\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", written.strip().lower())
    precision, scale = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    if not 1 <= precision <= 38 or scale > precision:
        raise ValueError(
            f"{written!r} is none of {', '.join([*SIX_TYPES, 'TIMESTAMP'])} and no decimal(p,s) of up to 38 digits"
        )
    return ColumnType(f"decimal({precision},{scale})")


def message_types(schema: str, options: BaseModel) -> dict[str, ColumnType]:
    """Column types by a message's ``dataColumn`` list (JSON); empty when the text is none. An unknown type is text."""
    try:
        listed = json.loads(schema)
        return {column["name"]: SIX_TYPES.get(column["type"], ColumnType("string")) for column in listed}
    except (ValueError, KeyError, TypeError):
        return {}


def ddl_type(written: str, dialect: str) -> ColumnType | None:
    """The type a column of a DDL statement is sent as; None where only messages show it (decimals, bits, large integers)."""
    match = re.match(r"[A-Z0-9]+", written.upper())
    name = match[0] if match else ""
    six = _BY_NAME.get(name)
    unsure = (
        (dialect == "oracle" and six in ("LONG", "DOUBLE"))  # all of them are NUMBER
        or (dialect == "sqlserver" and name == "TIMESTAMP")  # a row version
        or written.upper().startswith(("BIGINT UNSIGNED", "TINYINT(1)"))
        or re.match(r"BIGINT\(\d+\) UNSIGNED", written.upper()) is not None
        or written.endswith("]")  # an array
    )
    return SIX_TYPES[six] if six and not unsure else None


def default_texts(
    values: Mapping[str, str | bytes], types: Mapping[str, ColumnType | None], zone: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Defaults of a DDL statement as messages would write them, and why others cannot be: an instant needs the source's
    ``zone``."""
    written, unknown = dict[str, str](), dict[str, str]()
    for name, value in values.items():
        if isinstance(value, bytes):
            written[name] = base64.b64encode(value).decode()
        elif types.get(name) != SIX_TYPES["DATE"]:
            written[name] = value
        elif zone is None:
            unknown[name] = "its default is a time, and the feed does not say the source's `zone`"
        else:
            at = datetime.fromisoformat(value).replace(tzinfo=ZoneInfo(zone))
            written[name] = str(round(at.timestamp() * 1000))
    return written, unknown
