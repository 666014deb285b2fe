"""A Kafka broker for the tests of this folder: one process (KRaft) of the jars that Maven Central has, on a free port."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.stack.server_jars import server_jars
from tidemark.lake.spark_conf import spark_home

_BROKER = (
    "org.apache.kafka:kafka_2.13:4.1.1",
    "org.slf4j:slf4j-simple:1.7.36",
)  # the second says why it does not start
_CLUSTER = "3Db5QLSqSZieL3rJBUUegA"
_PASSWORD = "of-the-reader"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},TLS://127.0.0.1:{tls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listener.name.sasl.sasl.enabled.mechanisms=PLAIN
listener.name.tls.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.tls.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.location={folder}/keys.p12
ssl.keystore.type=PKCS12
ssl.keystore.password={password}
listener.name.sasl.plain.sasl.jaas.config={login} required user_reader="{password}";
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
offsets.topic.num.partitions=1
log.initial.task.delay.ms=500
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=200
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
"""


class Broker:
    """Where a broker that runs is reached."""

    def __init__(self, port: int, sasl_port: int, tls_port: int, ca: Path) -> None:
        self.server, self.sasl_server = f"127.0.0.1:{port}", f"127.0.0.1:{sasl_port}"
        self.tls_server, self.ca = f"127.0.0.1:{tls_port}", ca
        self.user, self.password = "reader", _PASSWORD


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Starts a broker with an empty log, and ends it. Its listeners for SASL (plain; SCRAM by TLS) know one user."""
    port, sasl, tls, controller = _free_ports(4)
    with tempfile.TemporaryDirectory(prefix="kafka-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = folder / "server.properties"
        values = {"port": port, "sasl": sasl, "tls": tls, "controller": controller, "folder": folder}
        settings.write_text(_SETTINGS.format(**values, password=_PASSWORD, login=_LOGIN))
        _make_certificate(folder)
        user = f"SCRAM-SHA-256=[name=reader,password={_PASSWORD}]"
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings), "--standalone"]
        subprocess.run(_java(*tool, "--add-scram", user), check=True, capture_output=True, cwd=folder)
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(_java("kafka.Kafka", str(settings)), stdout=log, stderr=log, cwd=folder)
        try:
            _await(process, port, folder / "log.txt")
            yield Broker(port, sasl, tls, folder / "ca.pem")
        finally:
            process.kill()  # nothing of it is kept
            process.wait(30)


def _make_certificate(folder: Path) -> None:
    """``keys.p12`` for the broker, and its certificate, which it signed itself, as ``ca.pem``."""
    keytool = [str(Path(_java_home(), "bin", "keytool")) if _java_home() else "keytool", "-keystore", "keys.p12"]
    keytool += ["-storepass", _PASSWORD, "-alias", "broker"]
    made = ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=broker", "-ext", "SAN=IP:127.0.0.1", "-storetype", "PKCS12"]
    for command in (made, ["-exportcert", "-rfc", "-file", "ca.pem"]):
        subprocess.run([*keytool, *command], check=True, capture_output=True, cwd=folder)


def _java_home() -> str | None:
    return os.environ.get("JAVA_HOME")


def _java(*command: str) -> list[str]:
    java = str(Path(home, "bin", "java")) if (home := _java_home()) else "java"
    scala = next((spark_home() / "jars").glob("scala-library-2.13.*.jar"))  # which Spark's resolver leaves out
    logged = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    classes = f"{server_jars('kafka', _BROKER)}/*:{scala}"
    return [java, "-Xmx384m", "-XX:TieredStopAtLevel=1", logged, "-cp", classes, *command]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the broker did not start:\n{log.read_text(errors='replace')[-4000:]}")
