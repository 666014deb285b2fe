"""Where the parts of the page's charts stand."""

from __future__ import annotations

import pytest

from tidemark.page.shapes import bars, flow


def test_the_highest_bar_fills_the_picture_and_nothing_is_a_line() -> None:
    found = bars([0, 50, None, 100], 100, 20)
    assert [bar and (bar.x, bar.y, bar.height) for bar in found] == [(0, 19, 1), (25, 10, 10), None, (75, 0, 20)]
    assert bars([], 100, 20) == [] and [bar and bar.height for bar in bars([0, 0], 10, 20)] == [1, 1]


def test_every_part_of_a_flow_is_seen_and_none_hides_another() -> None:
    """One record in quarantine among a million applied is a band too; parts of nothing are not drawn."""
    found = flow([("applied", 1_000_000), ("held", 0), ("quarantined", 1)], left=95, right=290, tall=200)
    assert [(band.name, band.count) for band in found.bands] == [("applied", 1_000_000), ("quarantined", 1)]
    assert all(band.height >= 3 for band in found.bands)
    assert all(after.y >= before.y + before.height for before, after in zip(found.bands, found.bands[1:], strict=False))
    assert all(after.middle - before.middle >= 20 for before, after in zip(found.bands, found.bands[1:], strict=False))
    assert found.whole.height == pytest.approx(sum(band.height for band in found.bands), abs=0.2)
    last = found.bands[-1]
    assert last.y + last.height <= found.height


def test_a_flow_of_nothing_is_a_picture_all_the_same() -> None:
    found = flow([("applied", 0)], left=95, right=290, tall=200)
    assert not found.bands and found.height > 0
