"""Masks: hexadecimal text read as one number of any width, whose bit ``i`` stands for the column of ordinal ``i + 1``.

So the last digit holds the ordinals 1 to 4. Tables with more than 64 columns are usual, so no mask becomes an integer of
Spark: a column's bit is looked up in its digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

_DIGITS = "0123456789ABCDEF"
#: For each of a digit's four bits, the digits in which it is set.
_DIGITS_WITH = ("13579BDF", "2367ABEF", "4567CDEF", "89ABCDEF")


def bit_of(ordinal: int) -> tuple[int, str]:
    """Where an ordinal's bit is: the digit, counted from the last as 0, and the digits in which that bit is set."""
    return (ordinal - 1) // 4, _DIGITS_WITH[(ordinal - 1) % 4]


def full_mask(last_ordinal: int) -> str:
    """The mask with every bit up to an ordinal set, without leading zeros; empty for a table of no columns."""
    return format((1 << last_ordinal) - 1, "X") if last_ordinal else ""


def trimmed(mask: Column) -> Column:
    """A mask in capitals without leading zeros, so that it compares; empty when no bit is set."""
    return F.ltrim(F.upper(mask), F.lit("0"))


def fits(mask: Column, full: Column) -> Column:
    """Whether a trimmed mask has no bit above those of a full one."""
    # Of two numbers of equal length the text in ASCII compares as the number does.
    return (F.length(mask) < F.length(full)) | ((F.length(mask) == F.length(full)) & (mask <= full))


def digits_of(mask: Column) -> Column:
    """The digits of a trimmed mask, the last one first; null where no bit is set."""
    return F.when(F.length(mask) > 0, F.split(F.reverse(mask), ""))


def has_bit(digits: Column, digit: Column, digits_with: Column) -> Column:
    """Whether a bit (see :func:`bit_of`) is set in a mask of these digits."""
    return F.coalesce(F.contains(digits_with, F.get(digits, digit)), F.lit(False))


def names_by_digit(ordinals: Mapping[str, int]) -> list[list[list[str]]]:
    """For each digit of a mask, the last one first, and each value from 0 to 15 that it may have: the columns whose bit it
    sets. ``ordinals``: of the columns, counted from 1."""
    of_digits: list[list[tuple[str, str]]] = [[] for _ in range((max(ordinals.values(), default=0) + 3) // 4)]
    for name, ordinal in sorted(ordinals.items(), key=lambda column: column[1]):
        digit, digits_with = bit_of(ordinal)
        of_digits[digit].append((name, digits_with))
    return [[[name for name, set_in in names if value in set_in] for value in _DIGITS] for names in of_digits]


def columns_with(by_digit: Column, digits: Column) -> Column:
    """The columns whose bit is set in a mask of these digits. ``by_digit``: :func:`names_by_digit`. Not column by
    column: a wide table has hundreds."""
    return _names(by_digit, digits, lambda value: value)


def columns_without(by_digit: Column, digits: Column) -> Column:
    """The columns whose bit is not set in a mask of these digits, as :func:`columns_with` tells the others."""
    return _names(by_digit, digits, lambda value: F.lit(15) - value)


def _names(by_digit: Column, digits: Column, at: Callable[[Column], Column]) -> Column:
    """The columns of each digit that stand ``at`` its value. A mask has no zeros in front."""
    nothing = F.array().cast("array<string>")

    def of_digit(names: Column, digit: Column) -> Column:
        value = F.coalesce(F.position(digit, F.lit(_DIGITS)) - 1, F.lit(0))
        return F.coalesce(F.get(names, at(value)), nothing)

    return F.flatten(F.zip_with(by_digit, F.coalesce(digits, nothing), of_digit))


def bytes_reversed(mask: Column) -> Column:
    """The same bytes in the other order, as hexadecimal text."""
    whole = F.concat(F.repeat(F.lit("0"), F.length(mask) % 2), mask)
    return F.array_join(F.reverse(F.regexp_extract_all(whole, F.lit("(..)"), F.lit(1))), "")
