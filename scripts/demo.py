"""Feeds of all five formats from exports to published tables, two of them through Airflow: ``make demo``.

Makes all it needs under ``.tidemark/demo`` (exports, lake, Airflow's home) and begins with a clean one each time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import services

from tidemark_samples.exporting import Sample

DEMO = services.HOME.parent
PROJECT = DEMO.parent.parent
DAY, HOURS = "2026-11-20", ("00", "01", "02")
#: Feeds whose three hours Airflow runs, and feeds whose first hour the command line runs meanwhile.
BACKFILLED, BY_COMMAND = ("shop", "payroll"), ("crm", "mall", "inventory")
FEEDS = (*BACKFILLED, *BY_COMMAND)
RUNS = len(BACKFILLED) * len(HOURS)
STARTED = time.monotonic()
PATIENCE = 900.0

# A laptop runs this: DAGs run as soon as they are there (nothing is on schedule).
os.environ["AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION"] = "False"
os.environ["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"] = "600"
os.environ.setdefault("TIDEMARK_DRIVER_MEMORY", "1g")


def say(text: str) -> None:
    sys.stdout.write(f"[{time.monotonic() - STARTED:4.0f} s] {text}\n")
    sys.stdout.flush()


def run(*command: str) -> None:
    """A command whose output matters only when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def make_exports() -> None:
    from tidemark_samples import canal, dataworks, ibm, qlik

    recorded = PROJECT / "samples" / "debezium" / "exports" / "C"
    for topic in recorded.iterdir():
        for hour in (*HOURS, "03", "04", "05"):
            target = DEMO / "exports" / topic.name / f"dt={DAY}" / f"hr={hour}"
            target.mkdir(parents=True)
            for part in (topic / f"dt={DAY}" / f"hr={hour}").glob("*"):
                shutil.copy(part, target)
            (target / "_SUCCESS").touch()
    (DEMO / "feeds").mkdir()
    shutil.copy(PROJECT / "include" / "feeds" / "shop.yaml", DEMO / "feeds")
    ibm.generate(DEMO, Sample(hours=len(HOURS), events=300, seed=7, poison=1))
    for generator in (qlik, dataworks, canal):
        generator.generate(DEMO, Sample(hours=len(HOURS), events=200, seed=7))


def backfill(api: Api, feed: str) -> None:
    """By Airflow's command line the first time, by its API (which does the same, in less time) after that."""
    first, last = f"{DAY}T{HOURS[0]}:00:00Z", f"{DAY}T{HOURS[-1]}:00:00Z"
    command = [
        *("airflow", "backfill", "create", "--dag-id", f"ingest_{feed}", "--from-date", first, "--to-date", last),
        *("--reprocess-behavior", "none", "--max-active-runs", str(len(HOURS))),
    ]
    say(" ".join(command))
    if feed == BACKFILLED[0]:
        run(*command)
        return
    body = {"dag_id": f"ingest_{feed}", "from_date": first, "to_date": last, "max_active_runs": len(HOURS)}
    api.call("backfills", body | {"reprocess_behavior": "none", "run_backwards": False, "dag_run_conf": {}})


def run_by_command() -> None:
    """The same stages without Airflow, one feed after the other. SystemExit when a run fails."""
    for feed in BY_COMMAND:
        command = ["tidemark", "run", feed, "--hour", f"{DAY}T{HOURS[0]}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        say(f"{' '.join(command)}: {done.stdout.strip().partition(': ')[2]}")


class Api:
    """Airflow's REST API, as the administrator."""

    def __init__(self) -> None:
        user, password = services.login()
        body = json.dumps({"username": user, "password": password}).encode()
        request = urllib.request.Request(
            f"{services.URL}/auth/token", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            self._token = json.load(answer)["access_token"]

    def call(self, path: str, body: object = None) -> dict[str, list[dict[str, object]]]:
        """GET, or POST of a body."""
        request = urllib.request.Request(
            f"{services.URL}/api/v2/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, list[dict[str, object]]] = json.load(answer)
            return found


def wait_for_dags(api: Api) -> None:
    wanted = {f"ingest_{feed}" for feed in FEEDS}
    while wanted - {str(dag["dag_id"]) for dag in api.call("dags?limit=100")["dags"]}:
        if broken := api.call("importErrors")["import_errors"]:
            raise SystemExit(f"A DAG file cannot be loaded:\n{broken[0]['stack_trace']}")
        timeout("Airflow has not read the DAG files")
        time.sleep(0.5)


def follow(api: Api) -> bool:
    """Print what every task does until all runs have ended; True when all went well."""
    printed: set[tuple[object, ...]] = set()
    while True:
        runs = api.call("dags/~/dagRuns?limit=100")["dag_runs"]
        for line in news(api, printed):
            say(line)
        if len(runs) == RUNS and all(run["state"] in ("success", "failed") for run in runs):
            return all(run["state"] == "success" for run in runs)
        timeout("the runs have not ended")
        time.sleep(2)  # Airflow's answers cost what the jobs could use


def news(api: Api, printed: set[tuple[object, ...]]) -> Iterator[str]:
    tasks = api.call("dags/~/dagRuns/~/taskInstances?limit=100&order_by=end_date")["task_instances"]
    for task in tasks:
        key = (task["dag_id"], task["dag_run_id"], task["task_id"], task["try_number"], task["state"])
        if key in printed or task["state"] not in ("success", "failed", "up_for_retry"):
            continue
        printed.add(key)
        hour = str(task["logical_date"])[:13]
        name = f"{task['dag_id']}  {hour}  {task['task_id']:<16}"
        if task["state"] == "success":
            yield f"{name}  {task['duration']:5.1f} s"
        else:
            log = f"dag_id={task['dag_id']}/run_id={task['dag_run_id']}/task_id={task['task_id']}"
            yield f"{name}  {task['state']}: see {services.HOME / 'logs' / log}"


def timeout(what: str) -> None:
    if time.monotonic() - STARTED > PATIENCE:
        raise SystemExit(f"After {PATIENCE / 60:.0f} minutes {what}; Airflow's output is in {services.BACKGROUND.logs}")


def show(*arguments: str) -> None:
    sys.stdout.write(f"\n$ scripts/in-demo tidemark {' '.join(arguments)}\n")
    sys.stdout.flush()
    subprocess.run(["tidemark", *arguments], check=True)


def main() -> None:
    if services.BACKGROUND.alive():
        raise SystemExit("Airflow is running on the demo: `make stop` stops it, then run this again.")
    say("A clean demo in .tidemark/demo: recorded Debezium events; generated exports of IBM, Qlik, DataWorks and Canal")
    for name in ("exports", "feeds", "truth", "lake", "airflow"):
        shutil.rmtree(DEMO / name, ignore_errors=True)
    services.HOME.mkdir(parents=True)
    make_exports()
    with ThreadPoolExecutor(1) as beside:
        others = beside.submit(run_by_command)
        well = through_airflow()
        others.result()
    if not well:
        raise SystemExit("A run failed: its last lines are in the log named above.")
    say("All hours are published; Airflow is stopped")
    tell()


def through_airflow() -> bool:
    """Three hours of two feeds; whether all went well."""
    say("Airflow's database, API server and DAG processor start, then its scheduler and triggerer")
    try:
        services.start(("api-server", "dag-processor"))
        api = Api()
        wait_for_dags(api)
        for feed in BACKFILLED:
            backfill(api, feed)
        # Only now: what has no run yet needs no scheduler, and it would take time from what makes the runs.
        services.start_beside(("scheduler", "triggerer"))
        return follow(api)
    finally:
        services.stop()


def tell() -> None:
    """What happened, and where to look next."""
    show("receipts")
    show("show", "shop.orders", "--as-of", f"{DAY}T{HOURS[-1]}", "--limit", "5")
    show("quarantine", "list", "payroll")
    show("held", "payroll")
    sys.stdout.write(
        f"""
Where to look next:
  scripts/in-demo tidemark show shop.customers --as-of {DAY}T{HOURS[0]}   a table as it was at an earlier hour
  scripts/in-demo tidemark run shop --hour {DAY}T03 --to {DAY}T05   the shop's next hours, without Airflow
  make demo-ui                          these runs in Airflow's pages; `make stop` ends it
  .tidemark/demo/feeds                  the five feed files; docs/formats explains each format
"""
    )


if __name__ == "__main__":
    main()
