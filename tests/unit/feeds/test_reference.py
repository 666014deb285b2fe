"""The generated pages of docs are those that the models give."""

from __future__ import annotations

from pathlib import Path

from tidemark.feeds import reference, settings_reference
from tidemark.settings import Settings

PROJECT = Path(__file__).parents[3]


def test_the_reference_of_feed_files_is_fresh() -> None:
    assert (PROJECT / reference.PAGE).read_text("utf-8") == reference.feed_reference(), "run: make docs"


def test_the_reference_of_settings_is_fresh_and_names_every_variable() -> None:
    page = (PROJECT / settings_reference.PAGE).read_text("utf-8")
    assert page == settings_reference.settings_reference(), "run: make docs"
    for name in Settings.model_fields:
        assert f"| `TIDEMARK_{name.upper()}` |" in page
