"""Starts and stops Airflow's services on this machine: ``scripts/in-project python scripts/services.py start|stop``.

Each service is a process of its own, recorded in ``$AIRFLOW_HOME/services.json``, with its output in
``$AIRFLOW_HOME/services/``. (``airflow standalone`` leaves children behind when it is stopped.)
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from processes import Background

HOME = Path(os.environ["AIRFLOW_HOME"])
BACKGROUND = Background(HOME / "services.json", HOME / "services")
HOST, PORT = os.environ["AIRFLOW__API__HOST"], int(os.environ["AIRFLOW__API__PORT"])
URL = f"http://{HOST}:{PORT}"
SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
HEALTHY_WITHIN = 120.0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def start(services: tuple[str, ...] = SERVICES) -> None:
    """Make Airflow's database or bring it up to date, start the services and return when they are healthy. Raises
    ``RuntimeError`` when they cannot be."""
    if BACKGROUND.alive():
        raise RuntimeError("Airflow is running already: `make stop` stops it")
    if port_taken():
        raise RuntimeError(
            f"port {PORT} is taken by another program: stop it, or choose another with AIRFLOW_PORT=8081"
        )
    _migrate()
    start_beside(services)


def _migrate() -> None:
    done = subprocess.run(["airflow", "db", "migrate"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"airflow db migrate failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def start_beside(services: tuple[str, ...]) -> None:
    """Start services beside those that run, and return when they are healthy."""
    for service in services:
        BACKGROUND.start(service, ["airflow", service])
    try:
        wait_until_healthy(services)
    except RuntimeError:
        stop()
        raise


def wait_until_healthy(services: tuple[str, ...]) -> None:
    names = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
    watched = [names[service] for service in services if service in names]
    end = time.monotonic() + HEALTHY_WITHIN
    while time.monotonic() < end:
        if not set(services) <= BACKGROUND.alive().keys():
            break
        try:
            with urllib.request.urlopen(f"{URL}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
            if all(health[name]["status"] == "healthy" for name in watched):
                return
        except (urllib.error.URLError, OSError, KeyError, ValueError):
            pass
        time.sleep(0.5)
    raise RuntimeError(f"Airflow's services did not come up; their output is in {BACKGROUND.logs}")


def stop() -> bool:
    """Stop the services and all they started; True when something was running."""
    stopped = BACKGROUND.stop()
    if stopped and port_taken():
        raise RuntimeError(f"Airflow's services were ended, but port {PORT} is still taken by another process")
    return stopped


def port_taken() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, PORT)) == 0


def login() -> tuple[str, str]:
    """User and password of the administrator, made by Airflow at the first start."""
    passwords = json.loads((HOME / "simple_auth_manager_passwords.json.generated").read_text())
    return "admin", passwords["admin"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Start or stop Airflow's services on this machine.")
    parser.add_argument("what", choices=["start", "stop"])
    try:
        if parser.parse_args().what == "stop":
            say("Airflow is stopped." if stop() else "Airflow was not running.")
            return 0
        say("Starting Airflow (about half a minute) …")
        start()
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    user, password = login()
    say(f"Airflow is at {URL}  user: {user}  password: {password}\n`make stop` stops it.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
