"""The services of docker-compose.yaml as processes of this machine, without Docker or root: ``make stack``.

Commands, ports, settings, health checks and the order of starts are the file's. PostgreSQL comes from a package, the S3
server is the file's own, built with Go where there is Go, else moto. Every start begins with an empty lake.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import local_postgres
import psutil
from compose_file import PROJECT, Service, as_processes, image_version, resolve
from processes import Background

FOLDER = Path(os.environ.get("TIDEMARK_STACK_FOLDER") or PROJECT / ".tidemark/stack")
NET = os.environ.get("TIDEMARK_STACK_NET", "127.77.0")
BACKGROUND = Background(FOLDER / "processes.json", FOLDER / "logs")
HEALTHY_WITHIN = 300.0
#: The S3 server versitygw, and whether it is built where it is missing.
GATEWAY = PROJECT / ".tools/bin/versitygw"
BUILDS_GATEWAY = os.environ.get("TIDEMARK_STACK_S3") != "moto"
#: The size of each worker: as small as a try-out needs.
WORKER = {"SPARK_WORKER_CORES": "1", "SPARK_WORKER_MEMORY": "2g"}
#: See :func:`asked`.
ASKED = ("TIDEMARK_FEEDS", "TIDEMARK_CHECKS", "TIDEMARK_DRIVER_MEMORY")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def services() -> dict[str, Service]:
    """By name, with what was asked for at the start. The compose file is read at the first call: its reader takes seconds."""
    file = FOLDER / "services.json"
    if not file.is_file():
        read = as_processes(resolve(FOLDER / ".env")["services"], NET, FOLDER)
        file.touch(mode=0o600)
        known = [asdict(service) | {"environment": service.environment | asked()} for service in read]
        file.write_text(json.dumps(known))
    return {known["name"]: Service(**known) for known in json.loads(file.read_text())}


def environment(service: Service) -> dict[str, str]:
    """What a service's process gets: the file's, and this machine's Python, Java and folders."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "AWS_", "TIDEMARK_", "SPARK_", "PG")) or name == "SPARK_HOME"
    }
    kept["PATH"] = f"{local_postgres.programs()}:{kept['PATH']}"
    # What a container's own network does for it, a process is told.
    here = {
        "PGHOST": service.address,
        "SPARK_LOCAL_IP": service.address,
        "AIRFLOW__API__HOST": service.address,
        "AIRFLOW__API__BASE_URL": service.environment.get("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "").removesuffix(
            "/execution/"
        ),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": service.address,
        "AIRFLOW__API__WORKERS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONUNBUFFERED": "1",
    }
    return kept | here | service.environment | asked()


def asked() -> dict[str, str]:
    """The caller's settings that count before the file's, and, of a later command, before those of the start."""
    return {name: os.environ[name] for name in ASKED if name in os.environ}


def start() -> None:
    """Start everything with an empty lake, and return when all is healthy. ``RuntimeError`` when it cannot be."""
    if BACKGROUND.alive():
        raise RuntimeError("the stack is running already: `make stack-stop` stops it")
    if taken := listening():
        raise RuntimeError(f"other programs listen at {', '.join(taken)}: choose another TIDEMARK_STACK_NET")
    check_addresses()
    shutil.rmtree(FOLDER, ignore_errors=True)
    for folder in ("airflow", "postgres", "s3", "spark-work"):
        (FOLDER / folder).mkdir(parents=True)
    make_secrets()
    try:
        start_in_order(services())
    except BaseException:
        stop()
        raise


def check_addresses() -> None:
    with socket.socket() as probe:
        try:
            probe.bind((f"{NET}.2", 0))
        except OSError as error:
            raise RuntimeError(
                f"this machine has no address {NET}.2 ({error}): Linux has the whole loopback network"
            ) from error


def make_secrets() -> None:
    """The .env of docker compose, with workers as small as a test needs."""
    file = FOLDER / ".env"
    subprocess.run([PROJECT / "scripts/make-env", file], check=True, capture_output=True)
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in WORKER]
    file.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in WORKER.items())]) + "\n")


def start_in_order(wanted: dict[str, Service]) -> None:
    """Each service once those that it needs are well or, of those that end, over."""
    waiting, well = dict(wanted), set[str]()
    starting: dict[str, Service] = {}
    end = time.monotonic() + HEALTHY_WITHIN
    while waiting or starting:
        for name, service in list(waiting.items()):
            if set(service.needs) <= well:
                starting[name] = waiting.pop(name)
                start_service(service)
        for name, service in list(starting.items()):
            if is_well(service):
                well.add(name)
                del starting[name]
                say(f"  {name:<22} {service.address:<12} {'done' if service.once else 'healthy'}")
        if time.monotonic() > end:
            raise RuntimeError(
                f"not healthy after {HEALTHY_WITHIN:.0f} s: {', '.join(starting)}; see {BACKGROUND.logs}"
            )
        time.sleep(0.3)


def start_service(service: Service) -> None:
    if service.name == "postgres":
        start_postgres(service)
    elif service.once:
        run_once(service, service.command)
    else:
        command = s3_command(service) if service.name == "s3" else service.command
        BACKGROUND.start(service.name, command, environment(service), cwd=PROJECT)


def run_once(service: Service, command: list[str], **more: str) -> None:
    with (BACKGROUND.logs / f"{service.name}.log").open("ab") as log:
        done = subprocess.run(
            command, env=environment(service) | more, cwd=PROJECT, stdout=log, stderr=log, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: see {BACKGROUND.logs}/{service.name}.log")


def start_postgres(service: Service) -> None:
    """As the image starts it: an administrator, a database, and scripts/postgres-init.sh."""
    folder, given = FOLDER / "postgres", service.environment
    local_postgres.make(folder, given["POSTGRES_USER"], given["POSTGRES_PASSWORD"])
    command = local_postgres.command(folder, service.address, 5432)
    BACKGROUND.start(service.name, command, environment(service), cwd=folder, **local_postgres.unprivileged())
    login = {"PGUSER": given["POSTGRES_USER"], "PGPASSWORD": given["POSTGRES_PASSWORD"]}
    end = time.monotonic() + 60
    while subprocess.run(["pg_isready", "-q"], env=environment(service), check=False).returncode:
        if time.monotonic() > end:
            raise RuntimeError(f"PostgreSQL did not come up: see {BACKGROUND.logs}/postgres.log")
        time.sleep(0.2)
    run_once(service, ["createdb", given["POSTGRES_DB"]], **login)
    run_once(service, ["sh", "scripts/postgres-init.sh"], **login)


def s3_command(service: Service) -> list[str]:
    """versitygw, where it is there or Go can build it; else moto, which keeps everything in memory and checks no key."""
    gateway = shutil.which("versitygw") or (str(GATEWAY) if GATEWAY.is_file() else build_gateway())
    if gateway:
        return [gateway, *service.command]
    return ["moto_server", "--host", service.address, "--port", "7070"]


def build_gateway() -> str:
    """Build the version that the image has, once; the path, or nothing where there is no Go or it fails."""
    if not (BUILDS_GATEWAY and shutil.which("go")):
        return ""
    version = image_version("versity/versitygw")
    say(f"Building the S3 server versitygw {version} (minutes, once) …")
    package = f"github.com/versity/versitygw/cmd/versitygw@{version}"
    done = subprocess.run(["go", "install", package], env=os.environ | {"GOBIN": str(GATEWAY.parent)}, check=False)
    return str(GATEWAY) if done.returncode == 0 else ""


def runs_gateway() -> bool:
    return "moto_server" not in " ".join(BACKGROUND.alive()["s3"].cmdline())


def is_well(service: Service) -> bool:
    """By the file's own health check. ``RuntimeError`` where the process is gone."""
    if service.once:
        return True
    if service.name not in BACKGROUND.alive():
        raise RuntimeError(f"{service.name} ended: see {BACKGROUND.logs}/{service.name}.log")
    check = service.health
    if check[0] == "wget":
        check = ["python", "scripts/healthy.py", check[-1] if runs_gateway() else check[-1].removesuffix("/health")]
    done = subprocess.run(check, env=environment(service), cwd=PROJECT, capture_output=True, check=False)
    return done.returncode == 0


def listening() -> list[str]:
    """The addresses of the stack's network at which somebody listens."""
    at = [one.laddr for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN and one.laddr]
    return sorted({f"{one.ip}:{one.port}" for one in at if one.ip.removeprefix("::ffff:").startswith(f"{NET}.")})


def stop() -> bool:
    """Stop everything, drivers and executors included. ``RuntimeError`` where a port of the stack is still taken."""
    stopped = BACKGROUND.stop()
    if stopped and (left := listening()):
        raise RuntimeError(f"the stack was stopped, but somebody still listens at {', '.join(left)}")
    return stopped


def run(command: list[str]) -> None:
    """Become a command in the scheduler's environment."""
    if not (FOLDER / ".env").is_file():
        raise RuntimeError("the stack was never started: `make stack` starts it")
    os.execvpe(command[0], command, environment(services()["airflow-scheduler"]))


def tell_addresses(known: dict[str, Service]) -> None:
    password = known["airflow-init"].environment["AIRFLOW_ADMIN_PASSWORD"]
    s3 = "versitygw" if runs_gateway() else "moto, which keeps all in memory and checks no key: there is no Go here"
    say(f"Airflow is at http://{known['airflow-api-server'].address}:8080  user: admin  password: {password}")
    say(f"Spark's master is at http://{known['spark-master'].address}:8080; the S3 server is {s3}")
    say("`scripts/in-stack tidemark …` runs a command there; `make stack-stop` stops it.")


def main() -> int:
    parser = argparse.ArgumentParser(description="The services of docker-compose.yaml, without Docker.")
    parser.add_argument("what", choices=["start", "stop", "run"])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    try:
        if given.what == "run":
            run(given.command)
        elif given.what == "stop":
            say("The stack is stopped; none of its ports is taken." if stop() else "The stack was not running.")
        else:
            say("Starting the services of docker-compose.yaml (a minute) …")
            start()
            tell_addresses(services())
    except RuntimeError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
