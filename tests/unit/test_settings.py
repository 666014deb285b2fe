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


def test_a_path_from_a_file_of_variables_has_no_home_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LAKE", "~/lake")
    with pytest.raises(ConfigError, match=r"^TIDEMARK_LAKE: a path without `~`"):
        Settings()


@pytest.mark.parametrize("place", ["s3://bucket", "s3://bucket/lake", "/srv/lake", "lake", "day 27:lake", ""])
def test_places_are_paths_or_on_s3(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LANDING", place)
    assert Settings().landing == place


def test_all_wrong_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "xml")
    monkeypatch.setenv("TIDEMARK_LOG_LEVEL", "loud")
    with pytest.raises(ConfigError, match=r"TIDEMARK_LOG_FORMAT: .*; TIDEMARK_LOG_LEVEL: "):
        Settings()
