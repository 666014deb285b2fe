"""Keeps a small lake as this release makes it: tests/data/lakes/<version>.tar.xz, for the tests of all later releases.

    scripts/in-project python scripts/keep_lake.py [ARCHIVE]

Done once for a release, just before it is published; the archive of a release that is out is never made again. The
lake has two hours of a generated IBM feed: a transaction that waits for the third, a record in quarantine, tables in
Iceberg and one in Parquet folders. Beside it are the exports of a third hour, what every table must hold at every
hour's cut, and the receipts. A lake holds absolute paths, so it is made where the tests put it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import yaml

from tidemark import __version__
from tidemark.settings import Settings

PROJECT = Path(__file__).resolve().parent.parent
#: Where the lakes of all releases are made, and where the tests put them.
KEPT = Path("/var/tmp/tidemark-kept-lakes")
HOURS = ("2026-11-20T00", "2026-11-20T01")


def main() -> None:
    """Make the lake, and the archive of it."""
    home = KEPT / __version__
    archive = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / f"tests/data/lakes/{__version__}.tar.xz"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    sample = ("tidemark", "sample", "ibm", str(home), "--hours", "3", "--events", "60", "--seed", "5", "--poison", "1")
    _run(home, *sample, "--first-hour", HOURS[0])
    feed = home / "feeds/payroll.yaml"
    declared = yaml.safe_load(feed.read_text("utf-8"))
    declared["tables"]["HR.POSITION"]["storage"] = "parquet"
    feed.write_text(yaml.safe_dump(declared, sort_keys=False), "utf-8")
    _run(home, "tidemark", "run", "payroll", "--hour", HOURS[0], "--to", HOURS[1])
    receipts = _run(home, "tidemark", "receipts", "payroll", "--json")
    (home / "receipts.jsonl").write_text(receipts, "utf-8")
    shutil.rmtree(home / "lake/_locks")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(home, __version__, filter=_anonymous)
    shutil.rmtree(home)
    sys.stdout.write(f"{archive}: {archive.stat().st_size // 1024} kB\n")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whoever made the archive is not in it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _run(home: Path, *command: str) -> str:
    """A command on the installation in ``home``; what it writes."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
    settings = {
        "TIDEMARK_HOME": str(home), "TIDEMARK_FEEDS": "feeds", "TIDEMARK_EXPORTS": "exports", "TIDEMARK_LAKE": "lake",
        "TIDEMARK_JARS": str(Settings().path(Settings().jars)),
    }  # fmt: skip
    return subprocess.run(command, env=others | settings, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
