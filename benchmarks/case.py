"""A case of the benchmark: its steps, and what was measured in each round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.measure import Cost, measure


@dataclass
class Case:
    """One thing to measure: its steps, and what puts everything back before (not measured)."""

    name: str
    steps: list[tuple[str, Callable[[], object]]]
    reset: Callable[[], object] = lambda: None
    table: str | None = None  # what it leaves behind, to be held against the truth
    rounds: list[dict[str, Cost]] = field(default_factory=list)

    def run(self) -> dict[str, Cost]:
        self.reset()
        costs = {name: measure(work) for name, work in self.steps}
        return {self.name: Cost.sum(costs.values()), **(costs if len(costs) > 1 else {})}
