"""Audit findings: what an audit found to be wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AuditFinding:
    """``kind``: what was compared; ``where``: hour, object, table; ``found``: what is there and what should be;
    ``fix``: what to do. The texts may hold values that came from messages."""

    kind: str
    where: str
    found: str
    fix: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.where}: {self.found}\n  To fix: {self.fix}"
