"""The JVM's class archive (class data sharing): Spark's classes, parsed and checked once, so that every start of a job
takes about half the time. ``python -m tidemark.lake.cds_archive`` makes it (``make setup`` does).

An archive that does not fit the JVM or its class path is not used; nothing but speed depends on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tidemark.lake.spark_conf import spark_home
from tidemark.lake.tuning import ARCHIVE, QUICK_JAVA
from tidemark.settings import Settings

# What the classes of the archive are collected from: an hour of a feed, from its export to its tables.
_WORK = """
from pathlib import Path
from tidemark.feeds.loading import load_feed
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample
settings = Settings()
ibm.generate(settings.home, Sample(hours=1, events=30, seed=1))
run_hour(load_feed(settings.home / "feeds/payroll.yaml"), "2026-11-20T00", settings)
"""


def make(settings: Settings) -> bool:
    """Make the archive beside the jars, unless it is there for these jars and this Java. Whether there was work to do.

    Raises ``subprocess.CalledProcessError`` when the work it watches fails.
    """
    folder = settings.path(settings.jars)
    archive, stamp = folder / ARCHIVE, folder / f"{ARCHIVE}.made-for"
    jars = sorted((*folder.glob("*.jar"), *spark_home().glob("jars/*.jar")))
    # A jar of another time is another one to Java.
    wanted = "\n".join((os.environ.get("JAVA_HOME", ""), *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars)))
    if archive.is_file() and stamp.is_file() and stamp.read_text() == wanted:
        return False
    archive.unlink(missing_ok=True)
    with TemporaryDirectory(prefix="tidemark-classes-") as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_")}
        environment = {
            **kept,
            "TIDEMARK_HOME": home,
            "TIDEMARK_EXPORTS": f"{home}/exports",
            "TIDEMARK_JARS": str(folder),
            "TIDEMARK_SPARK_CONF": json.dumps(
                {"spark.driver.extraJavaOptions": f'{QUICK_JAVA} "-XX:ArchiveClassesAtExit={archive}"'}
            ),
        }
        subprocess.run([sys.executable, "-c", _WORK], env=environment, check=True, capture_output=True, text=True)
    stamp.write_text(wanted)
    return True


def main() -> None:
    """Make the archive; a failure is reported and does no harm."""
    settings = Settings()
    try:
        made = make(settings)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"no class archive, Spark will start more slowly: {error.stderr[-2000:]}\n")
        return
    size = Path(settings.path(settings.jars) / ARCHIVE).stat().st_size >> 20
    sys.stdout.write(f"the class archive {'is made' if made else 'is there already'} ({size} MB)\n")


if __name__ == "__main__":
    main()
