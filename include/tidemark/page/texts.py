"""Texts from messages, as the page shows them."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text from a message without characters that do not print, but for the ends of lines."""
    return "".join(one if one.isprintable() or one == "\n" else "�" for one in text)
