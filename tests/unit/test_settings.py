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


def test_all_wrong_settings_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_LOG_FORMAT", "xml")
    monkeypatch.setenv("TIDEMARK_LOG_LEVEL", "loud")
    with pytest.raises(ConfigError, match=r"TIDEMARK_LOG_FORMAT: .*; TIDEMARK_LOG_LEVEL: "):
        Settings()
