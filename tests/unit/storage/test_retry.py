from __future__ import annotations

import pytest

from tidemark.errors import ConflictError, ExportError, TerminalError, TidemarkError, TransientError
from tidemark.lake.catalog import reading
from tidemark.storage.retry import retry


def failing(times: int, error: TidemarkError) -> tuple[list[int], object]:
    """The arguments of each call, and a function that fails ``times`` times before it doubles a number."""
    asked: list[int] = []

    def double(number: int) -> int:
        """Twice as much."""
        asked.append(number)
        if len(asked) <= times:
            raise error
        return 2 * number

    return asked, double


def test_what_can_pass_is_tried_again() -> None:
    asked, double = failing(3, TransientError("S3 did not answer"))
    assert retry(double)(21) == 42
    assert asked == [21] * 4
    assert retry(double).__doc__ == "Twice as much."


@pytest.mark.parametrize(
    ("error", "tries"), [(TransientError("no answer"), 4), (ConflictError("changed"), 1), (ExportError("truncated"), 1)]
)
def test_what_stays_is_raised(error: TidemarkError, tries: int) -> None:
    asked, double = failing(9, error)
    with pytest.raises(type(error)) as raised:
        retry(double)(1)
    assert raised.value is error and len(asked) == tries


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (OSError("connection reset"), TransientError),
        (FileNotFoundError("lake/shop/orders/data/1.parquet"), TerminalError),
    ],
)
def test_a_lake_that_cannot_be_read_says_so(failure: Exception, kind: type[TidemarkError]) -> None:
    with pytest.raises(kind) as raised, reading("shop", "orders"):
        raise failure
    assert raised.value.table == "shop.orders" and raised.value.fix
