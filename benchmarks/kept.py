"""Ratios that were kept of earlier runs, by workload."""

from __future__ import annotations

import json
from collections.abc import Mapping

from benchmarks.folders import HOME

KEPT = HOME / "benchmarks/kept.json"


def load_kept(workload: str) -> dict[str, float]:
    """The ratios of a workload by name; empty where none were kept."""
    return _all_kept().get(workload, {})


def keep(workload: str, ratios: Mapping[str, float]) -> None:
    """Keep ratios of a workload, in place of those of the same names."""
    KEPT.write_text(json.dumps(_all_kept() | {workload: load_kept(workload) | dict(ratios)}, indent=2) + "\n")


def _all_kept() -> dict[str, dict[str, float]]:
    kept: dict[str, dict[str, float]] = json.loads(KEPT.read_text())
    return kept
