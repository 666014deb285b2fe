"""Processes in the background, noted in a file so that another command can stop them and all that they started."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

GRACE = 20.0


class Background:
    """Processes whose output goes to ``logs`` (``<name>.log``), and which ``record`` names."""

    def __init__(self, record: Path, logs: Path) -> None:
        self.record = record
        self.logs = logs

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, **how: Any
    ) -> psutil.Process:
        """Start a command in a session of its own. ``how``: more for ``subprocess.Popen``."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                command,
                env=environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                **how,
            )
        process = psutil.Process(started.pid)
        running = [self._entry(known, other) for known, other in self.alive().items()]
        self.record.write_text(json.dumps([*running, self._entry(name, process)]))
        return process

    @staticmethod
    def _entry(name: str, process: psutil.Process) -> dict[str, Any]:
        return {"name": name, "pid": process.pid, "started": process.create_time()}

    def alive(self) -> dict[str, psutil.Process]:
        """Those that still run, by name. A process id that was given to another program since is not ours."""
        found = {}
        for entry in json.loads(self.record.read_text()) if self.record.is_file() else []:
            try:
                process = psutil.Process(entry["pid"])
                if abs(process.create_time() - entry["started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE:
                    found[entry["name"]] = process
            except psutil.NoSuchProcess:
                continue
        return found

    def stop(self) -> bool:
        """Stop them, the newest first, and all that they started; True when something was running."""
        processes = list(self.alive().values())[::-1]
        family = {process.pid: process for process in processes}
        for process in processes:
            try:
                family |= {child.pid: child for child in process.children(recursive=True)}
            except psutil.NoSuchProcess:
                continue
        for process in family.values():
            _signal(process, "terminate")
        _, left = psutil.wait_procs(list(family.values()), timeout=GRACE)
        for process in left:
            _signal(process, "kill")
        psutil.wait_procs(left, timeout=GRACE)
        self.record.unlink(missing_ok=True)
        return bool(processes)


def _signal(process: psutil.Process, how: str) -> None:
    try:
        getattr(process, how)()
    except psutil.NoSuchProcess:
        return
