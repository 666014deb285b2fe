"""What spark-submit is told of a job, by where the job's driver runs. Neither Airflow nor Spark is imported here.

A driver here has what this process has. One in a container of YARN starts in a folder of its own: the feed's file, the
modules of checks, the jars and the settings are sent into it. One in a pod of Kubernetes is of an image that has the
project where it is here: it is sent the settings, but no secret.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from tidemark.errors import ConfigError
from tidemark.lake.spark_conf import INSTALLATION, LOG4J, SECRET, as_property, spark_conf
from tidemark.settings import Settings

#: What is said to a driver elsewhere as a variable of its environment: it may hold a secret, whatever its name.
_VARIABLE = re.compile(r"^spark\.(yarn\.appMasterEnv|kubernetes\.driverEnv)\.")


@dataclass(frozen=True)
class Place:
    """Where a job runs, as the connection says."""

    master: str
    """Spark's master: `local[*]`, `spark://…`, `yarn`, `k8s://…`."""
    mode: str
    """Spark's deploy mode: `client` runs the driver on this machine, `cluster` in the cluster."""

    @property
    def is_container(self) -> bool:
        """Whether the driver runs in a container of YARN."""
        return self.mode == "cluster" and self.master.startswith("yarn")

    @property
    def is_pod(self) -> bool:
        """Whether the driver runs in a pod of Kubernetes."""
        return self.mode == "cluster" and self.master.startswith("k8s://")

    def check(self) -> None:
        """ConfigError for a deploy mode that Spark does not have, or not for Python on this master."""
        if self.mode not in ("client", "cluster"):
            raise ConfigError(
                f"the connection spark_default has the deploy mode {self.mode!r}",
                fix='its extra says {"deploy-mode": "client"} or {"deploy-mode": "cluster"}',
            )
        if self.mode == "cluster" and not (self.is_container or self.is_pod):
            raise ConfigError(
                f"the connection spark_default asks for drivers in the cluster, which {self.master} does not have for Python",
                fix='leave "deploy-mode" out of its extra, or let it lead to YARN or Kubernetes',
            )


@dataclass(frozen=True)
class Submission:
    """What spark-submit gets."""

    application: str
    """The path of the job's file where the driver runs; with `local://` before it, where that is in a pod's image."""
    conf: dict[str, str]
    """Spark's settings, by name. They are on the command line, which every process of the machine can read."""
    properties_file: str | None
    """The path of a file with the settings that nobody else may read; None: there are none."""


def plan_submission(job: str, feed: str, settings: Settings, place: Place, folder: Path, *, small: bool) -> Submission:
    """The submission of a feed's job. ``job``: the path of its file. ``folder``: this submission's own, which other users
    cannot see into; it must be there until spark-submit is over. ``small``: the job has little to do.

    Only what must be there before the job's JVM starts, and what a driver elsewhere would not find: the job itself sets the
    rest when it opens its session. The catalog's own settings, which may hold a password, stay out of it. ConfigError for a
    secret that Spark's property files cannot hold.
    """
    on_master = settings.model_copy(update={"spark_master": place.master})
    if place.is_container:
        conf = _for_container(spark_conf(on_master, small=small, sent=True), settings, _pack(feed, settings, folder))
    else:
        conf = {"spark.pyspark.driver.python": sys.executable, **spark_conf(on_master, small=small)}
    if place.is_pod:
        job, conf = f"local://{job}", _for_pod(conf, settings)
    conf = {key: value for key, value in conf.items() if not key.startswith("spark.sql.catalog.")}
    hidden = [key for key in conf if SECRET.search(key) or _VARIABLE.match(key)]
    properties = folder / "hidden.conf" if hidden else None
    if properties:
        properties.write_text("".join(as_property(key, conf.pop(key)) for key in hidden), encoding="utf-8")
    return Submission(job, conf, str(properties) if properties else None)


def _pack(feed: str, settings: Settings, folder: Path) -> Path:
    """An archive of what of the installation a job of the feed needs."""
    archive = folder / f"{INSTALLATION}.zip"
    with ZipFile(archive, "w") as packed:
        packed.write(LOG4J, LOG4J.name)
        if (file := settings.path(settings.feeds) / f"{feed}.yaml").is_file():  # the job says that there is none
            packed.write(file, f"feeds/{feed}.yaml")
        for module in sorted(settings.path(settings.checks).glob("*.py")):
            packed.write(module, f"checks/{module.name}")
    return archive


def _for_container(conf: dict[str, str], settings: Settings, installation: Path) -> dict[str, str]:
    """The driver finds all that is sent in the folder in which it starts."""
    there = settings.model_copy(
        update={
            "home": Path(INSTALLATION),
            "feeds": Path("feeds"),
            "checks": Path("checks"),
            "lake": settings.lake_root,
            "landing": settings.landing_root,
            "exports": settings.location(settings.exports),
            "catalog_uri": settings.catalog,
        }
    )
    variables = _variables(there, there.model_fields_set - {"jars"})
    archives = [conf.get("spark.archives"), f"{installation}#{INSTALLATION}"]
    return {
        # YARN would run the driver again by itself, whatever it failed of: Airflow decides that.
        "spark.yarn.maxAppAttempts": "1",
        **{f"spark.yarn.appMasterEnv.{name}": _quote(value) for name, value in variables.items()},
        **conf,
        "spark.archives": ",".join(filter(None, archives)),
    }


def _for_pod(conf: dict[str, str], settings: Settings) -> dict[str, str]:
    """The driver and the executors find all in the image. Secrets come from the cluster's own (`secretKeyRef`)."""
    secret = {name for name, field in Settings.model_fields.items() if not field.repr}
    shown = {key: value for key, value in settings.spark_conf.items() if not SECRET.search(key)}
    there = settings.model_copy(update={"home": settings.home.resolve(), "spark_conf": shown})
    variables = _variables(there, there.model_fields_set - secret)
    conf = {f"spark.kubernetes.driverEnv.{name}": value for name, value in variables.items()} | conf
    if "spark.jars" not in settings.spark_conf and "spark.jars" in conf:
        conf["spark.executor.extraClassPath"] = conf["spark.driver.extraClassPath"]
        del conf["spark.jars"]
    return conf


def _variables(settings: Settings, names: Collection[str]) -> dict[str, str]:
    """These settings as variables of an environment. The master is no driver's own: it was submitted to one."""
    values = settings.model_dump(mode="json", include={*names} - {"spark_master"})
    return {
        f"TIDEMARK_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }


def _quote(value: str) -> str:
    """A value as YARN's launch script needs it, which puts it between double quotes as it is, after it has put other things
    in the place of ``{{``, ``}}`` and ``<CPS>``."""
    escaped = re.sub(r'([\\"$`])', r"\\\1", value)
    return re.sub(r"(?<=\{)(?=\{)|(?<=\})(?=\})|(?<=<)(?=CPS>)", '""', escaped)
