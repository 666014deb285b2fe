"""The user and the password of a feed's Kafka cluster, where the feed file names the Airflow connection that holds them."""

from __future__ import annotations

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from tidemark.errors import ConfigError
from tidemark.feeds.model import Feed
from tidemark.settings import Settings


def settings_of(feed: Feed) -> Settings:
    """The settings of a feed's task. ConfigError where the connection that the feed file names is not there."""
    if (name := _connection_of(feed)) is None:
        return Settings()
    try:
        return _signed_in(Connection.get(name))
    except AirflowNotFoundException:
        raise _missing(feed, name) from None


async def settings_of_trigger(feed: Feed) -> Settings:
    """The same in the triggerer, in whose loop Airflow must be asked otherwise."""
    if (name := _connection_of(feed)) is None:
        return Settings()
    try:
        return _signed_in(await Connection.async_get(name))
    except AirflowNotFoundException:
        raise _missing(feed, name) from None


def _connection_of(feed: Feed) -> str | None:
    return feed.exports.kafka.connection if feed.exports.kafka else None


def _signed_in(connection: Connection) -> Settings:
    """The settings with what the connection holds of a login."""
    key_password = connection.extra_dejson.get("key_password")
    login = {
        "kafka_user": connection.login, "kafka_password": connection.password, "kafka_key_password": key_password
    }  # fmt: skip
    return Settings().model_copy(update={name: text for name, text in login.items() if text})


def _missing(feed: Feed, name: str) -> ConfigError:
    return ConfigError(
        f"`exports.kafka.connection` names {name}, which is no connection of this Airflow",
        fix=f"add it: `airflow connections add {name} --conn-type generic --conn-login … --conn-password …`",
        feed=feed.feed,
    )
