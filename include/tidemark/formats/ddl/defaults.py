"""What rows that were there before hold in a column that a statement adds: its default, where this is a constant. Pure.

The source fills such rows itself and sends nothing. MySQL gives a NOT NULL column without a default the implicit default
of its type (https://dev.mysql.com/doc/refman/8.4/en/data-type-defaults.html); SQL Server leaves rows of a nullable column
null unless the statement says WITH VALUES.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from sqlglot import exp

#: A constant as its column holds it: text as MySQL prints the value, or bytes.
Constant = str | bytes

_INTEGERS = {"INT", "TINYINT", "SMALLINT", "MEDIUMINT", "BIGINT"}
_DECIMALS = {"DECIMAL", "UDECIMAL"}
_FLOATS = {"FLOAT", "UFLOAT", "DOUBLE", "UDOUBLE"}
_TEXTS = {"CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT"}
_BYTES = {"BINARY", "VARBINARY", "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB"}
_DATETIMES = {"DATETIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"}
_COMPUTED = (
    exp.AutoIncrementColumnConstraint, exp.ComputedColumnConstraint, exp.GeneratedAsIdentityColumnConstraint,
    exp.GeneratedAsRowColumnConstraint,
)  # fmt: skip
_TIME = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d")
_FIRST_FLOATS = 6


class NoConstant(Exception):
    """Why rows of before a column was added cannot be given its value."""


def default_of(column: exp.ColumnDef, dialect: str, *, with_values: bool = False) -> Constant | None:
    """The value that an added column has in rows of before; None: null. NoConstant where the statement does not tell it.

    ``with_values``: SQL Server's WITH VALUES. ``dialect``: a key of :data:`tidemark.formats.ddl.tokens.DIALECTS`.
    """
    kind = column.kind
    assert isinstance(kind, exp.DataType), "a column with a type"
    rules = [constraint.kind for constraint in column.constraints]
    if "SERIAL" in _name(kind) or any(isinstance(rule, _COMPUTED) for rule in rules):
        raise NoConstant("the source computes its values")
    nullable = any(isinstance(rule, exp.NotNullColumnConstraint) and rule.args.get("allow_null") for rule in rules)
    required = any(isinstance(rule, exp.NotNullColumnConstraint) and not rule.args.get("allow_null") for rule in rules)
    given = next((rule.this for rule in rules if isinstance(rule, exp.DefaultColumnConstraint)), None)
    if given is None and dialect == "mysql" and not nullable and _name(kind).startswith("TIMESTAMP"):
        # https://dev.mysql.com/doc/refman/5.7/en/server-system-variables.html#sysvar_explicit_defaults_for_timestamp
        raise NoConstant(
            "it says neither NULL nor DEFAULT, and what MySQL gives a timestamp then depends on its version and settings"
        )
    if given is None:
        return _implicit(kind) if required and dialect == "mysql" else None
    if dialect == "sqlserver" and not (required or with_values):
        return None
    literal = _literal(given)
    if literal is None or (dialect == "oracle" and literal == ""):  # Oracle's empty text is null
        return None
    if (value := _as_type(literal, kind, dialect)) is None:
        raise NoConstant(f"how the source sends its default {given.sql()[:60]} is not known")
    return value


def _name(kind: exp.DataType) -> str:
    return str(kind.this.value) if isinstance(kind.this, exp.DataType.Type) else ""


def _literal(value: exp.Expression) -> Decimal | str | bytes | None:
    """A literal's value (TRUE is 1); None for NULL. NoConstant for anything else."""
    while isinstance(value, exp.Paren):
        value = value.this
    if isinstance(value, exp.Null):
        return None
    if isinstance(value, exp.Boolean):
        return Decimal(int(value.this))
    try:
        if isinstance(value, exp.Literal):
            return str(value.this) if value.is_string else _number(value.this)
        if isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal) and not value.this.is_string:
            return -_number(value.this.this)
        if isinstance(value, exp.BitString):  # bytes, like a hexadecimal one: a number where the column is one
            return int(value.this, 2).to_bytes((len(value.this) + 7) // 8, "big")
        if isinstance(value, exp.HexString):
            return bytes.fromhex(value.this if len(value.this) % 2 == 0 else "0" + value.this)
    except (InvalidOperation, ValueError):
        pass
    if isinstance(value, exp.National):
        return str(value.this)
    raise NoConstant(f"its default is no constant: {value.sql()[:60]}")


def _number(written: str) -> Decimal:
    """A number as it is written; with an exponent it is a double, which keeps no zeros at its end."""
    number = Decimal(written)
    return number.normalize() if "e" in written.lower() else number


def _implicit(kind: exp.DataType) -> Constant:
    """The value of MySQL for a NOT NULL column without a default."""
    name = _name(kind)
    if name == "ENUM" and kind.expressions:
        return str(kind.expressions[0].this)
    if name == "TIME":
        return _as_time("00:00:00", kind)
    if name == "YEAR":
        return "0000"
    if name == "SET" or name in _TEXTS:
        return ""
    if name in _BYTES:
        return _as_bytes(b"", kind)
    value = _as_type(Decimal(0), kind, "mysql")
    if value is None:
        raise NoConstant("it is NOT NULL without a default, and what its type then holds is no value that a table can")
    return value


def _as_type(value: Decimal | str | bytes, kind: exp.DataType, dialect: str) -> Constant | None:
    """The value as a column of this type holds it; None where this is not known for certain."""
    name = _name(kind)
    if name in _BYTES:  # MySQL alone takes a text's letters: others read digits in it
        data = value.encode() if isinstance(value, str) and dialect == "mysql" else value
        return _as_bytes(data, kind) if isinstance(data, bytes) else None
    if (name == "BIT" and dialect == "postgres") or (
        isinstance(value, bytes) and name in _TEXTS and dialect != "mysql"
    ):
        return None  # PostgreSQL's bits are no number, and only the source knows in which encoding bytes are a text
    if isinstance(value, bytes):
        if name not in _TEXTS:
            value = Decimal(int.from_bytes(value, "big"))
        else:
            try:
                value = value.decode()
            except UnicodeDecodeError:
                return None
    if name == "BOOLEAN" and dialect != "mysql":
        words = {"1": "true", "t": "true", "true": "true", "0": "false", "f": "false", "false": "false"}
        return words.get(str(value).lower())
    if name in _TEXTS:
        text = str(value)
        if isinstance(value, Decimal) and ("E" in text or (dialect == "oracle" and "." in text)):
            return None  # how a double is printed then is the source's to say, and Oracle prints .5
        return _as_char(text, kind, dialect) if name in ("CHAR", "NCHAR") else text
    if name in ("ENUM", "SET"):
        return _member(value, kind) if isinstance(value, str) else None
    if name in ("DATE", "TIME") or name in _DATETIMES:
        return _as_moment(value, kind) if isinstance(value, str) and dialect == "mysql" else None
    return _as_number(value, kind, dialect)


def _as_char(text: str, kind: exp.DataType, dialect: str) -> str | None:
    """MySQL sends a CHAR without blanks at its end; others fill it with them up to its length, which may be one of bytes."""
    text, length = text.rstrip(" "), kind.expressions[0].name if kind.expressions else ""
    if dialect == "mysql":
        return text
    return text.ljust(int(length)) if text.isascii() and length.isdecimal() else None


def _as_bytes(value: bytes, kind: exp.DataType) -> bytes:
    """A BINARY has zeros at its end, up to its length."""
    if _name(kind) != "BINARY":
        return value
    return value.ljust(int(kind.expressions[0].name) if kind.expressions else 1, b"\0")


def _as_number(value: Decimal | str, kind: exp.DataType, dialect: str) -> str | None:
    name = _name(kind)
    try:
        number = Decimal(value.strip()) if isinstance(value, str) else value
        if not number.is_finite():
            return None
        if name == "YEAR":
            return _as_year(value)
        if name.removeprefix("U") in _INTEGERS or name in ("BIT", "BOOLEAN"):
            return str(int(number)) if number == int(number) else None
        if name in _DECIMALS:
            digits = [int(size.name) for size in kind.expressions]
            scale = digits[1] if len(digits) > 1 else 0
            rounds = digits or dialect in (
                "mysql",
                "sqlserver",
            )  # DECIMAL alone is one of 10 or 18 digits before the point
            rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) if rounds else number
            return f"{rounded or abs(rounded):f}"  # there is no -0
    except (InvalidOperation, ValueError):
        return None
    # Floats as Java prints them: short ones alone, which are the same in both precisions.
    short = len(number.normalize().as_tuple().digits) <= _FIRST_FLOATS
    plain = number == 0 or Decimal("0.001") <= abs(number) < 10_000_000
    return repr(float(number)) if name in _FLOATS and short and plain and not kind.expressions else None


def _as_year(value: Decimal | str) -> str:
    """A year in four digits. Two are of 1970 to 2069; the number 0 is 0000, the text 2000
    (https://dev.mysql.com/doc/refman/8.4/en/year.html)."""
    year = int(value)
    if 0 < year < 100 or (year == 0 and isinstance(value, str) and value != "0000"):
        year += 2000 if year < 70 else 1900
    return f"{year:04}"


def _member(value: str, kind: exp.DataType) -> str | None:
    """The value in the spelling of the list; of a set its words in the list's order, as MySQL prints them."""
    listed = [str(one.this) for one in kind.expressions]
    if _name(kind) == "SET":
        words = set(value.lower().split(",")) - {""}
        found = [one for one in listed if one.lower() in words]
        return ",".join(found) if len(found) == len(words) else None
    return next((one for one in listed if one.lower() == value.lower()), None)


def _as_moment(value: str, kind: exp.DataType) -> str | None:
    """A date or time as MySQL prints it; None for those that no calendar has, like 0000-00-00."""
    if _name(kind) == "TIME":
        return _as_time(value, kind) if _TIME.fullmatch(value) else None
    try:
        moment = datetime.fromisoformat(value) if re.match(r"\d{4}-\d\d-\d\d", value) else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is not None:
        return None
    if _name(kind) == "DATE":
        return f"{moment:%Y-%m-%d}" if moment.time().isoformat() == "00:00:00" else None
    fraction = _fraction(kind)
    if moment.microsecond % 10 ** (6 - fraction):
        return None
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{moment.microsecond:06d}"[: fraction + 1] if fraction else "")


def _as_time(value: str, kind: exp.DataType) -> str:
    return value + ("." + "0" * _fraction(kind) if _fraction(kind) else "")


def _fraction(kind: exp.DataType) -> int:
    """How many digits of a second the type has."""
    return int(kind.expressions[0].name) if kind.expressions else 0
