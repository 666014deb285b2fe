"""Commits that a real PostgreSQL made and whose answer never came: the connection broke, or nothing more was heard."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import psycopg2
import pytest

from tests.crash import installation
from tests.crash.installation import HOURS, Undisturbed, assert_same, settings_of, state
from tests.postgres import PASSWORD, USER, postgres
from tests.proxy import Link, Proxy, proxy

pytestmark = [pytest.mark.full, pytest.mark.promise(6)]

#: The statement with which Iceberg commits to a table, as its JDBC catalog writes it.
COMMIT = b"UPDATE iceberg_tables"
#: How PostgreSQL ends an answer outside of a transaction: ReadyForQuery, idle.
READY = b"Z\x00\x00\x00\x05I"


class Loses:
    """Every ``each``-th commit is made, and its answer thrown away: with the connection or, every second time, without
    a word."""

    def __init__(self, each: int) -> None:
        self._each, self._commits, self._lost = each, itertools.count(1), itertools.count()

    def __call__(self, link: Link, between: Proxy) -> None:
        losing = False

        def up(chunk: bytes) -> bytes:
            nonlocal losing
            if COMMIT in chunk:
                losing = next(self._commits) % self._each == 0
                between.note("commits")
            return chunk

        def down(chunk: bytes) -> bytes | None:
            if not losing:
                return chunk
            if not chunk.endswith(READY):
                return b""  # more of it comes
            silent = next(self._lost) % 2 == 1
            between.note("silent" if silent else "broken")
            return b"" if silent else None

        link.both_ways(up, down)


@pytest.mark.long
def test_commits_whose_answers_were_lost_count_once(undisturbed: Undisturbed, tmp_path: Path) -> None:
    with postgres("lake") as server, proxy(server.port, Loses(17)) as between:
        # Else a statement that was used before is named, and no longer spelt out.
        uri = f"jdbc:postgresql://127.0.0.1:{between.port}/lake?prepareThreshold=0"
        catalog = {"catalog_uri": uri, "catalog_user": USER, "catalog_password": PASSWORD}
        settings = settings_of(undisturbed.folder, "postgres", **catalog)
        timeout = settings.spark_conf | {"spark.sql.catalog.lake.jdbc.socketTimeout": "2"}
        settings = settings.model_copy(update={"spark_conf": timeout})
        attempts = []
        while not attempts or attempts[-1].returncode:  # what failed is tried again, as Airflow does
            assert len(attempts) < 12, [attempt.stderr[-500:] for attempt in attempts]
            attempts.append(installation.run(settings, HOURS, tmp_path / "trace"))
        assert min(between.done["broken"], between.done["silent"]) >= 2, between.done
        direct = catalog | {"catalog_uri": uri.replace(str(between.port), str(server.port))}
        assert_same(state(settings_of(undisturbed.folder, "postgres", **direct)), undisturbed.state, between.done)


def test_the_proxy_loses_what_it_says(tmp_path: Path) -> None:
    """The server has committed; the client hears nothing."""
    with postgres("db") as server, proxy(server.port, Loses(2)) as between:
        dsn = f"host=127.0.0.1 user={USER} password={PASSWORD} dbname=db"
        with psycopg2.connect(f"{dsn} port={server.port}") as direct, direct.cursor() as cursor:
            cursor.execute("CREATE TABLE iceberg_tables (n int)")
            cursor.execute("INSERT INTO iceberg_tables VALUES (0)")
            direct.commit()
            through = psycopg2.connect(f"{dsn} port={between.port}")
            through.autocommit = True
            through.cursor().execute("UPDATE iceberg_tables SET n = 1")
            with pytest.raises(psycopg2.OperationalError):
                through.cursor().execute("UPDATE iceberg_tables SET n = 2")
            cursor.execute("SELECT n FROM iceberg_tables")
            assert cursor.fetchone() == (2,)
        direct.close()
    assert between.done == {"commits": 2, "broken": 1}
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", between.port), timeout=1):
        pass
