"""Differences: what an audit finds wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AuditFinding:
    """``kind``: what does not agree; ``where``: hour, object, table; ``found``: what is there and what should be;
    ``fix``: what to do. Values from messages may be in it."""

    kind: str
    where: str
    found: str
    fix: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.where}: {self.found}\n  To fix: {self.fix}"
