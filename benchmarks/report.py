"""The benchmark's results: as one JSON document, as a table for the terminal, as Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.case import Case
from benchmarks.generate import Workload
from benchmarks.kept import keep, load_kept
from benchmarks.measure import Cost

#: By case of ``benchmarks.run``, what it is held against; of some, at most so many times as dear (CPU).
RIVALS = {"decode": "floor", "merge-on-read": "floor", "copy-on-write": "merge-on-read", "hour": "merge-on-read"}
GOALS = {"decode": 1.25, "hour": 2.0}
Report = dict[str, Any]


def make(workload: Workload, codec: str, cases: Sequence[Case], wrong: Mapping[str, dict[str, int]]) -> Report:
    """What ``benchmarks.run`` found, with the workload and the machine."""
    return {
        "workload": asdict(workload) | {"codec": codec},
        "machine": {
            "cpus": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 1e9),
            "system": platform.platform(), "load": os.getloadavg()[0],
        },
        **compare(cases, RIVALS, GOALS), "differences": wrong,
    }  # fmt: skip


def compare(cases: Sequence[Case], rivals: Mapping[str, str], goals: Mapping[str, float]) -> Report:
    """``rows``: medians of each case and step, the ratios within each round; ``goals``: how they fared.

    ``rivals``: by case, what it is held against. ``goals``: how many times as dear as that it may be (CPU).
    """
    rounds = {case.name: case.rounds for case in cases}
    rows = []
    for case in cases:
        rival = rivals.get(case.name)
        for step in case.rounds[0]:
            costs = [round_[step] for round_ in case.rounds]
            row = {"case": case.name, "step": step, **asdict(Cost.middle(costs)), "against": None, "ratio": None}
            if rival in rounds:
                ratios = [cost.over(other[rival]) for cost, other in zip(costs, rounds[rival], strict=True)]
                row |= {"against": rival, "ratio": asdict(Cost.middle(ratios))}
            rows.append(row | {"rounds": [asdict(cost) for cost in costs]})
    fared = [
        {"case": row["case"], "against": row["against"], "at_most": goals[row["case"]], "ratio": row["ratio"]["cpu"]}
        for row in rows
        if row["case"] in goals and row["case"] == row["step"] and row["ratio"]
    ]
    return {"goals": fared, "rows": rows}


def show(console: Console, results: Report, workload: str, *, keeps: bool) -> None:
    """Print what :func:`compare` found, beside the ratios kept of the workload, and keep it in their place if asked."""
    console.print(table(results, load_kept(workload)))
    if keeps:
        keep(workload, ratios(results))


def _cells(row: Report) -> list[str]:
    ratio = row["ratio"]
    name = str(row["case"]) if row["case"] == row["step"] else f"  {row['step']}"
    against = f"{row['against']}" if ratio else ""
    cpu, wall = (f"{ratio['cpu']:.2f}", f"{ratio['wall']:.2f}") if isinstance(ratio, dict) else ("", "")
    return [name, f"{row['cpu']:.1f}", f"{row['wall']:.1f}", against, cpu, wall]


def name_of(report: Report) -> str:
    """The workload, as it is named where ratios are kept."""
    workload = report["workload"]
    return f"{workload['events']} events onto {workload['base']}, {workload['codec']}"


def ratios(report: Report) -> dict[str, float]:
    """By case and step, the CPU of each against its rival's, as far as it has one."""
    return {_name(row): round(row["ratio"]["cpu"], 2) for row in report["rows"] if row["ratio"]}


def _name(row: Report) -> str:
    return row["case"] if row["case"] == row["step"] else f"{row['case']}: {row['step']}"


HEAD = ("case", "CPU s", "clock s", "against", "× CPU", "× clock")


def table(report: Report, kept: Mapping[str, float]) -> Table:
    """For a terminal. ``kept``: the ratios of another run, by case and step."""
    drawn = Table(title="medians; ratios are medians of the ratios within each round")
    for number, name in enumerate(HEAD):
        drawn.add_column(name, justify="left" if number in (0, 3) else "right")
    drawn.add_column("kept × CPU", justify="right")
    for row in report["rows"]:
        drawn.add_row(*_cells(row), f"{kept[_name(row)]:.2f}" if _name(row) in kept else "")
    drawn.caption = "; ".join(_goal(goal) for goal in report["goals"])
    return drawn


def _goal(goal: Report) -> str:
    verdict = "kept" if goal["ratio"] <= goal["at_most"] else "missed"
    return f"{goal['case']}: {goal['ratio']:.2f} × {goal['against']}, goal {goal['at_most']}: {verdict}"


def markdown(report: Report) -> str:
    workload, machine = report["workload"], report["machine"]
    lines = [
        f"# {workload['events']:,} events onto {workload['base']:,} rows, {workload['codec']}",
        "",
        f"{machine['cpus']} CPUs, {machine['memory_gb']} GB, {machine['system']}; load {machine['load']:.1f}",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{'|'.join('---' for _ in HEAD)}|",
        *(f"| {' | '.join(cell.replace('  ', '· ') for cell in _cells(row))} |" for row in report["rows"]),
        "",
        *(f"- {_goal(goal)}" for goal in report["goals"]),
        *(f"- {name}: the table differs from the source's by {what}" for name, what in report["differences"].items()),
    ]
    return "\n".join(lines) + "\n"
