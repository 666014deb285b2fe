"""The order that an address asks for."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from tidemark.page.sorting import Sorting


class Line(BaseModel):
    feed: str
    behind: int | None
    health: str


LINES = [
    Line(feed="b", behind=10, health="good"),
    Line(feed="C", behind=None, health="late"),
    Line(feed="a", behind=9, health="stopped"),
]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", "bCa"),
        ("feeds.feed", "abC"),
        ("-feeds.feed", "Cba"),
        ("feeds.behind", "abC"),
        ("-feeds.behind", "baC"),
        ("feeds.health", "aCb"),
        ("tables.feed", "bCa"),
        ("feeds.nothing", "bCa"),
        ("feeds.__class__", "bCa"),
        ("feeds.model_config", "bCa"),
    ],
)
def test_rows_come_in_the_order_that_is_asked_for(asked: str, found: str) -> None:
    sorting = Sorting({"sort": asked})
    assert "".join(line.feed for line in sorting.rows("feeds", LINES)) == found
    assert "".join(line["feed"] for line in sorting.rows("feeds", [line.model_dump() for line in LINES])) == found


def test_a_second_click_turns_the_order_and_the_rest_of_the_address_stays() -> None:
    sorting = Sorting({"sort": "feeds.feed", "hour": '2026-11-20T07"&x=<'})
    assert sorting.link("feeds", "feed") == "?hour=2026-11-20T07%22%26x%3D%3C&sort=-feeds.feed#feeds"
    assert sorting.link("feeds", "behind").endswith("&sort=feeds.behind#feeds")
    assert (sorting.direction("feeds", "feed"), sorting.direction("feeds", "behind")) == ("ascending", None)
    assert Sorting({"sort": "-feeds.feed"}).direction("feeds", "feed") == "descending"
