"""Names: what may be published, and which branches of a table are a feed's own."""

from __future__ import annotations

import pytest

from tidemark.identifiers import is_published_name, publication_name, publication_of_branch


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("shop.orders", True), ("tidemarks.orders", True), ("orders.tidemark", True), ("_a.$b", False), ("a.b$", True),
        ("tidemark.orders", False), ("TideMark.receipts", False), ("Shop.orders", False),
        ("shop.Orders", False), ("orders", False), ("a.b.c", False), ("a.b\n", False),
        ("a." + "b" * 129, False),
    ],
)  # fmt: skip
def test_what_a_table_may_be_published_as(name: str, may: bool) -> None:
    assert is_published_name(name) == may


@pytest.mark.parametrize("kind", ["audit", "cut"])
def test_a_publications_branches_tell_its_number(kind: str) -> None:
    branch = f"{kind}_{publication_name('shop_eu', '2026-11-20T07', 12)}"
    assert publication_of_branch(branch, "shop_eu") == 12


@pytest.mark.parametrize(
    "branch",
    ["main", "audit_mine", "audit_2025", "compacted_1", "audit_crm_2026_11_20T07_12", "audit_shop_2026_11_20T07_12x"],
)
def test_a_branch_that_somebody_else_made_is_none_of_the_feeds(branch: str) -> None:
    assert publication_of_branch(branch, "shop") is None
