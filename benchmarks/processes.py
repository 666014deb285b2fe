"""What processes have cost: CPU seconds and the peak of memory. Needs nothing that only the project's environment has."""

from __future__ import annotations

from pathlib import Path

import psutil


def family() -> list[psutil.Process]:
    """This process and all that it has started, directly or not, and that still run."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def cpu_seconds() -> float:
    """CPU seconds, user and system, of this process and of all that it has started, the ended ones too."""
    return float(sum(sum(process.cpu_times()[:4]) for process in family()))


def peak_mb(process: psutil.Process) -> int:
    """The most memory a process has had, as Linux has noted it."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    peaks = (int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    return next(peaks, 0)  # of a process that has just ended nothing is noted
