"""Transactions beyond an hour: what the edges of all hours show, in whichever order they are known."""

from __future__ import annotations

import pytest

from tidemark.formats.dataworks.long_transactions import Span, retied, spans, unpaired


def at(number: int) -> str:
    return f"{number:032}"


EVERY = "9" * 32


def test_a_transaction_lasts_until_the_next_marker() -> None:
    assert spans(["begin:100", "end:200"]) == [Span(at(100), at(200), "tx:100")]
    assert spans(["begin:100"]) == [Span(at(100), EVERY, "tx:100")]
    assert spans(["begin:1000", "begin:99"]) == [Span(at(99), at(1000), "tx:99"), Span(at(1000), EVERY, "tx:1000")]
    assert spans(["begin:100", "bound:150", "end:200"]) == [Span(at(100), at(150), "tx:100")]
    both = [Span(at(100), at(150), "tx:100"), Span(at(150), at(200), "tx:150")]
    assert spans(["begin:100", "bound:150", "begin:150", "end:200"]) == both, (
        "an hour knows of it what another does not"
    )
    assert spans([]) == []
    assert spans(["end:200"]) == [], "an end alone does not show where its transaction began"


def test_edges_without_their_other_half() -> None:
    edges = ["begin:100", "end:200", "end:250", "begin:300", "begin:400"]
    assert unpaired(edges) == ["end:250", "begin:300", "begin:400"]
    assert unpaired(["begin:100", "bound:150", "end:200"]) == ["begin:100", "end:200"]
    assert unpaired([]) == []


def test_where_names_change() -> None:
    assert retied(["begin:200"], ["begin:200", "end:300"]) == [(at(300), EVERY, "")], "rows in it are named as before"
    assert retied(["end:300"], ["begin:200", "end:300"]) == [(at(200), at(300), "")]
    assert retied([], ["begin:200"]) == [(at(200), EVERY, "")], "no hour before had an edge"
    assert retied(["begin:200"], ["begin:200", "begin:250"]) == [(at(250), EVERY, ""), (at(250), EVERY, "")]
    assert retied(["begin:200", "end:300"], ["end:300", "begin:200"]) == []


@pytest.mark.parametrize("first", ["end:250", "begin:250"])
def test_a_transaction_with_another_end_is_another_one(first: str) -> None:
    """Its verdict may be another, or it never ended."""
    found = retied(["begin:200", "end:300"], ["begin:200", first, "end:300"])
    assert (at(200), at(300), "tx:200") in found
