from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from tidemark.errors import ConfigError
from tidemark.feeds import loading as feeds
from tidemark.feeds.loading import check_feeds, find_feed, load_feed, load_feeds
from tidemark.feeds.model import Feed
from tidemark.feeds.problems import Mistake
from tidemark.formats.contract import DeclaredFeed, DeclaredTable
from tidemark.settings import Settings

GOOD = """\
feed: shop
description: The shop's tables
owner: shop team
topics: [srv.shop.customers, srv.shop.orders]
exports:
  path: '{topic}/dt={date}/hr={hour}/*'
container: {type: kafka_json}
format: {type: debezium}
"""


def write(folder: Path, text: str, name: str = "shop") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, "utf-8")
    return path


def mistakes(folder: Path, text: str, *, deep: bool = False) -> dict[str, Mistake]:
    """The file's mistakes by path."""
    found = feeds._read(write(folder, text), deep).mistakes
    assert len({mistake.path for mistake in found}) == len(found), found
    return {mistake.path: mistake for mistake in found}


def test_a_small_file_loads_with_every_default(tmp_path: Path) -> None:
    feed = load_feed(write(tmp_path, GOOD))
    assert feed.exports.marker == "_SUCCESS"
    assert (feed.exports.settle, feed.transactions.alarm) == (timedelta(minutes=10), timedelta(days=1))
    assert feed.published_name("SHOP.Customers") == "shop.customers"
    assert feed.container_options == type(feed.container_options)()
    assert feed.format_options is feed.format_options


def test_what_decode_reads_of_a_file_is_told_from_the_rest() -> None:
    known = {"feed": "f", "description": "d", "owner": "o", "topics": ["t"], "exports": {"path": "x/{date}/{hour}/*"}}
    table = {"columns": {"id": "int", "n": "int"}}
    file = known | {"container": {"type": "kafka_json"}, "format": {"type": "debezium"}, "tables": {"s.a": table}}

    def decoded_by(**changes: Any) -> str:
        return Feed.model_validate(file | changes).decoded_by

    def of_table(**changes: Any) -> str:
        return decoded_by(tables={"s.a": table | changes})

    same, others = decoded_by(), [
        decoded_by(topics=["t", "u"]), decoded_by(container={"type": "lines"}), decoded_by(undeclared="quarantine"),
        decoded_by(format={"type": "debezium", "unavailable": "gone"}), decoded_by(tables={}), of_table(topic="t"),
        of_table(name="x.y"), of_table(key=["id"]), of_table(key=[]), of_table(earlier_columns=[{"id": "int"}]),
        of_table(columns={"n": "int", "id": "int"}),
    ]  # fmt: skip
    assert len({same, *others}) == 1 + len(others)
    checks = [{"column": "n", "not_null": True}]
    assert {decoded_by(owner="p", on_table_stop="table", cuts="amend"), of_table(checks=checks, parquet=True)} == {same}
    edited: list[dict[str, Any]] = [{}, {"owner": "p"}, {"tables": {"s.a": table | {"checks": checks}}}]
    assert len({Feed.model_validate(file | changes).folded_by for changes in edited}) == len(edited)
    of_feed = {name for name in vars(DeclaredFeed) if not name.startswith("_")}
    assert of_feed == {"feed", "topics", "tables", "undeclared", "container", "container_options"}
    assert {name for name in vars(DeclaredTable) if not name.startswith("_")} == {
        "topic", "key", "columns", "earlier_columns", "all_columns",
    }, "whatever decode reads of the file is part of Feed.decoded_by"  # fmt: skip


KAFKA = """\
feed: shop
description: The shop's tables
owner: shop team
topics: [srv.shop.customers]
exports:
  kafka: {servers: ['broker-1:9092', '[::1]:9093']}
format: {type: debezium}
"""


def test_a_feed_out_of_kafka_has_one_container(tmp_path: Path) -> None:
    feed = load_feed(write(tmp_path, KAFKA))
    assert feed.container == {"type": "kafka_json", "base64": True}
    assert mistakes(tmp_path, KAFKA + "container: {type: kafka_json, base64: true}\n", deep=True) == {}
    found = mistakes(tmp_path, KAFKA + "container: {type: kafka_json}\n", deep=True)
    assert found["container"].problem == "is fixed with `exports.kafka`"


def test_mistakes_of_a_feed_out_of_kafka(tmp_path: Path) -> None:
    def found(more: str) -> dict[str, str]:
        text = KAFKA.replace("9093']}", "9093']" + more + "}")
        return {path: mistake.problem for path, mistake in mistakes(tmp_path, text).items()}

    assert list(mistakes(tmp_path, KAFKA.replace("format:", "  marker: _SUCCESS\nformat:"))) == ["exports.marker"]
    assert "does nothing without `tls: true`" in found(", ca: ca.pem")["exports.kafka"]
    assert "both are needed" in found(", tls: true, key: key.pem")["exports.kafka"]
    assert list(found(", sasl: gssapi, password: x")) == ["exports.kafka.sasl", "exports.kafka.password"]
    both = KAFKA.replace("exports:", "exports:\n  path: '{topic}/{date}/{hour}/*'")
    assert "one of `path` and `kafka`" in mistakes(tmp_path, both)["exports"].problem
    neither = KAFKA.replace("  kafka: {servers: ['broker-1:9092', '[::1]:9093']}", "  wait: 1h")
    assert "one of `path` and `kafka`" in mistakes(tmp_path, neither)["exports"].problem
    for server in ("broker", "broker:0", "http://broker:1", "broker:99999"):
        assert mistakes(tmp_path, KAFKA.replace("broker-1:9092", server)).keys() == {"exports.kafka.servers[0]"}


def test_what_stops_with_a_table_is_the_feed_or_the_table(tmp_path: Path) -> None:
    assert load_feed(write(tmp_path, GOOD)).on_table_stop == "feed"
    assert load_feed(write(tmp_path, GOOD + "on_table_stop: table\n")).on_table_stop == "table"
    assert list(mistakes(tmp_path, GOOD + "on_table_stop: never\n")) == ["on_table_stop"]


def test_tables_of_three_names_that_would_be_one_are_a_mistake(tmp_path: Path) -> None:
    good = mistakes(tmp_path, GOOD + "tables: {ORCL.HR.JOBS: {}, ORCL.CRM.JOBS: {}}\n")
    assert good == {}
    found = mistakes(tmp_path, GOOD + "tables: {ORCL.HR.JOBS: {}, ORCL2.HR.JOBS: {}}\n")
    assert [str(mistake.problem) for mistake in found.values()] == [
        "is published as hr.jobs, as is ORCL.HR.JOBS (letter case does not count)"
    ]


def test_a_calendar_date_without_its_zone_is_a_mistake(tmp_path: Path) -> None:
    text = GOOD.replace("{type: debezium}", "{type: dataworks}") + "tables: {hr.staff: {columns: {HIRED: date}}}\n"
    found = mistakes(tmp_path, text, deep=True)
    assert "`zone: Asia/Shanghai`, or TIMESTAMP" in found["tables.hr.staff.columns.HIRED"].problem
    assert (
        mistakes(tmp_path, text.replace("{type: dataworks}", "{type: dataworks, zone: Asia/Shanghai}"), deep=True) == {}
    )


def test_all_mistakes_of_a_file_are_reported_together(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        """\
feed: shopp
descripton: x
owner: me
start: 2026-11-20T00:30:00Z
schedule: 0 */2 * * *
topics: [a.b, a.b, ../x]
exports: {path: '/data/{topic}/{date}/{hour}/*', settle: 10, missing: fial}
container: {type: kafka_jsn}
format: {}
retries: -1
transactions: {bad: publish}
tables:
  shop.customers:
    key: [id, nope]
    columns: {id: integer, name: text}
    checks:
      - {column: nam, min: [1]}
      - {column: name, min: 5, max: 1}
      - {not_null: true}
      - {column: id}
      - {unique: [id, id], column: id}
      - {column: id, isin: [true, 0001, no]}
      - {column: id, isin: []}
  Shop.Customers: {}
  a;b: {}
  shop.x:
  shop.y: {storage: orc, checks_module: ../x, name: tidemark.x, topic: a.c}
""",
    )
    checks = "tables.shop.customers.checks"
    assert set(found) == {
        "feed", "descripton", "description", "start", "schedule", "topics[1]", "topics[2]", "exports.settle",
        "exports.missing", "container.type", "format.type", "retries", "transactions.bad", "tables.shop.customers.key[1]",
        f"{checks}[0].column", f"{checks}[0].min", f"{checks}[1].min", f"{checks}[2]", f"{checks}[3]", f"{checks}[4]",
        f"{checks}[4].unique[1]", f"{checks}[5].isin[0]", f"{checks}[6].isin", "tables.Shop.Customers", "tables.a;b",
        "tables.shop.x", "tables.shop.y.storage", "tables.shop.y.checks_module", "tables.shop.y.name",
        "tables.shop.y.topic",
    }  # fmt: skip
    assert found["descripton"].fix == "did you mean `description`?"
    assert found["container.type"].fix == "did you mean `kafka_json`?"
    assert found["exports.missing"].expected == "one of fail, empty"
    assert found["transactions.bad"].expected == "one of hold, split"
    assert found[f"{checks}[0].min"].expected == "a valid integer, or a valid number, or a valid string"
    assert found[f"{checks}[0].min"].line == 17
    assert found["format.type"].problem == "is missing"
    with pytest.raises(ConfigError) as raised:
        load_feed(tmp_path / "shop.yaml", deep=False)
    assert all(str(mistake) in str(raised.value) for mistake in found.values())


def test_a_mistake_reads_as_file_line_path_problem_expected_and_fix(tmp_path: Path) -> None:
    (mistake,) = mistakes(tmp_path, GOOD + "retrys: 4\n").values()
    head, expected, fix = str(mistake).split("\n")
    assert head == f"{tmp_path / 'shop.yaml'}:9: retrys: is not a key that is known here"
    assert expected.startswith("  Expected: one of feed, description,")
    assert fix == "  To fix: did you mean `retries`?"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("{topic}/{date}/*", "names the hour"),
        ("{topic}/{hour}/*", "names the hour"),
        ("{topic}/{dat}/{date}/{hour}/*", "no other placeholders"),
        ("{topic}/{date}/{hour}/part.gz", "ends in a pattern"),
        ("{topic}/{date}/{hour}/**", "ends in a pattern"),
        ("{topic}/*/{date}-{hour}*", "only in the last part"),
        ("../{topic}/{date}/{hour}/*", "without empty parts, `.` or `..`"),
        ("{topic}//{date}/{hour}/*", "without empty parts"),
        ("~/{topic}/{date}/{hour}/*", "without `~`"),
        ("gs://bucket/{topic}/{date}/{hour}/*", "or s3://"),
        ("file:///x/{topic}/{date}/{hour}/*", "or s3://"),
        ("s3://B_/{topic}/{date}/{hour}/*", "a bucket's name"),
        ("s3://{topic}/{date}/{hour}/*", "a bucket's name"),
        ("{topic}/{topic.__class__}/{date}/{hour}/*", "no other placeholders"),
    ],
)
def test_path_templates_that_cannot_be_right(tmp_path: Path, path: str, expected: str) -> None:
    found = mistakes(tmp_path, GOOD.replace("{topic}/dt={date}/hr={hour}/*", path))
    assert expected in str(found["exports.path"].expected)


@pytest.mark.parametrize(
    "path", ["{topic}/{date}/{hour}/*", "/a/{topic}/{date}T{hour}/p-?.gz", "s3://buc-ket/x/{topic}/{date}/{hour}/*.gz"]
)
def test_path_templates_local_and_s3(tmp_path: Path, path: str) -> None:
    assert mistakes(tmp_path, GOOD.replace("{topic}/dt={date}/hr={hour}/*", path)) == {}


def test_one_folder_for_all_topics_or_one_marker_for_all_hours_is_a_mistake(tmp_path: Path) -> None:
    found = mistakes(tmp_path, GOOD.replace("{topic}/dt={date}/hr={hour}/*", "all/{date}-{hour}-*"))
    assert set(found) == {"exports.path", "exports.marker"}
    by_hour = GOOD.replace("'{topic}/dt={date}/hr={hour}/*'", "'{topic}/{date}-{hour}-*'\n  marker: '{date}-{hour}.ok'")
    assert mistakes(tmp_path, by_hour) == {}


@pytest.mark.parametrize(
    ("pattern", "topics", "good"),
    [
        ("{topic}.*.json", "shop.orders, shop.orders.items", False),
        ("{topic}.*.json", "shop.orders.items, shop.orders", False),
        ("{topic}*", "shop.orders, shop.orders2", False),
        ("{topic}-*", "shop-a, shop", False),
        ("{topic}=*.json", "shop.orders, shop.orders.items", True),
        ("{topic}.*.json", "shop.orders, shop.ordersitems", True),
        ("{topic}*", "shop.orders, shop.items", True),
    ],
)
def test_topics_whose_objects_names_do_not_tell_them_apart_are_a_mistake(
    tmp_path: Path, pattern: str, topics: str, good: bool
) -> None:
    in_one_folder = GOOD.replace("{topic}/dt={date}/hr={hour}/*", f"{{date}}/{{hour}}/{pattern}")
    given = re.sub(r"topics: \[.*\]", f"topics: [{topics}]", in_one_folder)
    assert topics in given
    assert set(mistakes(tmp_path, given)) == (set() if good else {"exports.path"})
    by_folder = given.replace("{date}/{hour}", "{topic}/{date}/{hour}")
    assert mistakes(tmp_path, by_folder) == {}


def test_yaml_is_read_as_it_is_written(tmp_path: Path) -> None:
    text = """\
tables:
  shop.null:
    columns: {null: integer, on: text, 007: text}
    checks:
      - {column: on, isin: [no, 0001, 12, 2026-11-20, 1_000]}
      - {column: 'null', min: 0.5, max: 10}
"""
    feed = load_feed(write(tmp_path, GOOD + text), deep=False)
    table = feed.tables["shop.null"]
    assert list(table.columns) == ["null", "on", "007"]
    assert table.checks[0].isin == ["no", "0001", 12, "2026-11-20", "1_000"]
    assert (table.checks[1].min, table.checks[1].max) == (0.5, 10)


def test_the_first_hour_is_a_whole_utc_hour(tmp_path: Path) -> None:
    for written in ("2026-11-20T07:00:00Z", "2026-11-20T07", "'2026-11-20T07:00:00+00:00'"):
        assert load_feed(write(tmp_path, GOOD + f"start: {written}\n")).start == datetime(2026, 11, 20, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("feed: [shop\nowner: x\n", r"not YAML: .*\(line 2, column \d+\)"),
        ("feed: a: b\n", r"not YAML: .*\(line 1, column 8\)"),
        ("\tfeed: a\n", r"not YAML: .*\(line 1, column 1\)"),
        ("feed: \x00\n", "not YAML"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: 1\n---\nb: 1\n", "not YAML: expected a single document"),
        ("", "holds no feed"),
        ("- feed\n", "holds no feed"),
        ("? [a]\n: b\n", "a key that is not text"),
        ("feed: &a [*a]\n", "an alias that contains itself"),
        ("feed: !!python/object/apply:os.system [echo]\n", "has a tag"),
        ("feed: !!int x\n", "cannot be read"),
        ("feed: !!bool x\n", "cannot be read"),
        ("tables: !x {}\n", "has a tag, !x"),
        ("feed: !!python/name:os.system x\n", "has a tag"),
    ],
)
def test_what_is_no_plain_yaml_is_a_mistake_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_feed(write(tmp_path, text), deep=False)


def test_a_key_written_twice_is_a_mistake_at_any_depth(tmp_path: Path) -> None:
    found = mistakes(tmp_path, GOOD + "tables:\n  a.b: {key: [x], key: [y]}\nowner: other\n")
    assert found["owner"].problem == "written twice, on lines 3 and 11"
    assert found["tables.a.b.key"].problem == "written twice, on lines 10 and 10"


def test_unreadable_files_are_mistakes(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"feed: caf\xe9")
    (tmp_path / "folder.yaml").mkdir()
    assert [mistake.problem.split(":")[0] for mistake in check_feeds(tmp_path, tmp_path)] == ["cannot be read"] * 2
    assert check_feeds(tmp_path / "none.yaml", tmp_path)[0].problem.startswith("cannot be read")


def test_two_feeds_publish_different_tables_and_have_different_names(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "tables: {shop.Orders: {}}\n")
    write(tmp_path, GOOD.replace("feed: shop", "feed: web") + "tables: {x.y: {name: shop.orders}}\n", "web")
    assert [(m.file.name, m.path) for m in check_feeds(tmp_path, tmp_path)] == [("web.yaml", "tables.x.y")]
    with pytest.raises(ConfigError, match=r"as is a table of shop\.yaml"):
        load_feeds(tmp_path)
    write(tmp_path, GOOD, "web")
    assert [m.problem for m in check_feeds(tmp_path, tmp_path)] == [
        "is 'shop', but the file is web.yaml",
        "'shop' is also the name of the feed in shop.yaml",
    ]


def test_the_table_of_logical_messages_is_one_of_its_feeds_tables(tmp_path: Path) -> None:
    """Also where the file does not list it under `tables`."""
    said = GOOD.replace("{type: debezium}", "{type: debezium, messages: Shop.Messages}")
    write(tmp_path, said)
    write(tmp_path, said.replace("feed: shop", "feed: depot"), "depot")
    (mistake,) = check_feeds(tmp_path, tmp_path)
    assert (mistake.file.name, mistake.path) == ("shop.yaml", "format.messages")
    assert mistake.problem == "is published as shop.messages, as is a table of depot.yaml"
    write(tmp_path, said + "tables: {Shop.Messages: {name: shop.messages_2}}\n")
    assert check_feeds(tmp_path, tmp_path) == []
    write(tmp_path, GOOD + "tables: {s.t: {name: shop.messages}}\n")
    assert [mistake.path for mistake in check_feeds(tmp_path, tmp_path)] == ["tables.s.t"]
    assert list(mistakes(tmp_path, said + "tables: {s.t: {name: shop.messages}}\n")) == ["format.messages"]
    assert list(mistakes(tmp_path, said.replace("Shop.Messages", "tidemark.messages"))) == ["format.messages"]


def test_a_folder_loads_by_name(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("feed: shop", "feed: web"), "web")
    write(tmp_path, GOOD)
    write(tmp_path, "hidden", ".swap")
    assert list(load_feeds(tmp_path)) == ["shop", "web"]
    (tmp_path / "other.yml").write_text(GOOD)
    assert [(m.file.name, m.problem) for m in check_feeds(tmp_path, tmp_path)] == [("other.yml", "is not read")]
    with pytest.raises(ConfigError, match="is not a folder"):
        load_feeds(tmp_path / "nowhere")


def test_find_feed_knows_its_folder_and_guesses(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    settings = Settings(home=tmp_path, feeds=Path())
    assert find_feed("shop", settings).feed == "shop"
    with pytest.raises(ConfigError, match="did you mean `shop`"):
        find_feed("shp", settings)
    for name in ("../shop", "inventory", ""):
        with pytest.raises(ConfigError, match=r"there is no feed .*\n  To fix: "):
            find_feed(name, settings)


def test_deep_holds_blocks_and_column_types_against_their_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")
        code_page: str = "utf-8"

    class OtherOptions(BaseModel):
        code_page: str = "cp037"

    def column_types(columns: dict[str, str], options: BaseModel) -> dict[str, Any]:
        if unknown := [written for written in columns.values() if written != "int"]:
            raise ValueError(f"{unknown[0]!r} is not a type")
        return {}

    format_, container = ModuleType("stub_format"), ModuleType("stub_container")
    format_.Options, format_.column_types = Options, column_types  # type: ignore[attr-defined]
    container.Options = OtherOptions  # type: ignore[attr-defined]
    for name, module in (("FORMATS", format_), ("CONTAINERS", container)):
        monkeypatch.setitem(getattr(feeds, name), "stub", module.__name__)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    stub = GOOD.replace("kafka_json", "stub").replace("debezium", "stub, code_page: cp500")
    text = stub + "tables: {a.b: {columns: {x: int, y: bad, z: worse}}}\n"
    found = mistakes(tmp_path, text, deep=True)
    assert set(found) == {"tables.a.b.columns.y", "tables.a.b.columns.z", "format.code_page"}
    assert found["tables.a.b.columns.z"].problem == "'worse' is not a type"
    assert found["format.code_page"].problem == "is 'cp500', but 'cp037' under `container`"
    assert mistakes(tmp_path, text, deep=False) == {}
    wrong = mistakes(tmp_path, text.replace("code_page", "codepage"), deep=True)
    assert wrong["format.codepage"].fix == "did you mean `code_page`?"
    assert "tables.a.b.columns.y" in wrong, "mistakes in types are reported although the block is wrong"


def test_code_pages_and_catalog_types_of_db2_are_checked(tmp_path: Path) -> None:
    format_ = "{type: ibm, code_page: 939, record_delimiter: '|', source_code_page: klingon}"
    text = GOOD.replace("{type: debezium}", format_) + "tables: {A.B: {columns: {X: VARG(3), Y: DISTINCT}}}\n"
    found = mistakes(tmp_path, text, deep=True)
    assert "Known are utf-8" in str(found["format.source_code_page"])
    assert "declare the type it was made from" in found["tables.A.B.columns.Y"].problem
    assert "tables.A.B.columns.X" not in found
    good_page = mistakes(tmp_path, text.replace("klingon", "943").replace("Y: DISTINCT", "Y: DATE"), deep=True)
    assert "two-byte characters can hold its byte" in str(good_page["format"])
    assert (
        mistakes(
            tmp_path, text.replace("klingon", "943").replace("DISTINCT", "DATE").replace("'|'", '"\\n"'), deep=True
        )
        == {}
    )


def test_tables_whose_rows_nothing_names_are_mistakes(tmp_path: Path) -> None:
    tables = "tables: {s.a: {}, s.b: {key: [id]}, s.c: {key: []}, s.d: {columns: {id: bigint}}}\n"
    found = mistakes(tmp_path, GOOD.replace("kafka_json", "lines") + tables, deep=True)
    assert set(found) == {"tables.s.a", "tables.s.d"}
    assert "does not keep the keys of messages" in found["tables.s.a"].problem
    assert mistakes(tmp_path, GOOD + tables, deep=True) == {}


def test_loading_for_dags_is_cheap(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    code = (
        "import sys; from pathlib import Path; from tidemark.feeds.loading import load_feeds\n"
        f"load_feeds(Path({str(tmp_path)!r}), deep=False)\n"
        "print(*({'pyspark', 'pandera', 'pandas', 'boto3', 'botocore', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_earlier_columns_are_lists_that_can_be_told_apart(tmp_path: Path) -> None:
    text = GOOD.replace("debezium", "ibm") + """\
tables:
  HR.EMP:
    key: [NO]
    columns: {NO: INTEGER, NAME: CHAR(9), PAY: 'DECIMAL(9,2)'}
    earlier_columns:
      - {NO: INTEGER, NAME: CHAR(9)}
      - {NO: INTEGER, TITLE: CHAR(9), PAY: INTEGER}
      - {NO: INTEGER, NAME: CHAR(9), name: CHAR(9), X: CHARR}
      - {NAME: CHAR(9)}
"""  # fmt: skip
    found = mistakes(tmp_path, text, deep=True)
    assert found.pop("tables.HR.EMP.earlier_columns[1]").problem == "has 3 columns, as another list of the table has"
    assert "'CHARR'" in str(found.pop("tables.HR.EMP.earlier_columns[2].X"))
    assert "'name' in several spellings" in str(found.pop("tables.HR.EMP.earlier_columns[2]"))
    assert "'NO' is not a column" in str(found.pop("tables.HR.EMP.earlier_columns[3]"))
    assert found == {}
    good = "\n".join(text.splitlines()[:-3]) + "\n"
    assert list(load_feed(write(tmp_path, good)).tables["HR.EMP"].all_columns) == ["NO", "NAME", "PAY"]


def test_what_could_not_run_is_a_mistake_before_it_runs(tmp_path: Path) -> None:
    """A bound that nothing can be compared with, a pattern that is none, topics and containers that do not fit."""
    text = (
        GOOD.replace("{type: debezium}", "{type: debezium, transactions: shop.tx}")
        + """\
tables:
  shop.orders:
    columns: {id: bigint, at: timestamptz, day: date, price: "numeric(10,2)", name: text, 'on': boolean}
    checks:
      - {column: id, min: abc, max: 5}
      - {column: price, min: 1.5, max: "9"}
      - {column: day, min: 2026-11-20, max: tomorrow}
      - {column: at, min: "2026-11-20 07:00:00"}
      - {column: name, min: 1, pattern: "(a|b"}
      - {column: name, pattern: "[a-z"}
      - {column: name, pattern: '^\\p{Lu}(?<rest>\\Q(\\E.*+)$'}
      - {column: id, isin: [1, "2", one]}
      - {column: name, isin: [one, 2]}
      - {column: day, isin: ["2026-11-20", 5]}
      - {column: 'on', isin: ["true", 1]}
"""
    )
    found = mistakes(tmp_path, text, deep=True)
    checks = "tables.shop.orders.checks"
    assert {path.removeprefix(checks): mistake.problem for path, mistake in found.items()} == {
        "[0].min": "is 'abc', and id is of type bigint",
        "[1].max": "is '9', and price is of type decimal(10,2)",
        "[2].max": "is 'tomorrow', and day is of type date",
        "[4].min": "is 1, and name is of type string",
        "[4].pattern": "is no regular expression: missing ), unterminated subpattern at position 0",
        "[5].pattern": "is no regular expression: unterminated character set at position 0",
        "[7].isin[2]": "is 'one', and id is of type bigint",
        "[8].isin[1]": "is 2, and name is of type string",
        "[9].isin[1]": "is 5, and day is of type date",
        "[10].isin[1]": "is 1, and on is of type boolean",
        "format.transactions": "holds 'shop.tx'",
    }
    found = mistakes(tmp_path, GOOD.replace("{type: kafka_json}", "{type: raw}"))
    assert list(found) == ["container.type"] and "`raw` is IBM's records" in found["container.type"].problem


def test_topics_of_tables_of_one_name_in_two_databases_are_a_mistake(tmp_path: Path) -> None:
    topics = "[s.sales.dbo.orders, s.sales.dbo.customers, s.audit.dbo.orders]"
    text = GOOD.replace("[srv.shop.customers, srv.shop.orders]", topics)
    assert text != GOOD
    assert mistakes(tmp_path, text) == {}
    found = mistakes(tmp_path, text.replace("{type: debezium}", "{type: debezium, connector: sqlserver}"))
    assert list(found) == ["topics[2]"]
    assert "carries dbo.orders, as s.sales.dbo.orders does" in found["topics[2]"].problem


def test_a_placeholder_in_hexadecimal_has_two_digits_for_each_byte(tmp_path: Path) -> None:
    for wrong in ("hex:", "hex:4e4", "hex:4x", "hex:4e 4f"):
        found = mistakes(tmp_path, GOOD.replace("debezium}", f"debezium, unavailable: '{wrong}'}}"), deep=True)
        assert list(found) == ["format.unavailable"] and "two hexadecimal digits" in str(found["format.unavailable"]), (
            wrong
        )
        of_oracle = GOOD.replace("debezium}", f"debezium, connector: oracle, unavailable: '{wrong}'}}")
        assert mistakes(tmp_path, of_oracle, deep=True) == {}, "to that connector it is a text"
    assert mistakes(tmp_path, GOOD.replace("debezium}", "debezium, unavailable: 'hex:4E4f'}"), deep=True) == {}


def test_a_module_of_checks_is_there_and_has_the_class(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text("raise SystemExit\nclass Orders: ...\n")
    (tmp_path / "broken.py").write_text("class Broken(:\n")
    tables = {"a": "order:Orders", "b": "orders:Order", "c": "orders:Orders", "d": "broken:Broken"}
    listed = "".join(f"  shop.{name}: {{checks_module: '{named}'}}\n" for name, named in tables.items())
    found = check_feeds(write(tmp_path, GOOD + "tables:\n" + listed), tmp_path)
    assert [(mistake.path, mistake.problem.split(":")[0], mistake.fix) for mistake in found] == [
        ("tables.shop.a.checks_module", f"names order.py, which is not in {tmp_path}", "did you mean `orders`?"),
        ("tables.shop.b.checks_module", f"names the class Order, which is not in {tmp_path / 'orders.py'}",
         "did you mean `Orders`?"),
        ("tables.shop.d.checks_module", f"names {tmp_path / 'broken.py'}, which is no Python module", None),
    ]  # fmt: skip
    assert all(mistake.line for mistake in found)
