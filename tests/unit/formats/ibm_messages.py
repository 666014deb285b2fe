"""IBM change-data records in brief, and a feed that reads them: what the tests of the format share."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.containers.contract import RECORDS
from tidemark.feeds.model import Feed

TABLES = {
    "TEST.T": {
        "key": ["ID"],
        "columns": {"ID": "INTEGER", "NAME": "VARCHAR(20)", "NOTE": "CHAR(4)", "AMOUNT": "DECIMAL(9,2)"},
    },
    "TEST.KINDS": {
        "key": ["CODE"],
        "columns": {
            "CODE": "CHAR(4)", "BODY": "CLOB(1M)", "DOC": "XML", "BITS": "CHAR(2) FOR BIT DATA", "WIDE": "GRAPHIC(4)",
            "AT": "TIME", "N": "INTEGER",
        },
    },
    "OTHER.T": {"key": ["CODE"], "columns": {"CODE": "CHAR(2)", "N": "DECIMAL(5,1)"}},
    "TEST.NOKEY": {"columns": {"A": "INTEGER", "B": "VARCHAR(9)"}},
    "TEST.LOBS": {"columns": {"A": "INTEGER", "B": "CLOB(1M)"}},
}  # fmt: skip

LSN_5, LSN_8 = "0000:0000:0388:4642:0000", "0000:0000:0000:0271:000C:0000:0000:0000"


def record(
    operation: str,
    values: str,
    *,
    table: str = "T",
    identifier: str = "IBM",
    unit: str = "0000:0000:0388:4642:0000",
    lsn: str = LSN_8,
    at: str = "2006-06-30-18.00.52",
    plan: str = '"ASNQC910"',
    segment: str = "0000",
    put: str = "182318000005",
) -> str:
    who = f'10,"{identifier}","2006181","{put}","TEST","{table}","{operation}"'
    return f'{who},"{unit}","{lsn}","{at}",{plan},{segment},{values}'


def in_page(text: str, page: str) -> bytes:
    """A text's bytes in a page, by codecs of Python's own: those it does not have are in `test_code_pages.py`."""
    if page != "cp1047":
        return text.encode(page)
    own = {"^": 0x5F, "[": 0xAD, "¬": 0xB0, "Ý": 0xBA, "¨": 0xBB, "]": 0xBD}
    return b"".join(bytes([own[char]]) if char in own else char.encode("cp037") for char in text)


def feed(container: dict[str, Any], tables: dict[str, Any] = TABLES) -> Feed:
    return Feed.model_validate(
        {
            "feed": "payroll", "description": "-", "owner": "-", "topics": ["t"],
            "exports": {"path": "{topic}/dt={date}/hr={hour}/*"},
            "container": container, "format": {"type": "ibm"}, "tables": tables,
        }
    )  # fmt: skip


MESSAGES = {"type": "kafka_json"}


def records_of(spark: SparkSession, values: dict[str, bytes | None]) -> DataFrame:
    """One Kafka record each; its name as the object."""
    rows = [(name, 1, value, "t", 0, 5, None, None, value, None, None) for name, value in values.items()]
    return spark.createDataFrame(rows, RECORDS)


INSERT = record("ISRT", ',,,,1,"John","ab  ",12.50')
