"""Checks: those in a feed's YAML and those of pandera models in the checks folder, as one plan per table.

pandera judges the rows that an hour writes. It cannot judge one change before it is folded, so for the consequence
*quarantine* the same check is also written as a Spark condition (:func:`fails`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

# When pandera is imported first, it sets this to 127.0.0.1 (its issue 2344), and a cluster cannot reach its driver.
os.environ.setdefault("SPARK_LOCAL_IP", os.environ.get("SPARK_LOCAL_HOSTNAME", "127.0.0.1"))

import pandera.pyspark as pa
from pandera.api.function_dispatch import Dispatcher
from pandera.config import CONFIG, ValidationDepth
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.errors import CheckError, ConfigError
from tidemark.feeds.model import Check, Table
from tidemark.identifiers import quote
from tidemark.settings import Settings

#: Checks that need values with an order, as pandera has it: numbers, dates and times.
_IN_ORDER = ("greater_than_or_equal_to", "greater_than", "less_than_or_equal_to", "less_than")


@dataclass(frozen=True)
class PlannedCheck:
    """One check of a column."""

    column: str
    """The column's name."""
    rule: pa.Check | None
    """pandera's check; None: no null is allowed."""
    consequence: str
    """What a failure does: stop, quarantine or warn."""

    def __str__(self) -> str:
        return f"{self.column} {self.rule.error or self.rule.name if self.rule else 'is not null'}"

    def on(self, kind: str) -> PlannedCheck:
        """The check with limits that are compared digit by digit with a column of this type. Spark compares a decimal with a
        text, or with a fraction, as doubles."""
        if self.rule is None or not _is_condition(self) or self.rule.name in _OF_TEXT:
            return self
        type_, limits = _type_of(kind), dict(self.rule.statistics or {})
        exact = {
            name: [_exact(one, type_) for one in limit] if name.endswith("_values") else _exact(limit, type_)
            for name, limit in limits.items()
        }
        return replace(self, rule=getattr(pa.Check, str(self.rule.name))(*exact.values(), error=self.rule.error))


@dataclass(frozen=True)
class Plan:
    """All checks of a table."""

    checks: list[PlannedCheck]
    """The checks of columns: those of the feed file first, then those of the pandera model."""
    unique: list[tuple[list[str], str]]
    """Columns that together are unique, each time with the consequence. They are judged over the whole table."""
    models: list[tuple[pa.DataFrameSchema, str]]
    """pandera models with checks of whole rows, which no column owns, each with the consequence."""

    @property
    def columns(self) -> set[str]:
        """The columns that checks and uniqueness name; a model may look at any column."""
        return {check.column for check in self.checks} | {name for columns, _ in self.unique for name in columns}

    def on(self, columns: Collection[str]) -> tuple[Plan, list[str]]:
        """What can be made of it on a table of these columns, and the columns that it names and the table does not have."""
        checks = [check for check in self.checks if check.column in columns]
        unique = [(names, consequence) for names, consequence in self.unique if set(names) <= set(columns)]
        return replace(self, checks=checks, unique=unique), sorted(self.columns - set(columns))

    @property
    def size(self) -> int:
        """The number of checks; of a model, its checks of whole rows are one."""
        return len(self.checks) + len(self.unique) + len(self.models)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to check."""
        return self.size == 0


def plan_checks(table: str, declared: Table, settings: Settings) -> Plan:
    """The plan of a table's YAML checks and of the pandera model it names."""
    checks: list[PlannedCheck] = []
    unique: list[tuple[list[str], str]] = [(c.unique, c.consequence) for c in declared.checks if c.unique]
    for check in declared.checks:
        if check.column:
            checks += _column_checks(check.column, check)
    models = []
    if declared.checks_module:
        model = _load_model(declared.checks_module, table, settings)
        try:
            schema = model.to_schema()
        except Exception as error:
            raise _refused(declared.checks_module, table, f"pandera refuses it: {error}") from error
        # pandera leaves the model's own metadata out of its schema.
        of_rows = (model.__config__.metadata or {}).get("consequence", "stop")
        if why := _what_is_not_made(schema, of_rows):
            raise _refused(declared.checks_module, table, why)
        for name, column in schema.columns.items():
            consequence = (column.metadata or {}).get("consequence", "stop")
            checks += [PlannedCheck(name, rule, consequence) for rule in column.checks]
            if not column.nullable:
                checks.append(PlannedCheck(name, None, consequence))
        if schema.unique:
            unique.append((list(schema.unique), of_rows))
        if schema.checks:
            models.append((pa.DataFrameSchema(checks=schema.checks, name=schema.name), of_rows))
    return Plan(checks, unique, models)


def _what_is_not_made(schema: pa.DataFrameSchema, of_rows: str) -> str | None:
    """What a model asks for that nothing here makes; None: nothing. ``of_rows``: the consequence of what is about whole
    rows."""
    if of_rows not in ("stop", "warn"):
        return f"the consequence {of_rows!r} in its Config: stop and warn are possible"
    for option in ("strict", "ordered", "coerce", "dtype"):
        if getattr(schema, option):
            return f"its Config says `{option}`, which is not made: take it out, or write a dataframe_check"
    for name, column in schema.columns.items():
        consequence = (column.metadata or {}).get("consequence", "stop")
        if consequence not in ("stop", "quarantine", "warn"):
            return f"the consequence {consequence!r} of {name}: stop, quarantine and warn are possible"
        if column.regex:
            return f"{name} stands for several columns (regex): name each"
        if column.coerce:
            return f"{name} says `coerce`, which is not made: take it out"
        if any(check.raise_warning for check in column.checks):
            return f"{name} says `raise_warning`: write the consequence warn in its place"
    return None


def _column_checks(column: str, check: Check) -> list[PlannedCheck]:
    rules: list[pa.Check | None] = []
    if check.not_null:
        rules.append(None)
    if check.min is not None:
        rules.append(pa.Check.greater_than_or_equal_to(check.min, error=f">= {check.min}"))
    if check.max is not None:
        rules.append(pa.Check.less_than_or_equal_to(check.max, error=f"<= {check.max}"))
    if check.isin is not None:
        rules.append(pa.Check.isin(check.isin, error=f"in {check.isin}"))
    if check.pattern is not None:
        rules.append(pa.Check(_matches, name="pattern", error=f"matches {check.pattern}", pattern=check.pattern))
    return [PlannedCheck(column, rule, check.consequence) for rule in rules]


def _matches(data: Any, *, pattern: str) -> bool:
    """A feed's pattern is searched in the whole value; pandera's own str_matches is anchored at the start."""
    return bool(data.dataframe.where(~F.col(data.column_name).rlike(pattern)).isEmpty())


def quarantine_checks(
    table: str, declared: Table, columns: Mapping[str, str], settings: Settings
) -> dict[str, list[tuple[str, Callable[[Column], Column]]]]:
    """By column, its checks with the consequence *quarantine*: what each is called, and whether a value fails it.

    ``columns``: those of the table, and their Spark types. Checks that cannot be made on them are left out: validate says
    so of all checks. ConfigError for one that is no condition of a value.
    """
    found: dict[str, list[tuple[str, Callable[[Column], Column]]]] = {}
    for check in plan_checks(table, declared, settings).checks:
        if check.consequence == "quarantine":
            bound = check.on(columns.get(check.column, "string"))
            condition = fails(bound, table)
            if check.column in columns and misfit(bound, columns[check.column]) is None:
                found.setdefault(check.column, []).append((str(check), condition))
    return found


def conditions_of(checks: list[PlannedCheck], columns: Mapping[str, str]) -> dict[int, Column]:
    """By a check's place in the list, whether a row of a table with these columns and types fails it, where that is a
    condition of one value. CheckError for one that cannot be made on its column's type."""
    found = {}
    for number, check in enumerate(check.on(columns[check.column]) for check in checks):
        if (why := misfit(check, columns[check.column])) is not None:
            raise _cannot_be_made(check, columns[check.column], why)
        if _is_condition(check):
            found[number] = _condition(check)(F.col(quote(check.column)))
    return found


def _cannot_be_made(check: PlannedCheck, kind: str, why: str) -> CheckError:
    return CheckError(
        f"check {check} cannot be made on a column of type {kind}: {why}",
        fix="give the check values that fit the column, or use another",
    )


def misfit(check: PlannedCheck, kind: str) -> str | None:
    """Why a check that is a condition cannot be made on a column of this type; None: it can, or pandera has to say. No Spark
    job decides it."""
    if check.rule is None or not _is_condition(check):
        return None
    type_, in_order = _type_of(kind), (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType)
    if check.rule.name in _IN_ORDER and not isinstance(type_, in_order):
        return "only numbers, dates and times have an order"
    is_pattern, limits = "pattern" in (check.rule.statistics or {}), _limits(check.rule)
    texts = [limit for limit in limits if isinstance(limit, str)]
    if isinstance(type_, T.StringType) and len(texts) < len(limits):
        return "a text is compared with texts: write them in quotes"
    if isinstance(type_, T.DecimalType) and (inexact := [limit for limit in limits if isinstance(limit, float)]):
        return f"{', '.join(map(repr, inexact))} has more digits than a number in YAML keeps: write it in quotes"
    binary = isinstance(type_, T.FloatType | T.DoubleType)
    if not is_pattern and (more := _says_more(texts, type_)):
        return more
    compared = "bigint" if isinstance(type_, T.IntegralType) else "double" if binary else kind
    one = SparkSession.active().sql("VALUES (1) AS one(one)")
    try:
        one.select(_condition(check)(F.lit(None).cast(kind)))
        found = [F.lit("").rlike(text) if is_pattern else F.lit(text).try_cast(compared) for text in texts]
        values = one.select(*found).collect()[0] if found else ()
    except PySparkException as error:
        return f"{error.getCondition() or type(error).__name__}"
    wrong = [text for text, value in zip(texts, values, strict=True) if value is None]
    return f"{', '.join(map(repr, wrong))} is no value of it" if wrong else None


def _says_more(texts: Collection[str], type_: T.DataType) -> str | None:
    """What is said of limits that say more than a value of the type does, which Spark would leave out without a word."""
    has_time = [text for text in texts if ":" in text]
    if isinstance(type_, T.DateType) and has_time:
        return f"{', '.join(map(repr, has_time))} has a time, and a date has none"
    zoned = [text for text in has_time if re.search(r":[\d.]*\s*(?:[A-Za-z].*|[+-][\d:]+)\Z", text)]
    if isinstance(type_, T.TimestampNTZType) and zoned:
        return f"{', '.join(map(repr, zoned))} has a zone, and the column's times have none"
    return None


def _exact(limit: Any, type_: T.DataType) -> Any:
    """A check's limit as a decimal, where values of this type are decimals, or it is a whole number of more than 64 bits. A
    fraction of more digits than a double keeps is left as it is: nobody knows which number was meant."""
    is_large = isinstance(limit, int) and not -(2**63) <= limit < 2**63
    if not is_large and not (isinstance(type_, T.DecimalType) and isinstance(limit, int | float | str)):
        return limit
    try:
        exact = Decimal(str(limit))
    except InvalidOperation:
        return limit
    is_known = not isinstance(limit, float) or len(exact.as_tuple().digits) <= sys.float_info.dig
    return Decimal(f"{exact:f}") if exact.is_finite() and is_known else limit


def _limits(rule: pa.Check) -> list[Any]:
    """What a check that is a condition compares a value with."""
    ((name, limit),) = (rule.statistics or {}).items()
    return list(limit) if name.endswith("_values") else [getattr(limit, "pattern", limit)]


def _type_of(kind: str) -> T.DataType:
    return T._parse_datatype_string(kind)


def fails(check: PlannedCheck, table: str) -> Callable[[Column], Column]:
    """Whether a value fails the check; null passes but for the check against null. ConfigError where the check is no
    condition of one value."""
    if not _is_condition(check):
        raise ConfigError(
            f"check {check} cannot quarantine: pandera does not say which rows fail it",
            fix="give it the consequence stop or warn, or write it with one of pandera's built-in checks",
            table=table,
        )
    return _condition(check)


#: Those of the following that compare no values.
_OF_TEXT = ("pattern", "str_matches", "str_contains")
#: pandera's checks that are a condition of one value: whether it fails, by the check's limits.
_CONDITIONS: dict[str, Callable[[Column, dict[str, Any]], Column]] = {
    "greater_than_or_equal_to": lambda value, limits: value < limits["min_value"],
    "greater_than": lambda value, limits: value <= limits["min_value"],
    "less_than_or_equal_to": lambda value, limits: value > limits["max_value"],
    "less_than": lambda value, limits: value >= limits["max_value"],
    "equal_to": lambda value, limits: value != limits["value"],
    "not_equal_to": lambda value, limits: value == limits["value"],
    "isin": lambda value, limits: ~value.isin(list(limits["allowed_values"])),
    "notin": lambda value, limits: value.isin(list(limits["forbidden_values"])),
    "pattern": lambda value, limits: ~value.rlike(limits["pattern"]),
    "str_matches": lambda value, limits: ~value.rlike("^(?:" + _pattern(limits["pattern"]) + ")"),
    "str_contains": lambda value, limits: ~value.rlike(_pattern(limits["pattern"])),
}


def _is_condition(check: PlannedCheck) -> bool:
    if check.rule is None:
        return True
    name, made_by = str(check.rule.name), check.rule._check_fn  # a model's own method may have a built-in check's name
    return name in _CONDITIONS and (made_by is _matches or isinstance(made_by, Dispatcher))


def _condition(check: PlannedCheck) -> Callable[[Column], Column]:
    rule = check.rule
    if rule is None:
        return lambda value: value.isNull()
    fails_by, limits = _CONDITIONS[str(rule.name)], dict(rule.statistics or {})
    return lambda value: F.coalesce(fails_by(value, limits), F.lit(False))


def _pattern(pattern: Any) -> str:
    return str(getattr(pattern, "pattern", pattern))


def judge(rows: DataFrame, checks: list[PlannedCheck]) -> list[PlannedCheck]:
    """The checks that some row fails, as pandera judges them."""
    if not CONFIG.validation_enabled or CONFIG.validation_depth not in (None, ValidationDepth.SCHEMA_AND_DATA):
        raise ConfigError(
            "pandera's validation is switched off or shallow (PANDERA_VALIDATION_ENABLED, PANDERA_VALIDATION_DEPTH)",
            fix="unset both: nothing unchecked is published",
        )
    return [check for check in checks if _fails(rows, check)]


def _fails(rows: DataFrame, check: PlannedCheck) -> bool:
    check = check.on(dict(rows.dtypes)[check.column])
    rules = [check.rule] if check.rule else []
    # pandera refuses a check on a column whose type its schema does not name, and quotes no name.
    kind, value = rows.schema[check.column].dataType, F.col(quote(check.column))
    if isinstance(kind, T.StructType) and not rules:
        # pandera knows no structs: it judges whether they are there.
        kind, value = T.BooleanType(), F.when(value.isNotNull(), F.lit(True))
    column = pa.Column(kind, rules, nullable=check.rule is not None)  # type: ignore[arg-type]
    schema, values = pa.DataFrameSchema({"value": column}), rows.select(value.alias("value"))
    try:
        errors: Any = schema.validate(values, lazy=True).pandera.errors
        not_made = _why_not_made(errors)
    except TypeError:  # pandera's check is not for columns of this type
        errors, not_made = {}, f"{check.rule and check.rule.name} is not for this type"
    if not_made is None:
        return bool(errors)
    # pandera knows no times without a zone, Spark does.
    if _is_condition(check) and misfit(check, kind.simpleString()) is None:
        return not values.where(_condition(check)(F.col("value"))).isEmpty()
    raise _cannot_be_made(check, kind.simpleString(), not_made)


def _why_not_made(errors: Any) -> str | None:
    """Why a check could not be made, by what pandera reports; None: all were made."""
    told = [one["error"] for by_reason in errors.values() for one in by_reason.get("CHECK_ERROR", ())]
    return told[0].partition("Traceback")[0].strip() if told else None


def wrong_types(rows: DataFrame, declared: dict[str, str]) -> str | None:
    """What pandera reports of columns that have not their declared type; None when all have. Reads no data."""
    wanted = {name: _type_of(kind) for name, kind in declared.items()}
    found = {field.name: field.dataType for field in rows.schema.fields}
    for name in [name for name, kind in wanted.items() if _holds_struct(kind)]:  # pandera knows no structs
        if name not in found or found[name].simpleString() != wanted[name].simpleString():
            has = found[name].simpleString() if name in found else "missing"
            return f"column {name} is {has}, not {wanted[name].simpleString()}"
        del wanted[name]
    columns = {name: pa.Column(kind, nullable=True) for name, kind in wanted.items()}  # type: ignore[arg-type]
    errors = pa.DataFrameSchema(columns).validate(rows.limit(0), lazy=True).pandera.errors
    return str(dict(errors)) if errors else None


def _holds_struct(kind: T.DataType) -> bool:
    return isinstance(kind, T.StructType) or (isinstance(kind, T.ArrayType) and _holds_struct(kind.elementType))


def model_fails(rows: DataFrame, schema: pa.DataFrameSchema) -> str | None:
    """The checks over whole rows of a model that fail, by the names that pandera has for them; None when they pass."""
    errors: Any = schema.validate(rows, lazy=True).pandera.errors
    if not_made := _why_not_made(errors):
        raise CheckError(
            f"a check of whole rows of {schema.name} cannot be made: {not_made}",
            fix="mend the model in the checks folder",
        )
    found = [str(one["check"]) for by_reason in errors.values() for all_ in by_reason.values() for one in all_]
    return f"the model {schema.name} fails: {', '.join(found)}" if found else None


def _refused(model: str, table: str, why: str) -> ConfigError:
    return ConfigError(f"checks_module {model!r}: {why}", fix="mend the model in the checks folder", table=table)


def _load_model(name: str, table: str, settings: Settings) -> type[Any]:
    module_name, _, class_name = name.partition(":")
    folder = settings.path(settings.checks)
    path = (folder / f"{module_name}.py").resolve()
    fix = f"put the class {class_name!r} into {module_name}.py in {folder}"
    if not module_name.isidentifier() or path.parent != folder or not path.is_file():
        raise ConfigError(
            f"checks_module {name!r}: there is no {module_name}.py in the checks folder", fix=fix, table=table
        )
    spec = importlib.util.spec_from_file_location(f"tidemark_checks_{module_name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _refused(name, table, f"{module_name}.py cannot be run: {type(error).__name__}: {error}") from error
    model = getattr(module, class_name, None)
    if not (isinstance(model, type) and issubclass(model, pa.DataFrameModel)):
        raise ConfigError(
            f"checks_module {name!r}: no pandera.pyspark DataFrameModel of that name", fix=fix, table=table
        )
    return model
