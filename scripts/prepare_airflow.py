"""Makes Airflow's database and the feeds' pools, or brings them up to date: run before its services start.

``scripts/in-project python scripts/prepare_airflow.py``; the image's init service runs the same. After a feed was
added to a running Airflow, run it again: tasks whose pool does not exist wait for it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.orchestration.dag_support import pools, sound_feeds
from tidemark.settings import Settings


def airflow(*arguments: str) -> None:
    done = subprocess.run(["airflow", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"airflow {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def main() -> None:
    airflow("db", "migrate")
    settings = Settings()
    feeds = sound_feeds(settings.path(settings.feeds))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pools.json"
        file.write_text(json.dumps(pools(feeds)))
        airflow("pools", "import", str(file))
    sys.stdout.write(f"Airflow's database is up to date; pools for {len(feeds)} feeds.\n")


if __name__ == "__main__":
    main()
