"""What a piece of work costs: seconds on the clock, and CPU seconds of this process and its JVM.

On a machine that others use the clock says little; CPU seconds (user and system, garbage collection and compilation
included) repeat within a few percent.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

import psutil
from pyspark import SparkContext


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float

    def over(self, other: Cost) -> Cost:
        return Cost(self.wall / other.wall, self.cpu / other.cpu)

    @classmethod
    def sum(cls, costs: Iterable[Cost]) -> Cost:
        each = list(costs)
        return cls(sum(cost.wall for cost in each), sum(cost.cpu for cost in each))

    @classmethod
    def middle(cls, costs: list[Cost]) -> Cost:
        """The median of each, by itself."""
        return cls(median(cost.wall for cost in costs), median(cost.cpu for cost in costs))


def measure(work: Callable[[], object]) -> Cost:
    return _measured(work, _cpu_seconds)


def measure_children(work: Callable[[], object]) -> Cost:
    """CPU seconds of the processes that the work starts, and of theirs; each must be over, and waited for, when it ends."""
    return _measured(work, _cpu_of_children)


def _measured(work: Callable[[], object], cpu_seconds: Callable[[], float]) -> Cost:
    cpu, started = cpu_seconds(), time.perf_counter()
    work()
    return Cost(time.perf_counter() - started, cpu_seconds() - cpu)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_seconds() -> float:
    gateway = SparkContext._gateway
    assert gateway is not None, "a session is open"
    processes = [psutil.Process(), psutil.Process(gateway.proc.pid)]
    times = [process.cpu_times() for process in processes]
    return float(sum(time_.user + time_.system for time_ in times))
