"""Settings that are wrong: what is said, and that no value is said with it."""

from __future__ import annotations

import pytest

from tidemark.errors import ConfigError
from tidemark.settings import Settings

#: Whatever a variable holds may be a secret.
SECRET = "plugh"


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("TIDEMARK_LOG_FORMAT", SECRET, "TIDEMARK_LOG_FORMAT: Input should be 'console' or 'json'"),
        ("TIDEMARK_LOG_LEVEL", SECRET, "TIDEMARK_LOG_LEVEL: Input should be 'debug', 'info', 'warning' or 'error'"),
        ("TIDEMARK_SPARK_CONF", f"{{{SECRET}", "TIDEMARK_SPARK_CONF: it is not JSON"),
        ("TIDEMARK_SPARK_CONF", f'["{SECRET}"]', "TIDEMARK_SPARK_CONF: Input should be a valid dictionary"),
        (
            "TIDEMARK_SPARK_CONF",
            f'{{"spark.x": {{"{SECRET}": 1}}}}',
            "TIDEMARK_SPARK_CONF.spark.x: Input should be a valid string",
        ),
    ],
)
def test_a_wrong_setting_is_named_without_its_value(
    name: str, value: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as raised:
        Settings()
    assert raised.value.problem == what
    assert raised.value.fix
    assert SECRET not in str(raised.value)
    # Whoever prints the whole chain prints no value either.
    assert raised.value.__cause__ is None and raised.value.__context__ is None


@pytest.mark.parametrize("name", ["TIDEMARK_LAKE", "TIDEMARK_LANDING", "TIDEMARK_EXPORTS"])
@pytest.mark.parametrize(
    "place", ["s3a://b/x", "gs://b/x", "hdfs:///x", "file:///x", "file:/x", "S3://b/x", "s3:///x", "s3:/b/x"]
)
def test_an_address_that_is_not_known_is_no_folder(name: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, place)
    with pytest.raises(ConfigError, match=f"^{name}: a path, or s3:// with a bucket's name: s3://bucket/prefix"):
        Settings()


@pytest.mark.parametrize("value", ['"s3://b/x"', "'lake'", " s3://b/x", "lake\r", "la\tke", "s3://b/x\n"])
@pytest.mark.parametrize("name", ["TIDEMARK_LAKE", "TIDEMARK_FEEDS", "TIDEMARK_CATALOG_URI", "TIDEMARK_SPARK_MASTER"])
def test_what_a_file_of_variables_leaves_is_no_part_of_a_value(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"^{name}: a value without quotes around it, white space"):
        Settings()


def test_a_password_may_have_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_KAFKA_PASSWORD", "' '")
    assert Settings().kafka_password == "' '"


def test_a_variable_without_a_value_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake would be the project's folder itself."""
    for name in ("LAKE", "EXPORTS", "FEEDS", "SPARK_CONF", "LOG_LEVEL"):
        monkeypatch.setenv(f"TIDEMARK_{name}", "")
    assert Settings() == Settings(lake=".tidemark/lake")


@pytest.mark.parametrize("prefix", ["la#ke", "la?ke"])
def test_a_lake_on_s3_has_keys_of_its_own(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LAKE", f"s3://b/{prefix}")
    with pytest.raises(ConfigError, match=r"^TIDEMARK_LAKE: a place without `#` and `\?`"):
        Settings()


@pytest.mark.parametrize("file", ["", ":memory:", "file:c.db", "?busy_timeout=1000"])
def test_a_catalog_in_sqlite_is_a_file(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", f"jdbc:sqlite:{file}")
    with pytest.raises(ConfigError, match=r"^TIDEMARK_CATALOG_URI: jdbc:sqlite: and the path of a file"):
        Settings()


@pytest.mark.parametrize(
    "address",
    ["minio:9000", "127.0.0.1:9000", "http://minio:9000/a b", "http://", "http://u:p@h", "htp://minio", "s3://b"],
)
def test_an_address_that_is_none_of_an_s3_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_S3_ENDPOINT", address)
    with pytest.raises(ConfigError, match=r"^TIDEMARK_S3_ENDPOINT: http:// or https:// with a host"):
        Settings()


@pytest.mark.parametrize("address", ["http://minio:9000", "https://s3.example.org/v1/s3", "http://[::1]:9000"])
def test_an_address_of_an_s3_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_S3_ENDPOINT", address)
    assert Settings().s3_endpoint == address


@pytest.mark.parametrize(
    ("name", "good", "wrong"),
    [
        ("DRIVER_MEMORY", ["4g", "512m", "2GB"], ["4 GB", "lots", "4", "0g", "1.5g"]),
        (
            "SPARK_MASTER",
            ["local", "local[4]", "local[*]", "local[2,3]", "spark://a:7077,b:7077", "yarn", "k8s://https://h:6443"],
            ["local[two]", "local[0]", "spark://host", "host:7077", "yarn-cluster", "k8s://"],
        ),
    ],
)
def test_what_spark_is_started_with(
    name: str, good: list[str], wrong: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in good:
        monkeypatch.setenv(f"TIDEMARK_{name}", value)
        assert getattr(Settings(), name.lower()) == value
    for value in wrong:
        monkeypatch.setenv(f"TIDEMARK_{name}", value)
        with pytest.raises(ConfigError, match=f"^TIDEMARK_{name}: "):
            Settings()


def test_a_path_from_a_file_of_variables_has_no_home_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LAKE", "~/lake")
    with pytest.raises(ConfigError, match=r"^TIDEMARK_LAKE: a path without `~`"):
        Settings()


@pytest.mark.parametrize("place", ["s3://bucket", "s3://bucket/lake", "/srv/lake", "lake", "day 27:lake", ""])
def test_places_are_paths_or_on_s3(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LANDING", place)
    assert Settings().landing == place


@pytest.mark.parametrize(
    "address",
    [
        f"jdbc:postgresql://h/db?user=me&password={SECRET}",
        f"jdbc:postgresql://me:{SECRET}@h/db",
        f"https://me:{SECRET}@h",
    ],
)
def test_a_password_in_a_catalogs_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address stands in messages and on a command line."""
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", address)
    with pytest.raises(ConfigError, match=r"^TIDEMARK_CATALOG_URI: .* TIDEMARK_CATALOG_PASSWORD") as raised:
        Settings()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "jdbc:postgresql://h:5432/db?user=me",
        "jdbc:sqlite:/a@b/c.db",
        "https://h:8181/api?scope=a:b@c&token-exchange-enabled=false",
    ],
)
def test_an_address_of_a_catalog_without_a_password(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CATALOG_URI", address)
    assert Settings().catalog == address


def test_all_wrong_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "xml")
    monkeypatch.setenv("TIDEMARK_LOG_LEVEL", "loud")
    with pytest.raises(ConfigError, match=r"TIDEMARK_LOG_FORMAT: .*; TIDEMARK_LOG_LEVEL: "):
        Settings()
