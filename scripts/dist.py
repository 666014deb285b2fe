"""Makes ``dist/``, what a cluster needs that has nothing of Tidemark: ``make dist``.

- ``tidemark-VERSION-py3-none-any.whl``
- ``tidemark-VERSION-environment.tar.gz``: for ``spark.archives``, the Python packages of a driver, of the versions in
  ``requirements.txt``. Its interpreter is a link to the one that this environment was made with.
- ``jars/``: the jars that Spark needs beside its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from tidemark import __version__
from tidemark.settings import Settings

PROJECT = Path(__file__).parent.parent
UV = PROJECT / ".tools/uv/bin/uv"
#: Requirements of what runs in Airflow alone.
_OF_AIRFLOW = re.compile(r"apache-airflow|fastapi\b|asyncpg\b")
#: Folders that no driver imports: Spark's own jars, which a cluster has, headers for compilers, and what packages test
#: themselves with.
_LEFT_OUT = (
    "pyspark/jars", "pyspark/examples", "pyspark/data", "pandas/tests", "pyarrow/tests", "pyarrow/include",
)  # fmt: skip


class Made(NamedTuple):
    """Where it is."""

    wheel: Path
    environment: Path
    jars: Path


def make(folder: Path) -> Made:
    """Make all of it in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run("build", "--wheel", "--quiet", "--out-dir", folder, PROJECT)
    wheel = folder / f"tidemark-{__version__}-py3-none-any.whl"
    archive = folder / f"tidemark-{__version__}-environment.tar.gz"
    with tempfile.TemporaryDirectory(prefix="tidemark-dist-") as name:
        make_environment(Path(name), wheel)
        with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
            packed.add(Path(name) / "environment", ".")
    settings = Settings()
    shutil.rmtree(folder / "jars", ignore_errors=True)
    (folder / "jars").mkdir()
    for jar in settings.path(settings.jars).glob("*.jar"):
        shutil.copy2(jar, folder / "jars")
    return Made(wheel, archive, folder / "jars")


def make_environment(work: Path, wheel: Path) -> None:
    """``environment`` in a folder: the packages of the lock that a driver needs, and the wheel."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted, locked = work / "wanted.txt", work / "locked.txt"
    wanted.write_text("\n".join(line for line in project["dependencies"] if not _OF_AIRFLOW.match(line)))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    interpreter, environment = Path(sys.base_prefix, "bin", version), work / "environment"
    lock = ("--constraint", PROJECT / "requirements.txt", "--generate-hashes")
    run("pip", "compile", "--quiet", "--python", interpreter, *lock, "--output-file", locked, wanted)
    run("venv", "--quiet", "--relocatable", "--python", interpreter, environment)
    into = ("--quiet", "--python", environment / "bin/python")
    run("pip", "sync", *into, "--require-hashes", locked)
    for folder in _LEFT_OUT:
        shutil.rmtree(environment / "lib" / version / "site-packages" / folder)
    # Compiled here, all of it: a driver's folder is new each time.
    run("pip", "install", *into, "--compile-bytecode", "--no-deps", wheel)


def run(*arguments: str | Path) -> None:
    """uv, with the machine's certificates, as the set-up has it."""
    certificates = {"UV_SYSTEM_CERTS": os.environ.get("UV_SYSTEM_CERTS", "true")}
    subprocess.run([UV, *arguments], check=True, cwd=PROJECT, env=os.environ | certificates)


if __name__ == "__main__":
    for made in make(PROJECT / "dist"):
        size = sum(file.stat().st_size for file in ([made] if made.is_file() else made.iterdir()))
        sys.stdout.write(f"{made.relative_to(PROJECT)}  {size >> 20} MB\n")
