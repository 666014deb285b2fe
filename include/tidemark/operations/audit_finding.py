"""Audit findings: what an audit found to be wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AuditFinding:
    """Something that is wrong. Its texts may hold values that came from messages."""

    kind: str
    """What was compared: a receipt, a manifest, the change log, a cut."""
    where: str
    """Of what: the hour, object, table or publication."""
    found: str
    """What is there, and what should be."""
    fix: str
    """What to do about it; empty: nothing is known."""

    def __str__(self) -> str:
        return f"{self.kind}, {self.where}: {self.found}\n  To fix: {self.fix}"
