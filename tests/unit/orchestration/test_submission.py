"""What spark-submit is told, by where the driver runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tidemark.errors import ConfigError
from tidemark.orchestration.submission import Place, Submission, plan_submission
from tidemark.settings import Settings

HERE = Place("yarn", "client")
CONTAINER = Place("yarn", "cluster")
POD = Place("k8s://https://host:6443", "cluster")
VARIABLE = "spark.yarn.appMasterEnv.TIDEMARK_"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An installation with secrets of several kinds."""
    for name in ("feeds/shop.yaml", "checks/orders.py", "jars/org.apache.iceberg_x.jar", "jars/a.jar"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return Settings(
        home=tmp_path,
        feeds=Path("feeds"),
        checks=Path("checks"),
        jars=Path("jars"),
        lake="s3://bucket/lake",
        catalog_uri="jdbc:postgresql://db/lake",
        catalog_user="lake",
        catalog_password='open-sesame "$1"',
        spark_conf={"spark.executor.cores": "3", "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "of-the-bucket"},
    )


def plan(settings: Settings, place: Place, folder: Path) -> Submission:
    folder = folder / "submission"
    folder.mkdir()
    return plan_submission("/opt/jobs/decode.py", "shop", settings, place, folder, small=True)


def hidden(planned: Submission) -> dict[str, str]:
    assert planned.properties_file
    lines = Path(planned.properties_file).read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("place", [HERE, CONTAINER, POD, Place("local[2]", "client")], ids=str)
def test_no_secret_is_on_the_command_line(settings: Settings, place: Place, tmp_path: Path) -> None:
    planned = plan(settings, place, tmp_path)
    assert planned.conf["spark.executor.cores"] == "3" and planned.conf["spark.driver.memory"] == "2g"
    assert not any(secret in value for value in planned.conf.values() for secret in ("open-sesame", "of-the-bucket"))
    assert hidden(planned)["spark.executorEnv.AWS_SECRET_ACCESS_KEY"] == "of-the-bucket"


def test_a_driver_here_is_this_python_and_leaves_no_file_where_nothing_is_secret(tmp_path: Path) -> None:
    planned = plan(Settings(home=tmp_path), Place("local[2]", "client"), tmp_path)
    assert planned.conf["spark.pyspark.driver.python"] == sys.executable
    assert (planned.application, planned.properties_file) == ("/opt/jobs/decode.py", None)


@pytest.mark.parametrize(("master", "sent"), [("local[2]", False), ("yarn", True), ("spark://host:7077", True)])
def test_jars_are_sent_where_the_connection_leads_elsewhere(
    settings: Settings, tmp_path: Path, master: str, sent: bool
) -> None:
    """Whatever the command line's own master is."""
    assert ("spark.jars" in plan(settings, Place(master, "client"), tmp_path).conf) == sent


def test_a_driver_in_a_container_finds_everything_in_its_folder(settings: Settings, tmp_path: Path) -> None:
    more = {"spark.archives": "hdfs:///env.tar.gz#environment", "spark.sql.catalog.lake.x": "y"}
    settings = settings.model_copy(update={"spark_conf": settings.spark_conf | more})
    planned = plan(settings, CONTAINER, tmp_path)
    conf = planned.conf
    assert "spark.pyspark.driver.python" not in conf and conf["spark.yarn.maxAppAttempts"] == "1"
    assert conf["spark.driver.extraClassPath"] == "org.apache.iceberg_x.jar:a.jar"
    assert conf["spark.jars"].split(",") == [f"{tmp_path}/jars/{jar}" for jar in ("org.apache.iceberg_x.jar", "a.jar")]
    assert "file:/" not in conf["spark.driver.extraJavaOptions"]
    environment, archive = conf["spark.archives"].split(",")
    assert environment == more["spark.archives"]
    assert archive.endswith(".zip#installation")
    names = ZipFile(archive.partition("#")[0]).namelist()
    assert names == ["log4j2.properties", "feeds/shop.yaml", "checks/orders.py"]
    told = {key.removeprefix(VARIABLE): value for key, value in hidden(planned).items() if key.startswith(VARIABLE)}
    assert told.pop("SPARK_CONF") == json.dumps(settings.spark_conf).replace('"', '\\\\"')
    assert told == {
        "HOME": "installation", "FEEDS": "feeds", "CHECKS": "checks", "LAKE": "s3://bucket/lake",
        "LANDING": "s3://bucket/lake/landing", "EXPORTS": str(tmp_path / ".tidemark/exports"),
        "CATALOG_URI": "jdbc:postgresql://db/lake", "CATALOG_USER": "lake",
        "CATALOG_PASSWORD": r'open-sesame \\"\\$1\\"',
    }  # fmt: skip


def test_a_driver_in_a_pod_finds_the_project_in_its_image_and_is_sent_no_secret(
    settings: Settings, tmp_path: Path
) -> None:
    planned = plan(settings, POD, tmp_path)
    assert planned.application == "local:///opt/jobs/decode.py"
    assert "spark.jars" not in planned.conf
    assert planned.conf["spark.executor.extraClassPath"] == planned.conf["spark.driver.extraClassPath"]
    told = hidden(planned)
    assert told.pop("spark.executorEnv.AWS_SECRET_ACCESS_KEY")
    assert "open-sesame" not in str(told) and "of-the-bucket" not in str(told)
    assert told["spark.kubernetes.driverEnv.TIDEMARK_HOME"] == str(tmp_path)
    assert json.loads(told["spark.kubernetes.driverEnv.TIDEMARK_SPARK_CONF"]) == {"spark.executor.cores": "3"}


@pytest.mark.parametrize(
    ("master", "mode", "why"),
    [
        ("yarn", "clustre", "deploy mode 'clustre'"),
        ("spark://host:7077", "cluster", "spark://host:7077 does not have for Python"),
        ("local[2]", "cluster", "does not have for Python"),
    ],
)
def test_a_deploy_mode_that_spark_does_not_have_is_refused(master: str, mode: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why.replace("[", r"\[")):
        Place(master, mode).check()
