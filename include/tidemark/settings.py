"""Settings of an installation: environment variables ``TIDEMARK_*``. Every default works on a laptop."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from tidemark.errors import ConfigError

_SQLITE = "jdbc:sqlite:"
#: Of Spark's masters, `local-cluster[…]` is for tests.
_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[ *\d+ *, *\d+ *, *\d+ *\]|spark://\S+:\d+|yarn|k8s://\S+"
)
#: Variables that scripts of the project read.
_OF_SCRIPTS = ("TIDEMARK_AIRFLOW_HOME", "TIDEMARK_STACK_", "TIDEMARK_TEST_")
#: What no value holds that is written by hand.
_LEFTOVERS = re.compile(r"[\0-\x1f\x7f]|\A(['\"]).*\1\Z")


def _place(value: str) -> str:
    """A path, or a place on S3. Any other address would be taken for a folder of the current directory."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", value) and not re.match(r"s3://[^/]", value):
        raise ValueError(
            "a path, or s3:// with a bucket's name: s3://bucket/prefix (also where Hadoop writes s3a://); a local path "
            "without file://"
        )
    if value.startswith("~"):
        raise ValueError("a path without `~`: absolute, or relative to TIDEMARK_HOME")
    return value


def _catalog_address(value: str) -> str:
    """A catalog's address, of SQLite with a plain path. What it says is shown, and is on the command line of Spark's JVM."""
    if re.search(r"://[^/?]*:[^/?]*@", value) or re.search(r"^jdbc:.*[?&]\w*password=", value, re.IGNORECASE):
        raise ValueError(
            "an address without a password, which is TIDEMARK_CATALOG_PASSWORD, and its user TIDEMARK_CATALOG_USER"
        )
    if re.match(r"jdbc:sqlite:(:|file:|\?|\Z)", value):
        raise ValueError("jdbc:sqlite: and the path of a file, with its options behind `?`")
    return value


def _without_marks(value: str) -> str:
    """A place for tables and their catalog. Iceberg ends a key on S3 at these marks: all files would have one key. SQLite's
    JDBC driver ends the name of a file at the second."""
    if re.search(r"[#?]", value):
        raise ValueError("a place without `#` and `?`")
    return value


def _endpoint(value: str) -> str:
    if value and not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#\s]*)?", value):
        raise ValueError("http:// or https:// with a host and, where it has another, a port: http://minio:9000")
    return value


def _memory(value: str) -> str:
    if not re.fullmatch(r"[1-9]\d*[kmgt]b?", value, re.IGNORECASE):
        raise ValueError("a whole number and k, m, g or t: 4g")
    return value


def _master(value: str) -> str:
    if not _MASTER.fullmatch(value):
        raise ValueError("local[2], local[*], spark://HOST:PORT, yarn or k8s://ADDRESS")
    return value


Place = Annotated[str, AfterValidator(_place)]


class Settings(BaseSettings):
    """Where things are and what runs them. Paths are local, or ``s3://bucket/prefix``.

    ConfigError, with all that is wrong, when a variable does not hold what its setting needs.
    """

    model_config = SettingsConfigDict(env_prefix="TIDEMARK_", env_ignore_empty=True, extra="ignore")

    home: Path = Field(default_factory=Path.cwd, description="The project's folder: relative paths below start here.")
    feeds: Path = Field(Path("include/feeds"), description="The folder of feed files.")
    checks: Path = Field(Path("include/checks"), description="The folder of Python modules with pandera schemas.")
    lake: Annotated[Place, AfterValidator(_without_marks)] = Field(
        ".tidemark/lake", description="The lake's root: a path or s3://bucket/prefix."
    )
    landing: Place = Field("", description="Where exports land. Default: `landing` under the lake.")
    exports: Place = Field(
        ".tidemark/exports", description="The root of export paths that are relative in a feed file."
    )
    catalog_uri: Annotated[str, AfterValidator(_catalog_address)] = Field(
        "",
        description="jdbc:sqlite:PATH, jdbc:postgresql://… (its query is the JDBC driver's; `sslmode`, `sslrootcert` and "
        "`currentSchema` count in Python, too) or http(s)://… (REST; its query holds further properties of the "
        "catalog, `?warehouse=prod&scope=…`). It holds no password. Default: SQLite in the lake's folder.",
    )
    catalog_user: str = Field("", description="User of the catalog's database; of a REST catalog, the OAuth client.")
    catalog_password: str = Field(
        "", description="Password of that user; without one, the token of a REST catalog.", repr=False
    )
    kafka_user: str = Field("", description="User of the Kafka clusters of feeds with `exports.kafka.sasl`.")
    kafka_password: str = Field("", description="Password of that user.", repr=False)
    kafka_key_password: str = Field(
        "", description="Password of the private keys that feeds name as `exports.kafka.key`.", repr=False
    )
    spark_master: Annotated[str, AfterValidator(_master)] = Field(
        "local[2]", description="Spark master for work started by the `tidemark` command."
    )
    spark_conf: dict[str, str] = Field(
        default_factory=dict,
        description='More Spark settings, as JSON: {"key": "value"}. One on which results depend '
        "(`spark.sql.session.timeZone`) is refused.",
    )
    tuning: bool = Field(
        True,
        description="Whether Spark is set up for short jobs. No result depends on it; without, Spark runs as it comes.",
    )
    driver_memory: Annotated[str, AfterValidator(_memory)] = Field("2g", description="Memory of the Spark driver.")
    jars: Path = Field(
        Path(".tidemark/jars"), description="The folder of jars that Spark needs (made by `make setup`)."
    )
    s3_endpoint: Annotated[str, AfterValidator(_endpoint)] = Field(
        "", description="URL of an S3 server other than AWS: http://minio:9000."
    )
    s3_region: str = Field("us-east-1", description="Region of the S3 buckets.")
    log_format: Literal["console", "json"] = Field("console", description="How log lines are written.")
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)] = Field(
        "info", description="The least important lines that are written."
    )

    debug: bool = Field(
        False,
        description="Whether the log shows what an unforeseen error said. That may quote values of rows; secrets of the "
        "environment are left out.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_leftovers(cls, value: Any, info: ValidationInfo) -> Any:
        """What a file of variables leaves around a value is no part of a path or an address. A password may have anything."""
        is_shown = isinstance(value, str) and cls.model_fields[info.field_name or ""].repr
        if is_shown and (value != value.strip() or _LEFTOVERS.search(value)):
            raise ValueError("a value without quotes around it, white space at its ends, and control characters")
        return value

    def __init__(self, **values: Any) -> None:
        # A value may be a password: the message names settings and says what they need. pydantic's own error quotes
        # what it was given, so it is not even the cause.
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = [f"{_variable(mistake['loc'])}: {_needed(mistake['msg'])}" for mistake in error.errors()]
        except SettingsError as error:
            field = re.search(r'field "(\w+)"', str(error))
            wrong = [f"{_variable((field[1],)) if field else 'a setting'}: it is not JSON"]
        else:
            return
        raise ConfigError("; ".join(wrong), fix="set the variable right, or unset it (docs/settings-reference.md)")

    def path(self, value: Path | str) -> Path:
        """A local path of this installation, absolute."""
        return (self.home / value).resolve()

    def location(self, value: str) -> str:
        """A path or ``s3://`` location, absolute, without a trailing slash."""
        return value.rstrip("/") if "://" in value else str(self.path(value))

    @cached_property
    def lake_root(self) -> str:
        return self.location(self.lake)

    @cached_property
    def landing_root(self) -> str:
        return self.location(self.landing) if self.landing else f"{self.lake_root}/landing"

    @cached_property
    def catalog(self) -> str:
        """The catalog's URI. The embedded default is SQLite beside a local lake, or in the home when the lake is on S3."""
        if self.catalog_uri.startswith(_SQLITE):
            file, mark, options = self.catalog_uri.removeprefix(_SQLITE).partition("?")
            return f"{_SQLITE}{self.path(file)}{mark}{options}"
        if self.catalog_uri:
            return self.catalog_uri
        folder = self.path(".tidemark") if "://" in self.lake_root else Path(self.lake_root)
        return f"{_SQLITE}{folder}/catalog.db"

    @property
    def catalog_file(self) -> Path | None:
        """The file of a catalog in SQLite; None of another."""
        address = self.shown_catalog
        return Path(address.removeprefix(_SQLITE)) if address.startswith(_SQLITE) else None

    @property
    def shown_catalog(self) -> str:
        """The same for messages: the query may hold a secret of a REST catalog."""
        return self.catalog.partition("?")[0]


def unread_variables() -> str | None:
    """What to say of variables ``TIDEMARK_*`` that nothing reads, as one that is misspelt; None: there are none."""
    settings = [f"TIDEMARK_{name.upper()}" for name in Settings.model_fields]
    others = [
        name
        for name in sorted(os.environ)
        if name.upper().startswith("TIDEMARK_") and name.upper() not in settings and not name.startswith(_OF_SCRIPTS)
    ]
    if not others:
        return None
    near = get_close_matches(others[0].upper(), settings, 1, 0.85)
    fix = f"{near[0]} is one" if near else "docs/settings-reference.md has them all"
    return f"{', '.join(others)}: no setting, nothing reads it; {fix}"


def _needed(message: str) -> str:
    """What a setting needs. pydantic says before the message of a rule of ours that it is an error."""
    return message.removeprefix("Value error, ")


def _variable(place: tuple[int | str, ...]) -> str:
    """``TIDEMARK_SPARK_CONF.key`` of the place ``("spark_conf", "key")``."""
    name, *inside = map(str, place)
    return ".".join([f"TIDEMARK_{name.upper()}", *inside])
