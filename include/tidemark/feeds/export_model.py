"""The block `exports` of a feed file: where an hour's records come from, and what all models of feed files are made of."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tidemark.feeds.validators import host_and_port, marker_name, path_template

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(value: object) -> object:
    """``90s``, ``10m``, ``6h``, ``7d`` → timedelta."""
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"(\d{1,6})([smhd])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a whole number and one of s, m, h, d, like 10m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


Duration = Annotated[timedelta, BeforeValidator(_duration)]
PathTemplate = Annotated[str, AfterValidator(path_template)]
MarkerName = Annotated[str, AfterValidator(marker_name)]
Server = Annotated[str, AfterValidator(host_and_port)]

#: The container of what is read from Kafka: bytes stay the bytes that they are.
KAFKA_CONTAINER: dict[str, Any] = {"type": "kafka_json", "base64": True}


class Model(BaseModel):
    """Unknown keys are mistakes; what is loaded does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Kafka(Model):
    """The cluster that the topics are read from. Secrets are settings: TIDEMARK_KAFKA_USER and so on."""

    servers: list[Server] = Field(
        min_length=1, description="Brokers that are asked for the others, like `broker-1.example.org:9092`."
    )
    tls: bool = Field(False, description="Whether the connection is encrypted, and the brokers show a certificate.")
    ca: str | None = Field(
        None,
        description="With `tls`: the file (PEM) of the authority that signed the brokers' certificates. null: those that the "
        "machine trusts.",
    )
    certificate: str | None = Field(None, description="With `tls`: the file (PEM) of this client's certificate.")
    key: str | None = Field(
        None,
        description="With `certificate`: the file (PEM) of its private key. The key's password is the setting "
        "TIDEMARK_KAFKA_KEY_PASSWORD.",
    )
    sasl: Literal["plain", "scram-sha-256", "scram-sha-512"] | None = Field(
        None,
        description="How the user of the settings TIDEMARK_KAFKA_USER and TIDEMARK_KAFKA_PASSWORD signs in. `plain` without "
        "`tls` sends the password readably. null: not at all.",
    )
    connection: str | None = Field(
        None,
        description="In Airflow, the connection that holds the user and the password in their place, and in its extra the "
        "key's (`key_password`): for clusters with users of their own. Commands read the settings.",
    )
    removed: Literal["fail", "accept"] = Field(
        "fail",
        description="An hour of which the brokers have removed records before it landed, or may have: fail, or land what is "
        "left, and say so in the receipt.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Kafka:
        if not self.tls and (
            idle := [name for name in ("ca", "certificate", "key") if getattr(self, name) is not None]
        ):
            raise ValueError(f"names `{idle[0]}`, which does nothing without `tls: true`")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("names one of `certificate` and `key`: both are needed, or neither")
        return self


class Exports(Model):
    """Where an hour's records are and when they are all there."""

    path: PathTemplate | None = Field(
        None,
        description="Path template over {topic}, {date} and {hour}, ending in a file pattern: "
        "`{topic}/dt={date}/hr={hour}/*`. Relative to TIDEMARK_EXPORTS, or absolute, or s3://bucket/… Objects in folders "
        "below are not read; the receipt says so where it sees some. By folder and name an object is of one topic.",
    )
    kafka: Kafka | None = Field(
        None, description="Instead of `path`: the topics are read from Kafka itself (docs/kafka.md)."
    )
    marker: MarkerName | None = Field(
        "_SUCCESS",
        description="With `path`: the object beside the others that says the hour is complete; it may hold {topic}, {date} "
        "and {hour}. null: none.",
    )
    settle: Duration = Field(
        timedelta(minutes=10),
        description="Without a marker: complete when nothing has changed for this long, and the hour has been over for as "
        "long. With `kafka`: a partition without a "
        "record of a later hour is complete this long after the hour's end.",
    )
    wait: Duration = Field(
        timedelta(hours=6), description="How long `land` waits for an hour to be complete before it fails."
    )
    missing: Literal["fail", "empty"] = Field(
        "fail",
        description="An hour in which a topic has no object at all: fail, or an empty hour. While not even "
        "the folder of exports is there (a mount that is missing) the hour waits. With `kafka`: a topic that the "
        "brokers do not know (one without records in the hour is an empty hour).",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Exports:
        if (self.path is None) == (self.kafka is None):
            raise ValueError("names one of `path` and `kafka`: where the exports lie, or the cluster to read from")
        return self
