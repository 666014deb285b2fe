"""Masks: hexadecimal text read as one number of any width, whose bit ``i`` stands for the column of ordinal ``i + 1``.

So the last digit holds the ordinals 1 to 4. Tables with more than 64 columns are usual, so no mask becomes an integer of
Spark: a column's bit is looked up in its digit.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

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


def bytes_reversed(mask: Column) -> Column:
    """The same bytes in the other order, as hexadecimal text."""
    whole = F.concat(F.repeat(F.lit("0"), F.length(mask) % 2), mask)
    return F.array_join(F.reverse(F.regexp_extract_all(whole, F.lit("(..)"), F.lit(1))), "")
