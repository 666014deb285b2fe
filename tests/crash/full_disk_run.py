"""Hours on a disk that is full again and again: ``python -m tests.crash.full_disk_run FEED RESULT HOUR …``.

The lake is a file system of its own (this runs in a namespace of its own, see the test), with ever a little more room
than what is in it. Each hour is tried until it fits. RESULT gets how often an hour failed, and the state at the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.crash.installation import state
from tidemark.feeds.loading import find_feed
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings

#: Bytes that are free when an hour is tried, one after the other. The last is enough for any hour of the test.
ROOM = (0, 20 << 10, 120 << 10, 64 << 20)


def main(feed: str, result: str, hours: list[str]) -> None:
    settings = Settings()
    lake = Path(settings.lake_root)
    lake.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM[-1]}", "tmpfs", lake], check=True)
    failures = []
    for hour in hours:
        for free in ROOM:
            room = shutil.disk_usage(lake).used + free
            subprocess.run(["mount", "-o", f"remount,size={room or 4096}", lake], check=True)
            try:
                run_hour(find_feed(feed, settings), hour, settings)
                break
            except Exception as error:
                if free == ROOM[-1]:
                    raise
                failures.append(f"{hour}, {free} bytes free: {type(error).__name__}: {error}"[:1000])
    Path(result).write_text(json.dumps({"failures": failures, "state": state(settings)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
