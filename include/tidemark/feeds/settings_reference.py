"""Writes ``docs/settings-reference.md``: every setting of an installation, from the model that reads them.

Run ``make docs`` after a change of :class:`tidemark.settings.Settings`; a test fails while the file is out of date.
"""

from __future__ import annotations

from pathlib import Path

from tidemark.feeds.reference import Row, describe_key, markdown_table, write_page
from tidemark.settings import Settings

PAGE = Path("docs/settings-reference.md")

_INTRODUCTION = """\
# Every setting of an installation

Settings are environment variables. Every default works on a laptop: nothing has to be set to begin, and an empty
variable is as good as none. A path is a path of this machine; where `s3://bucket/prefix` is allowed, the meaning says so. A
mapping is written as JSON.

This page is generated from the model: `make docs`.

"""


def settings_reference() -> str:
    """The page as Markdown."""
    prefix = Settings.model_config["env_prefix"]
    fields = Settings.model_fields.items()
    return _INTRODUCTION + markdown_table(
        _row(describe_key(f"{prefix}{name}".upper(), field)) for name, field in fields
    )


def _row(row: Row) -> Row:
    """The row with a default that is the same wherever the page is made."""
    key, kind, default, meaning = row
    return key, kind, "the current folder" if default == f"`{Path.cwd()}`" else default, meaning


if __name__ == "__main__":
    write_page(PAGE, settings_reference())
