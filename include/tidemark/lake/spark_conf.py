"""The Spark settings every session and every submit of Tidemark runs with. Pure: imports no Spark."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl

from tidemark.errors import ConfigError
from tidemark.lake.tuning import TUNED, archive_options, java_options
from tidemark.settings import Settings

#: The name of the Iceberg catalog in Spark.
CATALOG = "lake"

#: What Spark's JVM logs.
LOG4J = Path(__file__).parent / "log4j2.properties"

#: Where a driver that starts in a folder of another machine finds what of the installation was sent with the job.
INSTALLATION = "installation"

#: Names of settings whose values are secret: Spark's own list, and the ``credential`` of a REST catalog.
SECRET = re.compile(r"(?i)secret|password|token|access[.]?key|credential")

# A landed object is read by one task, whole: its records are then numbered without a second look at the bytes.
_NEVER_SPLIT = str(1 << 40)

#: What results depend on. Spark's own defaults are among them, which a cluster's ``spark-defaults.conf`` may change.
_RESULTS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    # Statements hold names and values of messages: "${env:HOME}" in them is a text like any other.
    "spark.sql.variable.substitute": "false",
    "spark.sql.files.maxPartitionBytes": _NEVER_SPLIT,
    "spark.sql.files.openCostInBytes": _NEVER_SPLIT,
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # IBM's code pages (cp037 …) are not in the short list that decode() knows since Spark 4.
    "spark.sql.legacy.javaCharsets": "true",
    # Bytes that are no text in such a page: one record's problem, not the end of the job.
    "spark.sql.legacy.codingErrorAction": "true",
    # Kafka allows a header twice, and hostile JSON a field: the last one counts, nothing crashes.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
    f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
}
#: Which lake and which catalog it is: of the properties of :func:`catalog_conf`, those that Python reads by, too.
_PLACE = ("type", "uri", "warehouse", "io-impl")


def spark_conf(settings: Settings, *, small: bool = False, sent: bool = False) -> dict[str, str]:
    """All settings as ``spark.*`` keys, for ``SparkSession.builder`` or ``spark-submit --conf``. ``small``: for a JVM that
    is started for little work. ``sent``: the driver starts in a folder of another machine, into which the jars are sent
    with the job, and :data:`LOG4J` into its :data:`INSTALLATION`.

    ``settings.spark_conf`` comes last and wins. ConfigError where it changes what results depend on.
    """
    _refuse_other_results(settings)
    conf = {
        **_RESULTS,
        # Java's lower() and upper(): ICU's, with the same result for names, take more than a CPU second to load.
        "spark.sql.icu.caseMappings.enabled": "false",
        # What Spark blots out where it logs its settings.
        "spark.redaction.regex": SECRET.pattern,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": java_options(small=small) if settings.tuning else "",
        **{f"spark.sql.catalog.{CATALOG}.{key}": value for key, value in catalog_conf(settings).items()},
    }
    if settings.tuning:
        conf |= TUNED
    folder = settings.path(settings.jars)
    # Iceberg's bundle holds a newer AWS SDK than S3A's own jars: all of its classes come first, or the two mix.
    jars = sorted((str(jar) for jar in folder.glob("*.jar")), key=lambda jar: ("org.apache.iceberg" not in jar, jar))
    if jars and sent:
        conf["spark.driver.extraClassPath"] = ":".join(Path(jar).name for jar in jars)
        conf["spark.jars"] = ",".join(jars)
    elif jars:
        # `spark.jars` copies every jar at every start, which takes seconds: only for executors elsewhere.
        # Spark's own jars are named before Spark names them, which it does with one of them twice: Java 21 leaves out
        # the second when it makes the class archive, not when it compares, and would never find the archive to fit.
        conf["spark.driver.extraClassPath"] = ":".join([*jars, f"{spark_home()}/jars/*"])
        if not settings.spark_master.startswith("local"):
            conf["spark.jars"] = ",".join(jars)
    conf |= _s3_conf(settings) | settings.spark_conf
    # As an option of the JVM, for it logs before there is a session. First, so that one that is given wins.
    log_settings = f"{INSTALLATION}/{LOG4J.name}" if sent else LOG4J.as_uri()
    quiet_log = f'"-Dlog4j2.configurationFile={log_settings}"'
    archive = archive_options(folder) if settings.tuning and not sent else ""
    given = (quiet_log, conf["spark.driver.extraJavaOptions"], archive)
    conf["spark.driver.extraJavaOptions"] = " ".join(filter(None, given))
    return conf


def _refuse_other_results(settings: Settings) -> None:
    """ConfigError for a setting of ``settings.spark_conf`` on which results depend, with a value that is not ours."""
    catalog = catalog_conf(settings)
    places = {f"spark.sql.catalog.{CATALOG}.{key}": catalog.get(key) for key in _PLACE}
    ours = _RESULTS | places
    for key, value in settings.spark_conf.items():
        if (key in ours or key.startswith("spark.sql.legacy.")) and value != ours.get(key):
            fix = f"take {key} out of it"
            if key in places:
                fix += "; TIDEMARK_LAKE and TIDEMARK_CATALOG_URI say where the lake and its catalog are"
            raise ConfigError(f"TIDEMARK_SPARK_CONF sets {key}, on which results depend", fix=fix)


def as_property(name: str, value: str) -> str:
    """A line of Spark's property files. ConfigError for a value that they cannot hold."""
    if value != value.strip():  # Spark would leave it out
        raise ConfigError(f"{name} begins or ends with white space", fix="choose another secret")
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{name}={escaped}\n"


def _s3_conf(settings: Settings) -> dict[str, str]:
    conf = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint.region": settings.s3_region,
    }
    if settings.s3_endpoint:
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": settings.s3_endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(settings.s3_endpoint.startswith("https")).lower(),
        }
    return conf


def spark_home() -> Path:
    """Spark's folder, as PySpark finds it: ``SPARK_HOME``, else its package. ConfigError when Spark is not installed."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed in this environment", fix="run `make setup`")
    return Path(spec.origin).parent


#: By database: feeds that commit to SQLite at the same time wait for each other (ms); PostgreSQL that does not answer
#: is given up after a minute (s), where its driver would wait forever.
_TIMEOUT = {
    "sqlite": {"jdbc.busy_timeout": "60000"},
    "postgresql": {"jdbc.socketTimeout": "60", "jdbc.tcpKeepAlive": "true"},
}


def catalog_conf(settings: Settings) -> dict[str, str]:
    """The Iceberg catalog's own properties: JDBC on SQLite or PostgreSQL, or REST, and its storage."""
    uri = settings.catalog
    conf = {"warehouse": settings.lake_root, "uri": uri}
    if uri.startswith("jdbc:"):
        conf |= {"type": "jdbc", "jdbc.schema-version": "V1"}
        if settings.catalog_user:
            conf |= {"jdbc.user": settings.catalog_user, "jdbc.password": settings.catalog_password}
        conf |= _TIMEOUT.get(uri.split(":")[1], {})
    else:
        conf |= {"type": "rest", **rest_properties(settings)}
    if settings.lake_root.startswith("s3://"):
        conf |= {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": settings.s3_region}
        if settings.s3_endpoint:
            conf |= {"s3.endpoint": settings.s3_endpoint, "s3.path-style-access": "true"}
    return conf


def rest_properties(settings: Settings) -> dict[str, str]:
    """A REST catalog's address and what the query of its URI says, by the names that Iceberg has in Java and in Python; with
    a user, the credential of an OAuth client; with a password alone, the token."""
    address, _, query = settings.catalog.partition("?")
    properties = {"warehouse": settings.lake_root, **dict(parse_qsl(query)), "uri": address}
    if settings.catalog_user:
        properties["credential"] = f"{settings.catalog_user}:{settings.catalog_password}"
    elif settings.catalog_password:
        properties["token"] = settings.catalog_password
    return properties
