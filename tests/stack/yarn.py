"""YARN and HDFS for the tests of this folder: a resource manager, a node manager, a name node and a data node in one JVM, of
Hadoop's jars for tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from py4j.java_gateway import GatewayParameters, JavaGateway, JVMView, launch_gateway

from tests.stack.server_jars import server_jars
from tidemark.lake.spark_conf import spark_home

_CLUSTER = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2",  # of the Hadoop that Spark brings
    "org.bouncycastle:bcpkix-jdk18on:1.82",
    "javax.xml.bind:jaxb-api:2.3.1",  # which Java no longer has
)
_OF_SPARK = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
_SETTINGS = {
    "fs.defaultFS": "file:///",  # a lake in a folder has no scheme in its paths
    "dfs.replication": "1",
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100.0",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",
}
#: What a client has to know: the cluster takes free ports.
_OF_CLIENTS = ("fs.defaultFS", "yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address")
#: To Hadoop's injection of its own parts.
_OPENED = "--add-opens=java.base/java.lang=ALL-UNNAMED"
_OVER = {"FINISHING", "FINISHED", "FAILED", "KILLED"}


class Yarn:
    """A cluster that runs. ``conf``: the folder of its settings, for ``HADOOP_CONF_DIR``. ``hdfs``: the address of its
    files."""

    def __init__(self, folder: Path, jvm: JVMView) -> None:
        self.folder, self._jvm = folder, jvm
        conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for key, value in (_SETTINGS | {"hdfs.minidfs.basedir": f"{folder}/hdfs"}).items():
            conf.set(key, value)
        files = getattr(jvm, "org.apache.hadoop.hdfs.MiniDFSCluster$Builder")(conf).numDataNodes(1).build()
        self._files = files.getFileSystem()
        self.hdfs = str(self._files.getUri())
        conf.set("fs.defaultFS", _SETTINGS["fs.defaultFS"])  # HDFS has named itself
        self._cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("tidemark", 1, 1, 1)
        self._cluster.init(conf)
        self._cluster.start()
        self.conf = _write_conf(folder, {key: self._cluster.getConfig().get(key) for key in _OF_CLIENTS})

    def put(self, *paths: Path) -> None:
        """Copy files and folders to the top of HDFS, where everybody may read them."""
        path = self._jvm.org.apache.hadoop.fs.Path
        for given in paths:
            self._files.copyFromLocalFile(path(str(given)), path("/"))

    def states(self) -> dict[str, str]:
        """Of all applications, by their ids."""
        found = self._cluster.getResourceManager().getRMContext().getRMApps().values()
        return {str(one.getApplicationId()): str(one.getState()) for one in found}

    def said(self) -> str:
        """What the drivers and executors wrote."""
        written = sorted(self.folder.glob("target/**/container_*/std*"))
        return "\n".join(path.read_text(errors="replace") for path in written)

    def stop(self) -> None:
        """End what still runs there: containers are processes of their own. It takes its time, where nothing does."""
        if not {*self.states().values()} <= _OVER:
            self._cluster.stop()


@contextmanager
def running_yarn() -> Iterator[Yarn]:
    """Starts a cluster with nothing in it, and ends it with all that runs there."""
    with tempfile.TemporaryDirectory(prefix="tidemark-yarn-", ignore_cleanup_errors=True) as name:
        folders = (server_jars("yarn", _CLUSTER, _OF_SPARK), spark_home() / "jars")
        paths = [str(jar) for folder in folders for jar in sorted(folder.glob("*.jar"))]
        home = os.environ.get("JAVA_HOME")
        port, token, process = launch_gateway(
            classpath=":".join(paths), die_on_exit=True, enable_auth=True, return_proc=True, cwd=name,
            javaopts=["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", _OPENED],
            java_path=str(Path(home, "bin", "java")) if home else "java",
        )  # fmt: skip
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
        try:
            yarn = Yarn(Path(name), gateway.jvm)
            yield yarn
            yarn.stop()
        finally:
            gateway.shutdown()
            process.kill()
            process.wait(30)


def _write_conf(folder: Path, values: dict[str, str]) -> Path:
    conf = folder / "conf"
    conf.mkdir()
    lines = [f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in values.items()]
    for name in ("core-site.xml", "yarn-site.xml"):
        (conf / name).write_text("<configuration>\n" + "\n".join(lines) + "\n</configuration>\n")
    return conf
