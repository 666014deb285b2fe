"""The encodings of :class:`tidemark.values.columns.ColumnType` as Spark expressions: text of a message → value of a column.

Each takes the text, the Spark type's name and the type's ``arg``, and gives null where the text is not such a value
(a text that is not null and gives null is a bad value, and goes to quarantine). No number passes through a float
unless the column is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.values.expressions import compute_once
from tidemark.values.whole_json import whole_json

#: PostgreSQL's own limit: a scale that no numeric has would ask for a text of gigabytes.
_LARGEST_SCALE = 16_383

Encoding = Callable[[Column, str, str | None], Column]

# Microseconds since 1970 that Spark's and Python's timestamps can both hold (years 1 to 9999).
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999


_DATE = r"\A[+-]?\d{4,7}-\d{2}-\d{2}"
_CLOCK = r"[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
#: Spark's casts also take a year or a month alone, a time of day as one of the day on which they run, a date with anything
#: behind it, and a zone that they then drop. Z says no more than that the time is in UTC, and containers write it.
_WRITTEN = {
    "date": _DATE + r"(?:[ T]00:00(?::00(?:\.0+)?)?Z?)?\z",
    "timestamp": rf"{_DATE}(?:{_CLOCK}(?: ?(?:Z|[+-]\d{{2}}(?::?\d{{2}}(?::\d{{2}})?)?))?)?\z",
    "timestamp_ntz": rf"{_DATE}(?:{_CLOCK}Z?)?\z",
}


def plain(text: Column, spark: str, arg: str | None) -> Column:
    """The value as its usual text; of dates and times ISO's, with ``T`` or a blank. One that would lose a part is refused: a
    decimal that does not fit its scale, a number that no double or float can hold, a date with a time of day but midnight,
    a time with an offset in a column without."""
    if spark == "string":
        return text
    if match := re.fullmatch(r"decimal\(\d+,\s*(\d+)\)", spark):
        return F.when(_has_scale(text, int(match[1])), text.try_cast(spark))
    if spark in ("double", "float"):
        value, infinite = text.try_cast(spark), F.lit(float("inf")).cast(spark)
        # Java's own way to write a number, 1.5d, is nobody else's.
        strange = text.rlike(r"[\d.][dDfF]\s*\z") | ((F.abs(value) == infinite) & text.rlike(r"\d"))
        return F.when(~strange, value)
    if spark in _WRITTEN:
        return F.when(text.rlike(_WRITTEN[spark]), text.try_cast(spark))
    return text.try_cast(spark)


def _has_scale(text: Column, scale: int) -> Column:
    """Whether a number's text has no digit but zeros behind so many places, also with an exponent of up to 4 digits: a
    greater one stands in no decimal, and Spark would compute it."""
    some = rf"\.\d{{1,{scale}}}0*" if scale else r"\.0+"
    usual = text.rlike(rf"\A\s*[+-]?(?:\d+(?:\.\d{{0,{scale}}}0*)?|{some})\s*\z")
    parts = r"\A\s*[+-]?(?=\.?\d)(\d*)(?:\.(\d*))?[eE]([+-]?\d{1,4})\s*\z"
    whole, fraction, exponent = (F.regexp_extract(text, parts, part) for part in (1, 2, 3))
    digits = F.concat(whole, fraction)
    significant = F.rtrim(digits, F.lit("0"))
    places = F.length(fraction) - exponent.try_cast("int") - (F.length(digits) - F.length(significant))
    fits = (F.ltrim(significant, F.lit("0")) == "") | (places <= scale)
    return usual | (text.rlike(parts) & fits)


def epoch_days(text: Column, spark: str, arg: str | None) -> Column:
    """Days since 1970-01-01."""
    days = text.try_cast("int")
    return F.when(days.between(-719_162, 2_932_896), F.date_from_unix_date(days))


def _from_micros(micros: Column, spark: str) -> Column:
    return F.when(micros.between(_FIRST_MICROS, _LAST_MICROS), F.timestamp_micros(micros)).cast(spark)


def epoch_millis(text: Column, spark: str, arg: str | None) -> Column:
    """Milliseconds since 1970."""
    millis = text.try_cast("bigint")
    return _from_micros(F.when(millis.between(_FIRST_MICROS // 1000, _LAST_MICROS // 1000), millis * 1000), spark)


def epoch_micros(text: Column, spark: str, arg: str | None) -> Column:
    """Microseconds since 1970."""
    return _from_micros(text.try_cast("bigint"), spark)


def epoch_nanos(text: Column, spark: str, arg: str | None) -> Column:
    """Nanoseconds since 1970, to the microsecond (what the table holds)."""
    return _from_micros(F.floor(text.try_cast("decimal(20,0)") / 1000).try_cast("bigint"), spark)


#: A time's ``arg`` where it is MySQL's TIME, which is also a span: from -838:59:59, in seconds, to as much.
#: https://dev.mysql.com/doc/refman/8.4/en/time.html
OR_SPAN = "or_span"
_LONGEST_SPAN, _DAY = 3_020_399, 86_400


def loses_digits(text: Column, encoding: str) -> Column:
    """Whether a time's text has digits behind the microsecond, which a timestamp cannot hold."""
    if encoding == "epoch_nanos":
        return F.coalesce(text.try_cast("bigint") % 1000 != 0, F.lit(False))
    return F.coalesce(text.rlike(r"\.\d{6}\d*[1-9]"), F.lit(False))


def _clock(text: Column, digits: int, arg: str | None) -> Column:
    """``03:45:51.435732`` of a count of seconds since midnight with so many ``digits`` behind the point, as PostgreSQL writes
    it: no zeros at the end of a fraction. The end of a day is a time too, ``24:00:00``; with :data:`OR_SPAN` they go on to
    ``838:59:59``, and down to ``-838:59:59``."""
    second, count = 10**digits, text.try_cast("bigint")
    size = F.abs(count)

    def units(length: int) -> Column:
        """How many units of so many seconds are in it."""
        return F.call_function("div", size, F.lit(length * second))

    def padded(number: Column, places: int) -> Column:
        return F.substring((number + 10**places).cast("string"), 2, places)

    sign, hours = F.when(count < 0, F.lit("-")).otherwise(F.lit("")), units(3600)
    zero = F.when(hours < 10, F.lit("0")).otherwise(F.lit(""))
    smaller = F.concat_ws(":", F.lit(""), padded(units(60) % 60, 2), padded(units(1) % 60, 2))
    clock = F.concat(sign, zero, hours.cast("string"), smaller, F.lit("."), padded(size % second, digits))
    first, last = (-_LONGEST_SPAN, _LONGEST_SPAN) if arg == OR_SPAN else (0, _DAY)
    whole = count.between(first * second, last * second)
    return F.when(whole, F.rtrim(F.rtrim(clock, F.lit("0")), F.lit(".")))


def time_millis(text: Column, spark: str, arg: str | None) -> Column:
    """Milliseconds since midnight → text (Iceberg's time is not in Spark)."""
    return _clock(text, 3, arg)


def time_micros(text: Column, spark: str, arg: str | None) -> Column:
    """Microseconds since midnight → text."""
    return _clock(text, 6, arg)


def time_nanos(text: Column, spark: str, arg: str | None) -> Column:
    """Nanoseconds since midnight → text."""
    return _clock(text, 9, arg)


def base64(text: Column, spark: str, arg: str | None) -> Column:
    """Bytes as base64."""
    return F.try_to_binary(text, F.lit("base64"))


def hexadecimal(text: Column, spark: str, arg: str | None) -> Column:
    """Bytes as hexadecimal digits, two for each: Spark would take an odd number of them too."""
    return F.when(F.length(text) % 2 == 0, F.try_to_binary(text, F.lit("hex")))


def json(text: Column, spark: str, arg: str | None) -> Column:
    """A JSON value of the type itself: arrays, structs."""
    return F.from_json(text, spark, {"mode": "PERMISSIVE"})


def _unscaled(bytes_: Column) -> Column:
    """Two's complement, big endian, up to 16 bytes → the integer as text; null when it has more than 38 digits.

    Four words of 32 bits; a negative number by way of its complement, since 2**127 has more digits than a decimal.
    Its sign is text too: Spark's negation of a decimal rounds to 34 digits.
    """

    def whole(digits: Column) -> Column:
        negative = F.substring(digits, 1, 1) >= F.lit("8")
        total = F.lit(0).cast("decimal(38,0)")
        for word in range(4):
            unsigned = F.conv(F.substring(digits, 1 + 8 * word, 8), 16, 10).cast("decimal(10,0)")
            magnitude = F.when(negative, F.lit(0xFFFFFFFF) - unsigned).otherwise(unsigned)
            shifted = F.try_multiply(total, F.lit(1 << 32).cast("decimal(10,0)")).cast("decimal(38,0)")
            total = F.try_add(shifted, magnitude.cast("decimal(38,0)"))
        more = F.try_add(total, F.when(negative, F.lit(1)).otherwise(F.lit(0)).cast("decimal(38,0)"))
        return F.concat(F.when(negative, F.lit("-")).otherwise(F.lit("")), more.cast("decimal(38,0)").cast("string"))

    def padded(bytes_: Column) -> Column:
        sign = F.when(F.substring(F.hex(bytes_), 1, 1) >= F.lit("8"), F.lit("F")).otherwise(F.lit("0"))
        return F.when(F.length(bytes_).between(1, 16), compute_once(F.lpad(F.hex(bytes_), 32, sign), whole))

    return compute_once(bytes_, padded)


def _unscaled_text(bytes_: Column) -> Column:
    """Two's complement, big endian → the integer as text, up to 1,024 bytes (2,466 digits); null for more.

    Longer ones than a decimal holds are multiplied up by hand, in limbs of nine digits, the lowest first.
    """

    def whole(digits: Column) -> Column:
        negative = F.substring(digits, 1, 1) >= F.lit("8")
        sign = F.when(negative, F.lit("F")).otherwise(F.lit("0"))
        padded = F.lpad(digits, F.ceil(F.length(digits) / 8).cast("int") * 8, sign)

        def step(start: Column) -> Column:
            word = F.conv(F.substring(padded, start, F.lit(8)), 16, 10).cast("bigint")
            return _times_plus(1 << 32, F.when(negative, F.lit(0xFFFFFFFF) - word).otherwise(word))

        words = F.transform(F.sequence(F.lit(1), F.length(padded), F.lit(8)), step)
        steps = F.concat(words, F.array(_times_plus(1, F.when(negative, F.lit(1)).otherwise(F.lit(0)))))
        limbs = F.reverse(F.aggregate(steps, F.array(F.lit(0).cast("bigint")), _grown))
        written = F.transform(
            limbs, lambda limb, at: F.when(at == 0, limb.cast("string")).otherwise(F.lpad(limb.cast("string"), 9, "0"))
        )
        return F.concat(F.when(negative, F.lit("-")).otherwise(F.lit("")), F.array_join(written, ""))

    def either(bytes_: Column) -> Column:
        return F.coalesce(
            _unscaled(bytes_), F.when(F.length(bytes_).between(16, 1024), compute_once(F.hex(bytes_), whole))
        )

    return compute_once(bytes_, either)


def _times_plus(factor: int, add: Column) -> Column:
    return F.struct(F.lit(factor).cast("bigint").alias("factor"), add.cast("bigint").alias("add"))


_LIMB = 1_000_000_000


def _grown(limbs: Column, step: Column) -> Column:
    """``limbs`` times ``step.factor`` plus ``step.add``."""

    def carried(so_far: Column, limb: Column) -> Column:
        def split(value: Column) -> Column:
            out = F.concat(so_far["out"], F.array(value % _LIMB))
            return F.struct(out.alias("out"), F.call_function("div", value, F.lit(_LIMB)).alias("carry"))

        return compute_once(limb * step["factor"] + so_far["carry"], split)

    def with_carry(done: Column) -> Column:
        carry = done["carry"]
        high = F.call_function("div", carry, F.lit(_LIMB))
        one, two = F.array(carry), F.array(carry % _LIMB, high)
        return F.when(carry == 0, done["out"]).otherwise(F.concat(done["out"], F.when(high == 0, one).otherwise(two)))

    nothing = F.array().cast("array<bigint>")
    start = F.struct(nothing.alias("out"), step["add"].alias("carry"))
    return compute_once(F.aggregate(limbs, start, carried), with_carry)


def _of_java(text: Column) -> Column:
    """The bytes of an integer that Java wrote in base64; null for any other text, also one that can be read.

    Connect's Decimal and Debezium's VariableScaleDecimal take BigInteger.toByteArray(), which leaves out each byte that
    says nothing, and Jackson writes it with padding and on one line. Few texts of plain numbers have that form: those of
    digits alone, four of them or eight …
    """

    def as_written(held: Column) -> Column:
        again = F.translate(F.base64(held), "\r\n", "")
        needless = F.hex(held).rlike("^(?:00[0-7]|FF[89A-F])")
        return F.when((F.length(held) > 0) & (again == text) & ~needless, held)

    return compute_once(F.try_to_binary(text, F.lit("base64")), as_written)


def unscaled_decimal(text: Column, spark: str, arg: str | None) -> Column:
    """Connect's Decimal: base64 of the unscaled integer; ``arg`` is the scale."""
    read = _unscaled_text if spark == "string" else _unscaled
    value = _shift(read(_of_java(text)), F.lit(int(arg or 0)))
    return compute_once(value, lambda decimal: plain(decimal, spark, None))


_NUMBER = r"\A(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|NaN|-?Infinity)\z"


def variable_decimal(text: Column, spark: str, arg: str | None) -> Column:
    """A decimal without a scale of its own: Debezium's VariableScaleDecimal ``{"scale": int, "value": base64}``, which stays
    a struct where other decimals are numbers or texts (``decimal.format=NUMERIC``, sinks' Parquet); or the number itself,
    whose text is kept as it is."""
    parts = F.from_json(text, "struct<scale: int, value: string>")
    scale = F.when(parts["scale"].between(-_LARGEST_SCALE, _LARGEST_SCALE), parts["scale"])
    read = _unscaled_text if spark == "string" else _unscaled
    of_struct = _shift(read(_of_java(parts["value"])), scale)
    value = F.when(text.startswith("{"), of_struct).when(text.rlike(_NUMBER), text)
    return compute_once(value, lambda decimal: plain(decimal, spark, None))


def _shift(unscaled: Column, scale: Column) -> Column:
    """An integer's text and a scale → the decimal's text: -12345, 2 → ``-123.45``."""

    def text(number: Column) -> Column:
        sign = F.when(number.startswith("-"), F.lit("-")).otherwise(F.lit(""))
        digits = F.ltrim(number, F.lit("-"))
        whole = F.concat(sign, digits, F.repeat(F.lit("0"), -scale))
        padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
        return F.when(scale <= 0, whole).otherwise(
            compute_once(
                padded,
                lambda p: F.concat(
                    sign,
                    F.substring(p, F.lit(1), F.length(p) - scale),
                    F.lit("."),
                    F.substring(p, F.length(p) - scale + 1, scale),
                ),
            )
        )

    return compute_once(unscaled, text)


_LARGEST, _SMALLEST = "9223372036854775807", "-9223372036854775808"
#: PostgreSQL's infinite dates and timestamps as Debezium counts them (its PostgresValueConverter), by encoding: the largest
#: and smallest time of PostgreSQL's Java driver, or of the number; dates also wrap around the number's ends.
INFINITIES: dict[str, tuple[list[str], list[str]]] = {
    "epoch_days": (["-2147472692", "2146033979"], ["-2147472691"]),
    "epoch_millis": (
        ["9223372036825200", "9223372036825200000", _LARGEST], ["-9223372036832400", "-9223372036832400000", _SMALLEST],
    ),
    "epoch_micros": (["9223372036825200000", _LARGEST], ["-9223372036832400000", _SMALLEST]),
    "epoch_nanos": ([_LARGEST], [_SMALLEST]),
}  # fmt: skip


def infinity(text: Column, encoding: str) -> Column:
    """``infinity`` or ``-infinity``, where the text is one in this encoding."""
    last, first = INFINITIES[encoding]
    return F.when(text.isin(last), F.lit("infinity")).when(text.isin(first), F.lit("-infinity"))


#: The name of the encoding of texts that :func:`rewrite` wrote.
REWRITTEN = "rewritten"
_NO_VALUE = "\x00"


def rewrite(text: Column, value: Column, own: str, encoding: str = "plain") -> Column:
    """One text for a value, however messages wrote it: ``value`` of the type ``own``, read from ``text``, which is in
    ``encoding``. Null stays null, an infinite time is ``infinity``, and a text that is no such value stays a bad one."""
    endless = [infinity(text, encoding)] if encoding in INFINITIES else []
    return F.when(text.isNotNull(), F.coalesce(write(value, own), *endless, F.concat(F.lit(_NO_VALUE), text)))


def write(value: Column, own: str) -> Column:
    """The one text of a value of the type ``own``."""
    if own == "binary":
        return F.base64(value)
    if own.startswith(("array<", "struct<")):
        return whole_json(value)
    if own == "float":  # with enough digits to differ from its neighbours in double precision
        return value.cast("double").cast("string")
    return value.cast("string")


def rewritten(text: Column, spark: str, arg: str | None) -> Column:
    """A text that :func:`rewrite` wrote."""
    value = F.when(~text.startswith(_NO_VALUE), text)
    if spark == "binary":
        return base64(value, spark, arg)
    return json(value, spark, arg) if spark.startswith(("array<", "struct<")) else plain(value, spark, arg)


#: Of times of day.
TIMES: dict[str, Encoding] = {"time_millis": time_millis, "time_micros": time_micros, "time_nanos": time_nanos}
#: Encodings whose texts are whole numbers: counts of days, or of parts of a second.
COUNTS: dict[str, Encoding] = {
    "epoch_days": epoch_days,
    "epoch_millis": epoch_millis,
    "epoch_micros": epoch_micros,
    "epoch_nanos": epoch_nanos,
    **TIMES,
}

#: By the name a ColumnType carries. A format's own encodings come from its module's ``ENCODINGS``.
ENCODINGS: dict[str, Encoding] = {
    **COUNTS,
    "plain": plain,
    "base64": base64,
    "hex": hexadecimal,
    "json": json,
    "unscaled_decimal": unscaled_decimal,
    "variable_decimal": variable_decimal,
    REWRITTEN: rewritten,
}


_FIRST_MILLIS, _LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999


def time_of_millis(millis: Column) -> Column:
    """Milliseconds since 1970 as a time; null for a year outside 1 to 9999, which no source sends."""
    return F.timestamp_millis(F.when(millis.between(_FIRST_MILLIS, _LAST_MILLIS), millis))
