"""The session that everything runs in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame

from tidemark.errors import ConfigError, TransientError
from tidemark.lake.session import _refuse_unseen, _start_named, open_session
from tidemark.settings import Settings


def _expression() -> Column:
    return F.coalesce(F.upper("a"), F.col("b").cast("string"), F.when(F.col("a").isin("x", "y"), F.lit("z")))


def test_the_jvm_is_asked_once_what_a_function_is(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = _listen(spark, monkeypatch)
    _expression()
    again = len(sent)
    _expression()
    assert len(sent) > again, "the commands are seen here"
    assert not [command for command in sent[again:] if command.startswith("r\n")]


def test_a_function_that_there_is_not_is_still_an_error(spark: SparkSession) -> None:
    functions: Any = spark._jvm.functions  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(Exception, match="does not exist in the JVM"):
            functions.no_such_function  # noqa: B018


def test_the_session_is_opened_once(spark: SparkSession, settings: Settings) -> None:
    known: Any = spark._jvm.functions  # type: ignore[union-attr]
    assert open_session(settings, "again") is spark
    assert spark._jvm.functions is known  # type: ignore[union-attr]


def test_a_driver_that_was_submitted_does_not_look_for_what_was_sent_with_it(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jars come from elsewhere, and the paths may be those of another machine."""
    given: dict[str, str] = {}
    monkeypatch.setattr("tidemark.lake.session._submitted", lambda: True)
    monkeypatch.setattr(SparkSession.Builder, "config", lambda self, key, value: given.update({key: value}) or self)
    sent = {"spark.jars": "/there/a.jar", "spark.files": "/there/b", "spark.archives": "/there/c.zip"}
    open_session(settings.model_copy(update={"jars": Path("nowhere"), "spark_conf": sent}), "driver")
    assert "spark.sql.session.timeZone" in given and not given.keys() & sent.keys()


def _listen(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every command to the JVM from now on."""
    client: Any = type(spark.sparkContext._gateway._gateway_client)
    send, sent = client.send_command, []

    def listening(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        sent.append(command)
        return send(self, command, *args, **kwargs)

    monkeypatch.setattr(client, "send_command", listening)
    return sent


SECRETS = {"the catalog's": "open\\sesame=1", "s3's": "shut sesame", "the keystore's": "a\nb"}
_OPENS_A_SESSION = """
import json, sys
from contextlib import suppress
import psutil
from tidemark.errors import ConfigError
from tidemark.lake.session import open_session
from tidemark.settings import Settings
spark = open_session(Settings(), "secrets")
me = psutil.Process()
seen = []
for process in (me, *me.children(recursive=True)):
    with suppress(psutil.NoSuchProcess):  # a part of the JVM's start script that has ended
        seen.append(process.cmdline())
hadoop = spark._jsc.hadoopConfiguration()
told = {
    "the catalog's": spark.conf.get("spark.sql.catalog.lake.jdbc.password"),
    "s3's": hadoop.get("fs.s3a.secret.key"),
    "the keystore's": spark.conf.get("spark.ssl.keyStorePassword"),
}
json.dump({"seen": seen, "told": told}, sys.stdout)
"""


def test_no_secret_stands_on_a_command_line(settings: Settings) -> None:
    """Of `tidemark run`, whose JVM PySpark starts; spark-submit has a test of its own."""
    conf = {"spark.hadoop.fs.s3a.secret.key": SECRETS["s3's"], "spark.ssl.keyStorePassword": SECRETS["the keystore's"]}
    environment = os.environ | {
        "TIDEMARK_HOME": str(settings.home), "TIDEMARK_JARS": str(settings.jars),
        "TIDEMARK_CATALOG_URI": "jdbc:postgresql://127.0.0.1:1/lake", "TIDEMARK_CATALOG_USER": "lake",
        "TIDEMARK_CATALOG_PASSWORD": SECRETS["the catalog's"], "TIDEMARK_SPARK_CONF": json.dumps(conf),
    }  # fmt: skip
    command = [sys.executable, "-c", _OPENS_A_SESSION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["told"] == SECRETS
    commands = [" ".join(words) for words in result["seen"]]
    assert any("SparkSubmit" in command for command in commands), "the JVM is among them"
    assert not [secret for secret in SECRETS.values() for command in commands if secret in command]


def test_a_secret_that_spark_would_change_is_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    changed = settings.model_copy(update={"spark_conf": {"spark.ssl.keyPassword": "ends in a space "}})
    with pytest.raises(ConfigError, match=r"spark\.ssl\.keyPassword begins or ends with white space"):
        open_session(changed, "again")


def test_a_folder_that_executors_do_not_see_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would leave the data of tables on disks of their own."""
    lake = tmp_path / "a {lake} [1] of 100%"
    _refuse_unseen(spark, str(lake))
    assert not [*lake.iterdir()]
    count = DataFrame.count

    def elsewhere(files: DataFrame) -> int:
        """The driver has listed them; where the task runs they are not there."""
        lake.rename(tmp_path / "gone")
        try:
            return count(files)
        finally:
            (tmp_path / "gone").rename(lake)

    monkeypatch.setattr(DataFrame, "count", elsewhere)
    with pytest.raises(ConfigError, match=r"^the executors of local\[1\] do not see the folder .*100%"):
        _refuse_unseen(spark, str(lake))


def test_spark_that_does_not_start_says_what_to_look_at(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    bad_value = Py4JJavaError("", jvm.java.lang.NumberFormatException("1 gb"))
    no_master = Py4JJavaError("", jvm.java.lang.IllegalStateException("stopped"))
    no_jvm = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    here, there = (Settings(spark_master=master) for master in ("local[2]", "spark://h:7077"))
    for settings, error, kind in (
        (here, no_jvm, ConfigError), (there, no_jvm, ConfigError), (here, no_master, ConfigError),
        (there, bad_value, ConfigError), (there, no_master, TransientError),
    ):  # fmt: skip
        with pytest.raises(kind, match="Spark could not be started on") as raised, _start_named(settings):
            raise error
        assert settings.spark_master in str(raised.value) and "TIDEMARK_SPARK_MASTER" in str(raised.value)


_ON_A_CLUSTER = """
import os, sys, threading, time
from pyspark import SparkContext
from tidemark.lake.session import open_session
from tidemark.settings import Settings
opened = threading.Event()
threading.Thread(target=lambda: (open_session(Settings(), "waits"), opened.set()), daemon=True).start()
while SparkContext._active_spark_context is None:
    time.sleep(0.1)
sys.stdout.write("open" if opened.wait(float(sys.argv[1])) else "waits")
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.full
@pytest.mark.parametrize(("cores", "seconds", "found"), [("1", 90, "open"), ("2", 15, "waits")])
def test_a_session_on_a_cluster_is_open_when_an_executor_is_there(
    settings: Settings, tmp_path: Path, cores: str, seconds: int, found: str
) -> None:
    """On one of a single core. A job that took a lock before might wait for the cores of one that waits for the lock."""
    conf = {"spark.executor.cores": cores, "spark.executor.memory": "600m"}
    environment = os.environ | {
        "TIDEMARK_HOME": str(tmp_path), "TIDEMARK_JARS": str(settings.path(settings.jars)),
        "TIDEMARK_SPARK_MASTER": "local-cluster[1,1,1024]", "TIDEMARK_SPARK_CONF": json.dumps(conf),
    }  # fmt: skip
    command = [sys.executable, "-c", _ON_A_CLUSTER, str(seconds)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.stdout == found, done.stderr
