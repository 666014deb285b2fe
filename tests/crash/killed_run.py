"""``tidemark run`` of some hours, in a process that may die: ``python -m tests.crash.killed_run FEED HOUR …``.

``TIDEMARK_TRACE`` names the file that the effects are noted in, each before it begins: ``<hour> <name>``.
``TIDEMARK_DEATH`` is the effect to die at, as JSON: ``at`` (as in the trace), ``when`` (``before`` it, ``after`` it, or
this number of seconds after it began). The whole process group gets SIGKILL, so the JVM dies with it. A run that lives
notes beside the trace (``.tables``, a JSON line an hour) what each table holds when the hour is published.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.effects import effects
from tests.crash.installation import TABLES, shown
from tidemark.cli import app
from tidemark.settings import Settings


def die() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(feed: str, hours: list[str]) -> None:
    trace, death = Path(os.environ["TIDEMARK_TRACE"]), json.loads(os.environ.get("TIDEMARK_DEATH", "{}"))
    current = ""

    def around(name: str, do: Callable[[], Any]) -> Any:
        effect = f"{current} {name}"
        with trace.open("a") as file:
            file.write(effect + "\n")
        when = death.get("when") if death.get("at") == effect else None
        if when == "before":
            die()
        if isinstance(when, float):
            threading.Timer(when, die).start()
        done = do()
        if when == "after":
            die()
        return done

    with effects(around):
        for hour in hours:
            current = hour
            app(["run", feed, "--hour", hour], standalone_mode=False)
            if not death:
                with trace.with_suffix(".tables").open("a") as file:
                    file.write(json.dumps({table: shown(Settings(), table, None) for table in TABLES}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
