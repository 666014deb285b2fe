from __future__ import annotations

import pytest

from tidemark import errors
from tidemark.errors import CheckError, ExportError, TerminalError, TidemarkError, TransientError, placed

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TidemarkError)]


def test_a_message_says_where_what_and_how_to_mend() -> None:
    error = ExportError("is cut off", fix="export it again", feed="shop", hour="2026-11-20T07", object="a.gz")
    assert str(error) == "feed shop, hour 2026-11-20T07, object a.gz: is cut off\n  To fix: export it again"


def test_places_that_are_learnt_later_are_in_the_message() -> None:
    error = TransientError("no answer")
    assert str(error) == "no answer"
    error.feed, error.table = "shop", "shop.orders"
    assert str(error) == "feed shop, table shop.orders: no answer"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_either_terminal_or_transient_and_says_what_it_is(kind: type[TidemarkError]) -> None:
    assert kind.__doc__
    if kind is not TidemarkError:
        assert issubclass(kind, TerminalError) != issubclass(kind, TransientError)


def test_an_error_is_given_the_place_that_it_does_not_know() -> None:
    with pytest.raises(CheckError) as raised, placed(feed="shop", hour="2026-11-20T07", table="shop.orders"):
        raise CheckError("a check failed", table="shop.items")
    assert str(raised.value) == "feed shop, hour 2026-11-20T07, table shop.items: a check failed"
