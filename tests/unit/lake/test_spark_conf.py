"""The Spark settings of an installation."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemark.errors import ConfigError
from tidemark.lake.spark_conf import SECRET, catalog_conf, rest_properties, spark_conf, spark_home
from tidemark.lake.tuning import ARCHIVE, QUICK_JAVA, TUNED
from tidemark.settings import Settings

OPTIONS = "spark.driver.extraJavaOptions"


def test_the_class_archive_joins_the_options_given(tmp_path: Path) -> None:
    tmp_path = tmp_path / "a folder"
    tmp_path.mkdir()
    settings = Settings(home=tmp_path, jars=tmp_path, spark_conf={OPTIONS: "-XX:+UseSerialGC"})
    assert shlex.split(spark_conf(settings)[OPTIONS])[1:] == ["-XX:+UseSerialGC"]
    plain = Settings(home=tmp_path, jars=tmp_path)
    keeps_no_large_buffers = "-Djdk.nio.maxCachedBufferSize=1048576"
    usual = shlex.split(spark_conf(plain)[OPTIONS])[1:]
    compiles_later = [f"-XX:Tier4{of}Threshold" for of in ("Invocation", "MinInvocation", "Compile", "BackEdge")]
    assert usual[:2] == ["-XX:+UseParallelGC", keeps_no_large_buffers]
    assert [option.split("=")[0] for option in usual[2:]] == compiles_later
    assert shlex.split(spark_conf(plain, small=True)[OPTIONS])[1:] == shlex.split(QUICK_JAVA)
    assert shlex.split(spark_conf(settings, small=True)[OPTIONS])[1:] == ["-XX:+UseSerialGC"]
    (tmp_path / ARCHIVE).touch()
    logs, given, *ours = shlex.split(spark_conf(settings)[OPTIONS])
    assert logs.startswith("-Dlog4j2.configurationFile=file:///") and given == "-XX:+UseSerialGC"
    assert f"-XX:SharedArchiveFile={tmp_path / ARCHIVE}" in ours


def test_a_driver_finds_each_jar_once_before_spark_names_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "iceberg.jar").touch()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    class_path = spark_conf(Settings(home=tmp_path, jars=tmp_path))["spark.driver.extraClassPath"]
    assert class_path == f"{tmp_path}/iceberg.jar:/opt/spark/jars/*"
    monkeypatch.delenv("SPARK_HOME")
    assert list(spark_home().glob("jars/spark-core_*.jar"))


def test_a_start_takes_its_classes_from_the_archive(settings: Settings, tmp_path: Path) -> None:
    log = tmp_path / "classes"
    options = f"{QUICK_JAVA} -Xlog:class+load:file={log}"
    conf = spark_conf(settings.model_copy(update={"spark_conf": {OPTIONS: options}}))
    command = [spark_home() / "bin/spark-submit", "--version"]
    for name in ("spark.driver.extraClassPath", OPTIONS):
        command += ["--conf", f"{name}={conf[name]}"]
    subprocess.run(command, env=os.environ | {"SPARK_HOME": str(spark_home())}, check=True, capture_output=True)
    loaded = [line for line in log.read_text("utf-8").splitlines() if "org.apache.spark.deploy.SparkSubmit " in line]
    assert loaded and all("shared objects file" in line for line in loaded), loaded


def test_what_the_installation_says_wins(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, jars=tmp_path, spark_conf={"spark.sql.shuffle.partitions": "64"})
    assert spark_conf(settings)["spark.sql.shuffle.partitions"] == "64"
    assert spark_conf(Settings(home=tmp_path, jars=tmp_path))["spark.sql.shuffle.partitions"] == "4"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.session.timeZone", "Europe/Berlin"),
        ("spark.sql.files.maxPartitionBytes", "134217728"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
        ("spark.sql.catalog.lake.warehouse", "/elsewhere"),
        ("spark.sql.catalog.lake.io-impl", "org.apache.iceberg.hadoop.HadoopFileIO"),
    ],
)
def test_a_setting_on_which_results_depend_cannot_be_set(key: str, value: str, tmp_path: Path) -> None:
    plain = Settings(home=tmp_path, jars=tmp_path)
    with pytest.raises(ConfigError, match=f"^TIDEMARK_SPARK_CONF sets {key}, on which results depend"):
        spark_conf(plain.model_copy(update={"spark_conf": {key: value}}))
    same = spark_conf(plain).get(key)
    if same is not None:
        assert spark_conf(plain.model_copy(update={"spark_conf": {key: same}}))[key] == same


def test_spark_runs_as_it_comes_without_tuning(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).touch()
    plain = spark_conf(Settings(home=tmp_path, jars=tmp_path, tuning=False))
    assert not {*plain} & {*TUNED}
    assert [option.partition("=")[0] for option in shlex.split(plain[OPTIONS])] == ["-Dlog4j2.configurationFile"]


def test_a_statement_is_taken_as_it_is_written(spark: SparkSession) -> None:
    """Statements hold names and values of messages. The driver's environment is none of theirs."""
    text = "${env:PATH} ${spark.app.name}"
    row = spark.sql(f"SELECT '{text}' AS `{text}`").first()
    assert row is not None
    assert row.asDict() == {text: text}


def test_catalogs_are_waited_for_but_not_forever(tmp_path: Path) -> None:
    prefix = "spark.sql.catalog.lake.jdbc"
    embedded = spark_conf(Settings(home=tmp_path, jars=tmp_path))
    assert embedded[f"{prefix}.busy_timeout"] == "60000"
    served = spark_conf(Settings(home=tmp_path, jars=tmp_path, catalog_uri="jdbc:postgresql://db/lake"))
    assert served[f"{prefix}.socketTimeout"] == "60"
    assert f"{prefix}.busy_timeout" not in served


@pytest.mark.parametrize("user", ["client", ""])
def test_what_a_rest_catalog_is_told_in_secret_has_a_secrets_name(user: str, tmp_path: Path) -> None:
    """It is handed over in a file then, not on a command line, and Spark does not log it."""
    address = "https://catalog?s3.secret-access-key=sesame"
    given = {"catalog_uri": address, "catalog_user": user, "catalog_password": "sesame"}
    conf = spark_conf(Settings(home=tmp_path, jars=tmp_path, **given))
    secret = [key for key, value in conf.items() if "sesame" in value]
    assert len(secret) == 2 and all(SECRET.search(key) for key in secret)
    assert conf["spark.redaction.regex"] == SECRET.pattern


def test_a_rest_catalog_is_told_what_its_address_says() -> None:
    address = "https://catalog:8181/api?warehouse=prod&scope=PRINCIPAL_ROLE%3AALL"
    plain = Settings(lake="s3://b/lake", catalog_uri="http://catalog:8181")
    assert rest_properties(plain) == {"uri": "http://catalog:8181", "warehouse": "s3://b/lake"}
    client = Settings(lake="s3://b/lake", catalog_uri=address, catalog_user="u", catalog_password="p:&")
    told = {"uri": "https://catalog:8181/api", "warehouse": "prod", "scope": "PRINCIPAL_ROLE:ALL"}
    assert rest_properties(client) == told | {"credential": "u:p:&"}
    assert rest_properties(client.model_copy(update={"catalog_user": ""})) == told | {"token": "p:&"}
    assert catalog_conf(client).items() >= (told | {"type": "rest"}).items()
