"""The Java libraries that Spark needs beside itself: pinned here, fetched once into ``Settings.jars``.

``python -m tidemark.lake.jars`` fetches them (``make setup`` and the image do). Spark's own resolver does the work, so its
usual settings apply, a mirror or proxy included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.errors import ConfigError, TransientError
from tidemark.lake.spark_conf import spark_home
from tidemark.settings import Settings

_AWS_SDK = "2.29.52"  # the one hadoop-aws 3.4.2 was built against

COORDINATES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",  # S3FileIO: the tables on S3
    "org.apache.hadoop:hadoop-aws:3.4.2",  # S3A: landed objects on S3
    f"software.amazon.awssdk:s3-transfer-manager:{_AWS_SDK}",
    f"software.amazon.awssdk:apache-client:{_AWS_SDK}",
    "org.apache.spark:spark-avro_2.13:4.1.1",  # Avro exports and Avro messages
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.postgresql:postgresql:42.7.7",
)

EXCLUDED = (
    "software.amazon.awssdk:bundle",  # hadoop-aws asks for the whole SDK, 640 MB
    # Spark brings newer ones of these; older ones on the driver's class path would come before them.
    "io.netty:*",
    "org.slf4j:*",
    "org.apache.httpcomponents:*",
    "commons-codec:*",
    "commons-logging:*",
)

#: Whose jars are taken only where they are asked for by name. Iceberg's bundle holds all the rest that S3A uses, newer: a
#: class path on which a class is twice works or fails by the order of its jars, and an executor's has none.
ONLY_AS_NAMED = "software.amazon."

#: Written last, so a folder with it is whole. Holds what was asked for.
STAMP = "coordinates.txt"


def fetch(folder: Path) -> bool:
    """Make ``folder`` hold the jars of :data:`COORDINATES` and their dependencies, and nothing else of an older set.

    Returns whether there was something to do. Raises :class:`TransientError` when they cannot be fetched,
    :class:`ConfigError` when Spark is not installed.
    """
    without = (*EXCLUDED, f"other {ONLY_AS_NAMED}*")
    wanted = "\n".join((*COORDINATES, *(f"without {name}" for name in without))) + "\n"
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".fetch-") as ivy:
        jars = [jar for jar in resolve(Path(ivy), COORDINATES, EXCLUDED) if is_wanted(jar.name)]
        stamp.unlink(missing_ok=True)
        for old in folder.glob("*.jar"):
            old.unlink()
        for jar in jars:
            shutil.move(jar, folder / jar.name)
    stamp.write_text(wanted)
    return True


def is_wanted(name: str) -> bool:
    """Whether a jar that was resolved belongs to the set. ``name``: ``<group>_<artifact>-<version>.jar``."""
    named = {"{}_{}-{}.jar".format(*coordinate.split(":")) for coordinate in COORDINATES}
    return name in named or not name.startswith(ONLY_AS_NAMED)


def resolve(ivy: Path, coordinates: Sequence[str], excluded: Sequence[str] = ()) -> list[Path]:
    """The jars of these coordinates and all that they depend on, fetched into an empty folder. Raises as :func:`fetch`."""
    home = spark_home()
    nothing = ivy / "nothing.py"
    nothing.write_text("")
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", "local[1]"),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--packages", ",".join(coordinates)),
        *(("--exclude-packages", ",".join(excluded)) if excluded else ()),
        str(nothing),
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    jars = sorted((ivy / "jars").glob("*.jar"))
    if done.returncode or not jars:
        output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise TransientError(
            f"the jars for Spark could not be fetched:\n{output}",
            fix="check the network (or set Spark's own mirror settings) and run `python -m tidemark.lake.jars` again",
        )
    return jars


def main() -> int:
    settings = Settings()
    folder = settings.path(settings.jars)
    try:
        fetched = fetch(folder)
    except (ConfigError, TransientError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    count = len(list(folder.glob("*.jar")))
    sys.stdout.write(f"{count} jars {'fetched into' if fetched else 'are already in'} {folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
