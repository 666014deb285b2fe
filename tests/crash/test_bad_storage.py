"""An S3 server that refuses, fails, stalls, answers half and forgets to answer."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.crash import installation
from tests.crash.installation import HOURS, Undisturbed, assert_same, settings_of, state
from tests.proxy import Link, Proxy, proxy

pytestmark = pytest.mark.promise(6)


class BadDays:
    """Some requests go wrong, never more than two in a row: in the five ways that ``KINDS`` names."""

    KINDS = ("refused", "failed", "half", "lost", "stalled")
    #: Seconds a stalled answer is waited for: longer than the clients' timeouts below.
    STALL = 4.0
    RATE = 0.02

    def __init__(self) -> None:
        self._chance, self._in_a_row, self._lock = random.Random(3), 0, threading.Lock()

    def _next(self) -> str:
        with self._lock:
            bad = self._in_a_row < 2 and self._chance.random() < self.RATE
            self._in_a_row = self._in_a_row + 1 if bad else 0
            return self._chance.choice(self.KINDS) if bad else "good"

    def __call__(self, link: Link, between: Proxy) -> None:
        kind = self._next()
        between.note(kind)
        if kind == "good":
            link.both_ways(lambda chunk: chunk, lambda chunk: chunk)
        elif kind == "failed":
            link.client.recv(1 << 16)
            body = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            head = b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\n"
            link.client.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        elif kind != "refused":
            answer = link.answer()  # the server has done it all
            if kind == "half":
                link.client.sendall(answer[: len(answer) // 2])
            elif kind == "stalled":
                time.sleep(self.STALL)
        link.close()


@pytest.mark.long
def test_a_storage_on_its_bad_days(undisturbed: Undisturbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket="bad")
        timeout = {
            "spark.sql.catalog.lake.http-client.apache.socket-timeout-ms": "2000",
            "spark.hadoop.fs.s3a.connection.timeout": "2s",
        }
        place = {"lake": "s3://bad/lake", "catalog_uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
        with proxy(port, BadDays()) as between:
            settings = settings_of(undisturbed.folder, "s3", **place, s3_endpoint=f"http://127.0.0.1:{between.port}")
            settings = settings.model_copy(update={"spark_conf": settings.spark_conf | timeout})
            attempts = []
            while not attempts or attempts[-1].returncode:
                assert len(attempts) < 8, "\n".join(attempt.stderr[-1000:] for attempt in attempts)
                attempts.append(installation.run(settings, HOURS, tmp_path / "trace"))
        assert all(between.done[kind] >= 3 for kind in BadDays.KINDS), between.done
        direct = settings_of(undisturbed.folder, "s3", **place, s3_endpoint=endpoint)
        assert_same(state(direct), undisturbed.state, (between.done, [done.stderr[-2000:] for done in attempts]))
    finally:
        server.stop()
