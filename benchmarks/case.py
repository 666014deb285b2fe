"""A case of a benchmark: its steps, and what was measured in each round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from benchmarks.measure import Cost, measure

#: Rounds that are not counted: HotSpot compiles Spark's planner for longer than the first.
WARM_UPS = 2


@dataclass
class Case:
    """One thing to measure: its steps, and what puts everything back before (not measured). ``measure``: takes the cost of a
    step."""

    name: str
    steps: list[tuple[str, Callable[[], object]]]
    reset: Callable[[], object] = lambda: None
    table: str | None = None  # what it leaves behind, to be held against the truth
    measure: Callable[[Callable[[], object]], Cost] = measure
    rounds: list[dict[str, Cost]] = field(default_factory=list)

    def run(self) -> dict[str, Cost]:
        self.reset()
        costs = {name: self.measure(work) for name, work in self.steps}
        return {self.name: Cost.sum(costs.values()), **(costs if len(costs) > 1 else {})}


def run_rounds(
    cases: Sequence[Case], repeat: int, console: Console, warm_ups: int = WARM_UPS
) -> Iterator[tuple[int, Case]]:
    """Run all cases in turn in every round. Comes back after each with the number of the round (of the warm-ups 0 and less)
    and the case, so that what it left behind can be looked at."""
    for number in range(1 - warm_ups, repeat + 1):
        for case in cases:
            costs = case.run()
            label = f"round {number}" if number > 0 else "warm-up"
            cost = costs[case.name]
            console.print(f"{label}: {case.name} {cost.cpu:.1f} CPU s, {cost.wall:.1f} s on the clock")
            if number > 0:
                case.rounds.append(costs)
            yield number, case
