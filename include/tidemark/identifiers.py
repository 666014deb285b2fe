"""Names that leave messages and files and enter SQL, paths and tags: what is allowed, and how they are quoted."""

from __future__ import annotations

import re

_PART = r"[a-z_][a-z0-9_$]{0,127}"

#: The schema of the lake's own tables: none of a source is published in it.
RESERVED_SCHEMA = "tidemark"

#: A published table, ``schema.table``. In small letters, for some readers and catalogs do not tell names apart that differ
#: only in case. The same expression holds in Python and in Java.
PUBLISHED_NAME = rf"(?!{RESERVED_SCHEMA}\.){_PART}\.{_PART}"

#: How ``tx`` begins where it only ties the two messages of one update together: no transaction of the source.
PAIR = "pair:"

#: The struct that every published row carries; no source column may have this name.
TIDEMARK = "_tidemark"


def is_published_name(text: str) -> bool:
    """Whether a table may be published under this name."""
    return re.fullmatch(PUBLISHED_NAME, text) is not None


def default_name(source_table: str) -> str:
    """The published name of a source's table that the feed file gives none: the last two of its names, in lower case.
    Not always one that can be published; see :func:`is_published_name`."""
    return ".".join(source_table.lower().split(".")[-2:])


def publication_name(feed: str, hour: str, sequence: int) -> str:
    """A publication's name, which its audit branches carry: ``shop_2026_11_20T07_12``."""
    return f"{feed}_{hour.replace('-', '_')}_{sequence}"


def publication_of_branch(branch: str, feed: str) -> int | None:
    """The number of the publication that a branch was made for; None for one that is not Tidemark's, or another feed's:
    readers may have branches of their own."""
    made = re.fullmatch(rf"(?:audit|cut)_{re.escape(feed)}_\d{{4}}_\d\d_\d\dT\d\d_(\d+)", branch)
    return int(made[1]) if made else None


def quote(name: str) -> str:
    """An SQL identifier from hostile text: back-ticked, back-ticks doubled."""
    return "`" + name.replace("`", "``") + "`"
