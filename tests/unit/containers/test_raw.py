"""Records back to back: where each begins and ends, byte for byte, and what decoding makes of the order."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession

from tidemark.containers import raw
from tidemark.containers.contract import RECORDS, Contents
from tidemark.feeds.model import Feed
from tidemark.formats.ibm import decode as ibm

OPTIONS = raw.Options()


def record(
    values: str = ',,1,"x"', *, unit: int = 1, segment: str = "0000", put: int = 5, op: str = "ISRT", table: str = "T"
) -> str:
    return (
        f'10,"IBM","2006181","{put:012}","TEST","{table}","{op}","0000:0000:0000:0000:{unit:04x}",'
        f'"0000:0000:0000:0000:{unit:04x}","2006-06-30-18.00.52",,{segment},{values}'
    )


def read(spark: SparkSession, objects: dict[Path, bytes], options: raw.Options = OPTIONS) -> dict[str, list[bytes]]:
    """The records of objects by file name, in order; numbered from 1 without gaps."""
    for path, content in objects.items():
        path.write_bytes(content)
    rows = raw.read(spark, [str(path) for path in objects], options).orderBy("object", "record").collect()
    found: dict[str, list[bytes]] = {path.name: [] for path in objects}
    for row in rows:
        assert Path(row.object) in objects
        assert row.value == row.raw
        found[Path(row.object).name].append(bytes(row.raw))
        assert row.record == len(found[Path(row.object).name])
    return found


def test_records_of_every_kind_of_object(spark: SparkSession, tmp_path: Path) -> None:
    embedded = record(',,1,"two\nlines, ""quoted""\n\nand an empty one"')
    plain = "\n".join([record(), embedded, record()]).encode()
    is_open = record(',,1,"open\nstill open')
    stray = "\n".join(["before", record(), "after", is_open, record(), "", "", "end\r"]).encode()
    objects = {
        tmp_path / "plain.del": plain,
        tmp_path / "ended.del": plain + b"\n",
        tmp_path / "g.del.gz": gzip.compress(plain),
        tmp_path / "z.del.zst": zstandard.compress(plain),
        tmp_path / "odd [n]ame+%41 é.del": plain,
        tmp_path / "stray.del": stray,
        tmp_path / "cut.del": "\n".join([record()[:-2], record(), record()[:20], record()]).encode(),
        tmp_path / "empty.del": b"",
        tmp_path / "feeds.del": b"\n\n\n",
        tmp_path / "bytes.del": record().encode().replace(b"x", b"\xff\x00\xe9") + b"\n\xfe\n",
    }
    found = read(spark, objects)
    three = [record().encode(), embedded.encode(), record().encode()]
    for name in ("plain.del", "ended.del", "g.del.gz", "z.del.zst", "odd [n]ame+%41 é.del"):
        assert found[name] == three, name
    assert found["stray.del"] == [
        b"before", record().encode(), b"after", is_open.encode(), record().encode(), b"end\r",
    ]  # fmt: skip
    assert found["cut.del"] == [r.encode() for r in (record()[:-2], record(), record()[:20], record())]
    assert found["empty.del"] == found["feeds.del"] == []
    assert found["bytes.del"] == [record().encode().replace(b"x", b"\xff\x00\xe9"), b"\xfe"]


def test_ebcdic_records_end_with_x25(spark: SparkSession, tmp_path: Path) -> None:
    one, two = record(',,1,"a\nb"').encode("cp037"), record().encode("cp037")  # where cp1047 is the same
    assert read(spark, {tmp_path / "e.del": one + b"\x25" + two + b"\x25"}, raw.Options(code_page="cp1047")) == {
        "e.del": [one, two]
    }


def test_any_byte_can_delimit_records(spark: SparkSession, tmp_path: Path) -> None:
    options = raw.Options(code_page="latin-1", record_delimiter="§", column_delimiter=";", string_delimiter="'")
    one = record().replace(",", ";").replace('"', "'").replace("x", "a§é").encode("latin-1")
    assert read(spark, {tmp_path / "s.del": one + b"\xa7" + one}, options) == {"s.del": [one, one]}


def test_no_objects(spark: SparkSession) -> None:
    records = raw.read(spark, [], OPTIONS)
    assert records.schema.names == RECORDS.names
    assert records.collect() == []


_pieces = st.lists(
    st.sampled_from(
        [record().encode(), b"\n", b'"', b'""', b",", b"x", b'\n10,"IBM","2006181","000000000005",', b"\xff\r"]
    ),
    max_size=25,
)


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(contents=st.lists(_pieces.map(b"".join), min_size=10, max_size=40))
def test_no_byte_is_lost(spark: SparkSession, tmp_path: Path, contents: list[bytes]) -> None:
    objects = {tmp_path / f"{i}.del": content for i, content in enumerate(contents)}
    for name, records in read(spark, objects).items():
        kept = b"".join(records).replace(b"\n", b"")
        assert kept == objects_of(objects, name).replace(b"\n", b"")
        assert all(records)


def objects_of(objects: dict[Path, bytes], name: str) -> bytes:
    return next(content for path, content in objects.items() if path.name == name)


ONE, TWO, BROKEN = record().encode(), record(',,1,"an ""open"" é, end').encode(), record(',,1,"two\nlines"').encode()
PLAIN = {
    "empty.del": b"", "one.del": ONE, "ended.del": ONE + b"\n", "open.del": TWO + b"\n" + ONE + b"\n" + TWO,
    "bytes.del": ONE.replace(b"x", b"\xff\x00") + b"\n" + ONE,
}  # fmt: skip
OTHERS = {
    "empty_piece.del": ONE + b"\n\n" + ONE, "first.del": b"\n" + ONE, "last.del": ONE + b"\n\n",
    "lines.del": ONE + b"\n" + BROKEN + b"\n" + ONE, "stray.del": ONE + b"\nstray\n" + ONE, "begun.del": ONE + b"\n10,",
    "space.del": b" " + ONE, "return.del": ONE + b"\n\r" + ONE,
}  # fmt: skip


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_landing_sees_whether_each_piece_is_a_record(step: int) -> None:
    def inspected(content: bytes) -> Contents:
        return raw.inspect((content[at : at + step] for at in range(0, len(content), step)), OPTIONS)

    for plain, contents in ((True, PLAIN), (False, OTHERS)):
        for name, content in contents.items():
            assert inspected(content) == Contents(None, plain), name


def test_landing_knows_a_header_in_other_pages_and_with_other_delimiters() -> None:
    one = record().encode("cp037")  # where cp1047 is the same
    ebcdic = raw.Options(code_page="cp1047")
    assert raw.inspect(iter([one + b"\x25" + one]), ebcdic).plain
    assert not raw.inspect(iter([one + b"\x25x" + one]), ebcdic).plain
    other = raw.Options(code_page="latin-1", record_delimiter="§", column_delimiter=";", string_delimiter="'")
    one = record().replace(",", ";").replace('"', "'").encode("latin-1")
    assert raw.inspect(iter([one + b"\xa7" + one]), other).plain
    assert not raw.inspect(iter([ONE]), other).plain


def test_a_piece_without_end_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "_LONGEST", len(ONE))
    assert raw.inspect(iter([ONE[:-1]]), OPTIONS).plain and not raw.inspect(iter([ONE]), OPTIONS).plain


def test_plain_objects_read_the_same_without_a_look(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in PLAIN]
    found = read(spark, dict(zip(paths, PLAIN.values(), strict=True)))

    def rows(*, plain: bool) -> list[Row]:
        return raw.read(spark, [*map(str, paths)], OPTIONS, plain=plain).orderBy("object", "record").collect()

    assert rows(plain=True) == rows(plain=False) and sum(map(len, found.values())) == 7
    plan = raw.read(spark, [*map(str, paths)], OPTIONS, plain=True)._jdf.queryExecution().optimizedPlan().toString()
    assert "Window" not in plan and "Aggregate" not in plan


FEED = Feed.model_validate(
    {
        "feed": "payroll", "description": "-", "owner": "-", "topics": ["t"],
        "exports": {"path": "{topic}/dt={date}/hr={hour}/*"}, "container": {"type": "raw"}, "format": {"type": "ibm"},
        "tables": {
            "TEST.T": {"key": ["ID"], "columns": {"ID": "INTEGER", "V": "VARCHAR(9)"}},
            "TEST.NOKEY": {"columns": {"ID": "INTEGER", "V": "VARCHAR(9)"}},
        },
    }
)  # fmt: skip
A, B, C = (record(f',,{n},"v"', put=n) for n in (1, 2, 3))
TWIN = record(',,1,"v"', put=5, table="NOKEY")


def again(text: str, put: int) -> str:
    """The same record, put on the queue again."""
    fields = text.split(",")
    fields[3] = f'"{put:012}"'
    return ",".join(fields)


# name: records of an object, and the index each must get.
ORDERS: dict[str, tuple[list[str], list[int | None]]] = {
    "one message": ([A, B, C], [0, 1, 2]),
    "delivered twice": ([A, B, C, A, B, C], [0, 1, 2, 0, 1, 2]),
    "delivered three times": ([A, A, A], [0, 0, 0]),
    "put again": ([A, B, again(A, 70), again(B, 71)], [0, 1, 0, 1]),
    "again after another": ([A, B, record(unit=9), A, B], [0, 1, 0, 0, 1]),
    "a change made twice": ([A, B, A], [0, 1, 2]),
    "nearly the same twice": ([A, B, C, A, record(',,9,"v"'), C], [0, 1, 2, 3, 4, 5]),
    "twice with a repetition": ([A, A, B, A, A, B], [0, 1, 2, 0, 1, 2]),
    "ends like it begins, twice": ([A, B, B, A, A, B, B, A], [0, 1, 2, 3, 0, 1, 2, 3]),
    "segments": (
        [record(segment="0001"), record(segment="0001", put=6), record(segment="0002"), record()],
        [0, 0, 0, 0],
    ),
    "equal rows of a table without key": ([TWIN, again(TWIN, 6)], [0, 1]),
    "one row without key, delivered twice": ([TWIN, TWIN], [0, 0]),
    "stray line inside": ([A, "stray", C], [0, None, 2]),
    "stray line behind two deliveries": ([A, B, A, B, "stray"], [0, 1, 0, 1, None]),
    "stray line inside one delivery of two": ([A, "stray", C, A, B, C], [0, None, 2, 0, 1, 2]),
    "bad record inside": ([A, record(",,1"), C], [0, 1, 2]),
}


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    folder = tmp_path_factory.mktemp("orders")
    for name, (records, _) in ORDERS.items():
        (folder / name).write_text("\n".join(records) + "\n")
    records = raw.read(spark, [str(folder / name) for name in ORDERS], OPTIONS)
    rows = ibm.decode(records, FEED, FEED.format_options).orderBy("object", "record").collect()
    return {name: [row for row in rows if Path(row.object).name == name] for name in ORDERS}


@pytest.mark.parametrize("name", ORDERS)
def test_index_does_not_depend_on_delivery(decoded: dict[str, list[Row]], name: str) -> None:
    indexes = [row.position and int(row.position.split(".")[2]) for row in decoded[name]]
    assert indexes == ORDERS[name][1]
