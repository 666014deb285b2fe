"""Real servers for the tests of this folder: an S3 server over HTTP, from a package."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The URL of an S3 server on a free port, with credentials for it in the environment."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    dummies = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in dummies.items():
            patch.setenv(name, value)
        yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def s3(s3_endpoint: str) -> S3Client:
    """A client of the test's own: what the test does itself does not go through the library."""
    return boto3.session.Session().client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")


@pytest.fixture
def bucket(s3: S3Client) -> str:
    """A new bucket."""
    name = f"test-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name)
    return name
