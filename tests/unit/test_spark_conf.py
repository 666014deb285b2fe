"""The Spark settings of an installation."""

from __future__ import annotations

from pathlib import Path

from tidemark.settings import Settings
from tidemark.spark_conf import ARCHIVE, spark_conf

OPTIONS = "spark.driver.extraJavaOptions"


def test_the_class_archive_joins_the_options_given(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, jars=tmp_path, spark_conf={OPTIONS: "-XX:+UseSerialGC"})
    assert spark_conf(settings)[OPTIONS] == "-XX:+UseSerialGC"
    assert spark_conf(Settings(home=tmp_path, jars=tmp_path))[OPTIONS] == "-XX:+UseParallelGC"
    (tmp_path / ARCHIVE).touch()
    given, *ours = spark_conf(settings)[OPTIONS].split()
    assert given == "-XX:+UseSerialGC"
    assert f"-XX:SharedArchiveFile={tmp_path / ARCHIVE}" in ours


def test_what_the_installation_says_wins(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, jars=tmp_path, spark_conf={"spark.sql.shuffle.partitions": "64"})
    assert spark_conf(settings)["spark.sql.shuffle.partitions"] == "64"
    assert spark_conf(Settings(home=tmp_path, jars=tmp_path))["spark.sql.shuffle.partitions"] == "4"


def test_catalogs_are_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    prefix = "spark.sql.catalog.lake.jdbc"
    embedded = spark_conf(Settings(home=tmp_path, jars=tmp_path))
    assert embedded[f"{prefix}.busy_timeout"] == "60000"
    served = spark_conf(Settings(home=tmp_path, jars=tmp_path, catalog_uri="jdbc:postgresql://db/lake"))
    assert served[f"{prefix}.socketTimeout"] == "60"
    assert f"{prefix}.busy_timeout" not in served
