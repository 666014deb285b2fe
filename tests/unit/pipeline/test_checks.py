"""Checks: the plan of a table, and that the Spark condition of a check fails on the rows that pandera fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pandera.pyspark as pa
import pytest
from hypothesis import HealthCheck, given, seed
from hypothesis import settings as examples
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import CheckError, ConfigError
from tidemark.feeds.model import Table
from tidemark.pipeline.checks import (
    PlannedCheck,
    conditions_of,
    fails,
    judge,
    model_fails,
    plan_checks,
    quarantine_checks,
    wrong_types,
)
from tidemark.settings import Settings

MODEL = """
import pandera.pyspark as pa
from pyspark.sql import types as T

class Accounts(pa.DataFrameModel):
    balance: T.LongType() = pa.Field(ge=0, lt=100, nullable=True, metadata={"consequence": "quarantine"})
    owner: T.StringType() = pa.Field(nullable=False)

    class Config:
        unique = ["owner", "balance"]
        metadata = {"consequence": "warn"}

    @pa.dataframe_check
    def few(cls, rows):
        return rows.count() < 3

class NoModel:
    pass
"""

NUMBERS = {
    "greater_than_or_equal_to": pa.Check.greater_than_or_equal_to,
    "greater_than": pa.Check.greater_than,
    "less_than_or_equal_to": pa.Check.less_than_or_equal_to,
    "less_than": pa.Check.less_than,
    "equal_to": pa.Check.equal_to,
    "not_equal_to": pa.Check.not_equal_to,
}
FEW = st.integers(-2, 2)
TEXTS = st.text("ab.", max_size=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("checks")
    (home / "checks").mkdir()
    (home / "checks/accounts.py").write_text(MODEL)
    (home / "outside.py").write_text(MODEL)
    (home / "checks/link.py").symlink_to(home / "outside.py")
    yield home


def settings_of(home: Path) -> Settings:
    return Settings(home=home, checks="checks")


def planned(*checks: dict[str, Any]) -> list[PlannedCheck]:
    return plan_checks("s.t", Table.model_validate({"checks": list(checks)}), Settings()).checks


def test_a_plan_from_yaml_has_a_check_per_rule_and_uniqueness_apart() -> None:
    table = Table.model_validate(
        {
            "checks": [
                {"column": "n", "not_null": True, "min": 1, "max": 9, "consequence": "warn"},
                {"column": "kind", "isin": ["a", "b"], "consequence": "quarantine"},
                {"column": "code", "pattern": "^[a-z]+$"},
                {"unique": ["n", "kind"], "consequence": "warn"},
            ]
        }
    )
    plan = plan_checks("s.t", table, Settings())
    assert [(str(check), check.consequence) for check in plan.checks] == [
        ("n is not null", "warn"),
        ("n >= 1", "warn"),
        ("n <= 9", "warn"),
        ("kind in ['a', 'b']", "quarantine"),
        ("code matches ^[a-z]+$", "stop"),
    ]
    assert plan.unique == [(["n", "kind"], "warn")] and plan.models == []
    assert plan.columns == {"n", "kind", "code"} and not plan.empty
    assert plan_checks("s.t", Table(), Settings()).empty


def test_a_plan_from_a_model_has_its_columns_checks_with_their_consequences(folder: Path) -> None:
    table = Table.model_validate({"checks_module": "accounts:Accounts"})
    plan = plan_checks("s.t", table, settings_of(folder))
    kinds = [(check.column, check.rule and check.rule.name, check.consequence) for check in plan.checks]
    assert sorted(kinds, key=str) == [
        ("balance", "greater_than_or_equal_to", "quarantine"),
        ("balance", "less_than", "quarantine"),
        ("owner", None, "stop"),
    ]
    assert plan.unique == [(["owner", "balance"], "warn")]
    assert [consequence for _, consequence in plan.models] == ["warn"]


def test_a_models_own_check_judges_whole_rows(folder: Path, spark: SparkSession) -> None:
    ((schema, _),) = plan_checks(
        "s.t", Table.model_validate({"checks_module": "accounts:Accounts"}), settings_of(folder)
    ).models
    assert model_fails(spark.range(2), schema) is None
    found = model_fails(spark.range(3), schema)
    assert found == "the model Accounts fails: few"


@pytest.mark.parametrize("name", ["missing:Accounts", "accounts:Missing", "accounts:NoModel", "link:Accounts"])
def test_a_model_that_is_not_in_the_checks_folder_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"checks_module {name!r}"):
        plan_checks("s.t", Table.model_validate({"checks_module": name}), settings_of(folder))


@pytest.mark.parametrize(
    "name", ["../outside:Accounts", "/etc/passwd:Accounts", "a.b:Accounts", "checks/accounts:Accounts"]
)
def test_a_models_module_is_a_name_and_no_path(folder: Path, name: str) -> None:
    table = Table.model_construct(checks=[], checks_module=name)  # the feed file refuses it before
    with pytest.raises(ConfigError, match="in the checks folder"):
        plan_checks("s.t", table, settings_of(folder))


@st.composite
def checks_and_values(draw: st.DrawFn) -> tuple[str, pa.Check | None, list[Any]]:
    """A check that can quarantine, and the values of a column that it is made on: (their type, check, values)."""
    kind = draw(st.sampled_from([*NUMBERS, "isin", "notin", "null", "pattern", "str_matches", "str_contains"]))
    if kind in NUMBERS:
        return "bigint", NUMBERS[kind](draw(FEW)), draw(st.lists(st.none() | FEW, max_size=4))
    if kind in ("isin", "notin"):
        allowed = draw(st.lists(FEW, min_size=1, max_size=3, unique=True))
        return "bigint", getattr(pa.Check, kind)(allowed), draw(st.lists(st.none() | FEW, max_size=4))
    values = draw(st.lists(st.none() | TEXTS, max_size=4))
    if kind == "null":
        return "string", None, values
    pattern = draw(st.sampled_from(["a", "^a", "b$", "a|b", "^a+$", r"a\.", "[^a]"]))
    if kind == "pattern":
        (check,) = planned({"column": "value", "pattern": pattern})
        return "string", check.rule, values
    return "string", getattr(pa.Check, kind)(pattern), values


@seed(15)
@examples(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(checks_and_values())
def test_the_condition_of_a_check_fails_on_the_rows_that_pandera_fails(
    spark: SparkSession, case: tuple[str, pa.Check | None, list[Any]]
) -> None:
    type_, rule, values = case
    check = PlannedCheck("value", rule, "quarantine")
    rows = rows_of(spark, type_, values)
    failed = {row["n"] for row in rows.where(fails(check, "s.t")(F.col("value"))).collect()}
    passed = rows.where(~F.col("n").isin(list(failed))) if failed else rows
    assert judge(passed, [check]) == []
    for number in failed:
        assert judge(rows.where(F.col("n") == number), [check]) == [check]


def rows_of(spark: SparkSession, type_: str, values: list[Any]) -> DataFrame:
    """Rows ``n``, ``value``: literals, so that no Python worker is started for them."""
    listed = F.array(*(F.lit(value).cast(type_) for value in values)).cast(f"array<{type_}>")
    return spark.range(1).select(F.posexplode(listed).alias("n", "value"))


def test_a_check_that_no_condition_stands_for_cannot_quarantine() -> None:
    check = PlannedCheck("value", pa.Check(lambda data: True, name="own", error="its own"), "quarantine")
    with pytest.raises(ConfigError, match=re.escape("check value its own cannot quarantine")):
        fails(check, "s.t")


def test_a_check_that_does_not_fit_its_columns_type_is_refused(spark: SparkSession) -> None:
    with pytest.raises(CheckError, match="cannot be made on a column of type"):
        judge(rows_of(spark, "boolean", [True]), planned({"column": "value", "min": 1}))


@pytest.mark.parametrize(
    ("check", "fails"),
    [
        ({"min": "2026-01-01"}, False), ({"max": "2026-01-01"}, True), ({"isin": ["2026-11-20 07:00:00"]}, False),
        ({"isin": ["2026-11-21"]}, True), ({"pattern": "^2026.*:00$"}, False), ({"not_null": True}, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("type_", ["timestamp", "timestamp_ntz"])
def test_a_time_is_judged_with_a_zone_and_without(
    spark: SparkSession, type_: str, check: dict[str, Any], fails: bool
) -> None:
    planned_checks = planned({"column": "value", **check})
    assert bool(judge(rows_of(spark, type_, ["2026-11-20 07:00:00"]), planned_checks)) is fails


@pytest.mark.parametrize(
    ("type_", "check", "why"),
    [
        ("int", {"isin": ["1", "a"]}, "'a' is no value of it"), ("int", {"min": "abc"}, "'abc' is no value of it"),
        ("timestamp_ntz", {"max": "not a time"}, "'not a time' is no value of it"),
        ("timestamp_ntz", {"max": "2026-11-20T12:00:00+08:00"}, "has a zone"),
        ("timestamp_ntz", {"isin": ["2026-11-20 12:00:00", "2026-11-20 12:00Z"]}, "'2026-11-20 12:00Z' has a zone"),
        ("date", {"min": "2026-11-20 12:00:00"}, "'2026-11-20 12:00:00' has a time"),
        ("date", {"min": 5}, "DATATYPE_MISMATCH"), ("boolean", {"isin": [1]}, "DATATYPE_MISMATCH"),
        ("array<string>", {"isin": ["a"]}, "DATATYPE_MISMATCH"), ("array<string>", {"pattern": "a"}, "DATATYPE_MISMATCH"),
        ("string", {"isin": ["a", 1]}, "write them in quotes"), ("string", {"min": "a"}, "have an order"),
        ("string", {"pattern": r"\\p{none}"}, "PATTERN"), ("decimal(9,2)", {"max": "NaN"}, "'NaN' is no value of it"),
        ("decimal(20,4)", {"max": 1234567890123456.7890}, "write it in quotes"),
        ("decimal(38,0)", {"min": 10**39}, "DECIMAL_PRECISION"), ("date", {"min": 10**19}, "DATATYPE_MISMATCH"),
    ],
)  # fmt: skip
def test_a_check_that_its_columns_type_does_not_fit_is_told(
    spark: SparkSession, type_: str, check: dict[str, Any], why: str
) -> None:
    before = spark.sparkContext._jsc.sc().dagScheduler().nextJobId()
    with pytest.raises(CheckError, match=f"column of type {re.escape(type_)}: .*{re.escape(why)}"):
        conditions_of(planned({"column": "value", **check}), {"value": type_})
    assert spark.sparkContext._jsc.sc().dagScheduler().nextJobId() == before


@pytest.mark.parametrize(
    ("type_", "value", "passes", "check"),
    [
        ("decimal(20,0)", "9007199254740993", "9007199254740992", {"max": "9007199254740992"}),
        ("decimal(20,0)", "9007199254740993", "9007199254740992", {"isin": ["9007199254740992"]}),
        ("decimal(20,2)", "123456789012345678.99", "123456789012345678.98", {"max": "123456789012345678.98"}),
        ("decimal(38,18)", "1.000000000000000001", "1", {"max": "1"}), ("decimal(38,18)", "-0.1", "0.1", {"min": 0.1}),
        ("decimal(38,0)", f"{10**19}", f"{10**19 + 1}", {"min": 10**19 + 1}),
        ("decimal(38,0)", f"{10**19}", f"{10**19 + 1}", {"isin": [10**19 + 1]}),
        ("bigint", -(2**63), 2**63 - 1, {"min": -(2**63) + 1, "max": 10**19}), ("double", 1e20, 1e18, {"max": 10**19}),
    ],
)  # fmt: skip
def test_a_number_is_compared_with_its_limit_digit_by_digit(
    spark: SparkSession, type_: str, value: Any, passes: Any, check: dict[str, Any]
) -> None:
    checks = planned({"column": "value", **check, "consequence": "quarantine"})
    failing, passing = rows_of(spark, type_, [value]), rows_of(spark, type_, [passes])
    assert (len(judge(failing, checks)), judge(passing, checks)) == (1, [])
    declared = Table.model_validate({"checks": [{"column": "value", **check, "consequence": "quarantine"}]})
    screened = quarantine_checks("s.t", declared, {"value": type_}, Settings())["value"]
    for conditions in (
        conditions_of(checks, {"value": type_}).values(),
        [condition(F.col("value")) for _, condition in screened],
    ):
        fails_any = reduce(or_, conditions)
        assert (failing.where(fails_any).count(), passing.where(fails_any).count()) == (1, 0)


@pytest.mark.parametrize("check", [{"not_null": True}, {"min": 0}])
def test_a_columns_name_may_have_a_dot(spark: SparkSession, check: dict[str, Any]) -> None:
    checks = planned({"column": "a.b", **check})
    rows = rows_of(spark, "int", [None if "not_null" in check else -1]).withColumnRenamed("value", "a.b")
    assert (judge(rows, checks), judge(rows.limit(0), checks)) == (checks, [])


def test_checks_that_fit_their_columns_type_are_made(spark: SparkSession) -> None:
    fitting: list[tuple[str, Any, dict[str, Any]]] = [
        ("tinyint", 1, {"max": 1000}), ("int", 5, {"isin": ["5"]}), ("int", 5, {"pattern": "^5$"}), ("int", 5, {"min": 1.5}),
        ("decimal(10,2)", "5.10", {"min": "1", "isin": ["5.1"], "max": 1e30}), ("boolean", True, {"isin": ["true"]}),
        ("date", "2026-11-20", {"min": "2026-01-01", "isin": ["2026-11-20"], "pattern": "^2026"}),
        ("binary", b"hello", {"isin": ["hello"], "pattern": "^h"}), ("string", "a", {"isin": ["a", "b"]}),
    ]  # fmt: skip
    for type_, value, check in fitting:
        checks, rows = planned({"column": "value", **check}), rows_of(spark, type_, [value])
        conditions = conditions_of(checks, {"value": type_})
        assert judge(rows, checks) == [], type_
        assert rows.where(reduce(or_, conditions.values())).isEmpty(), type_


def test_a_models_own_check_may_have_the_name_of_a_built_in_one(spark: SparkSession) -> None:
    own = PlannedCheck("value", pa.Check(lambda rows: rows.where("value > 1").isEmpty(), name="isin"), "stop")
    assert conditions_of([own], {"value": "bigint"}) == {}
    assert [judge(rows_of(spark, "bigint", [value]), [own]) for value in (1, 2)] == [[], [own]]


def test_what_names_a_column_that_is_not_there_is_no_part_of_what_can_be_made() -> None:
    checks = [{"column": "n", "min": 1}, {"column": "later", "min": 1}, {"unique": ["n", "last"]}, {"unique": ["n"]}]
    plan, missing = plan_checks("s.t", Table.model_validate({"checks": checks}), Settings()).on(
        {"n": "int", "id": "bigint"}
    )
    assert [check.column for check in plan.checks] == ["n"] and plan.unique == [(["n"], "stop")]
    assert missing == ["last", "later"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import no_such_module", "m.py cannot be run: ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "class M(pa.DataFrameModel):\n    n: int = pa.Field(unique=True)",
            "m.py cannot be run: SchemaInitError: unique",
        ),
        ("class M(pa.DataFrameModel):\n    n: list = pa.Field()", "pandera refuses it: "),
        (
            "class M(pa.DataFrameModel):\n    n: int = pa.Field(alias='n.*', regex=True)",
            "n.* stands for several columns (regex)",
        ),
        ("class M(pa.DataFrameModel):\n    n: int = pa.Field(coerce=True)", "n says `coerce`"),
        ("class M(pa.DataFrameModel):\n    n: int = pa.Field(ge=1, raise_warning=True)", "n says `raise_warning`"),
        (
            "class M(pa.DataFrameModel):\n    n: int = pa.Field(metadata={'consequence': 'warning'})",
            "the consequence 'warning'",
        ),
        *(
            (
                f"class M(pa.DataFrameModel):\n    n: int\n    class Config:\n        {option} = {value}",
                f"its Config says `{option}`",
            )
            for option, value in {"strict": "True", "ordered": "True", "coerce": "True", "dtype": "int"}.items()
        ),
        (
            "class M(pa.DataFrameModel):\n    n: int\n    class Config:\n        metadata = {'consequence': 'quarantine'}",
            "the consequence 'quarantine' in its Config",
        ),
    ],
)
def test_a_model_that_cannot_be_used_is_told(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks/m.py").write_text(f"import pandera.pyspark as pa\n{text}\n")
    with pytest.raises(ConfigError, match=re.escape(f"table s.t: checks_module 'm:M': {why}")):
        plan_checks("s.t", Table.model_validate({"checks_module": "m:M"}), settings_of(tmp_path))


def test_a_check_that_raises_is_not_a_check_that_fails(spark: SparkSession) -> None:
    own = pa.Check(lambda data: 1 / 0, name="own")
    with pytest.raises(CheckError, match=r"check value own cannot be made .*: ZeroDivisionError"):
        judge(rows_of(spark, "bigint", [1]), [PlannedCheck("value", own, "warn")])
    with pytest.raises(CheckError, match=r"whole rows of orders cannot be made: .*ZeroDivisionError.*by zero.\)\n"):
        model_fails(spark.range(1), pa.DataFrameSchema(checks=own, name="orders"))


def test_columns_of_another_type_than_declared_are_reported(spark: SparkSession) -> None:
    rows = rows_of(spark, "bigint", [1])
    assert wrong_types(rows, {"value": "bigint"}) is None
    assert wrong_types(rows, {}) is None
    found = wrong_types(rows, {"value": "string"})
    assert found is not None and "value" in found
    found = wrong_types(rows, {"missing": "string"})
    assert found is not None and "missing" in found


def test_pandera_switched_off_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark.pipeline.checks.CONFIG.validation_enabled", False)
    with pytest.raises(ConfigError, match="switched off or shallow"):
        judge(rows_of(spark, "bigint", [1]), planned({"column": "value", "min": 1}))
