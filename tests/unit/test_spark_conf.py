"""The Spark settings of an installation."""

from __future__ import annotations

from pathlib import Path

from tidemark.settings import Settings
from tidemark.spark_conf import ARCHIVE, spark_conf

OPTIONS = "spark.driver.extraJavaOptions"


def test_the_class_archive_joins_the_options_given(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, jars=tmp_path, spark_conf={OPTIONS: "-XX:+UseSerialGC"})
    assert spark_conf(settings)[OPTIONS] == "-XX:+UseSerialGC"
    (tmp_path / ARCHIVE).touch()
    given, *ours = spark_conf(settings)[OPTIONS].split()
    assert given == "-XX:+UseSerialGC"
    assert f"-XX:SharedArchiveFile={tmp_path / ARCHIVE}" in ours


def test_what_the_installation_says_wins(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, jars=tmp_path, spark_conf={"spark.sql.shuffle.partitions": "64"})
    assert spark_conf(settings)["spark.sql.shuffle.partitions"] == "64"
    assert spark_conf(Settings(home=tmp_path, jars=tmp_path))["spark.sql.shuffle.partitions"] == "4"
