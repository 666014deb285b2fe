"""Runs parts of the second tier, one after the other, and prints what came of each.

``python scripts/second_tier.py [PART …]``, without a part: all of them. A part that fails does not end the run; the exit
code says that one did. ``WORKERS`` and ``PYTEST`` are those of the Makefile.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

PROJECT = Path(__file__).parent.parent
#: By subject, the folders and files whose tests of the second tier are the part. Each of these tests is in one.
PARTS = {
    "units": ("tests/contract", "tests/unit"),
    "debezium": ("tests/e2e/formats/test_debezium.py", "tests/e2e/formats/test_debezium_sample.py"),
    "formats": (
        "tests/e2e/formats/test_generated.py", "tests/e2e/formats/test_ibm_deliveries.py",
        "tests/e2e/formats/test_decimals.py", "tests/e2e/formats/test_infinities.py",
        "tests/e2e/formats/test_canal_partitions.py", "tests/e2e/formats/test_row_images.py",
        "tests/e2e/formats/test_changed_objects.py", "tests/e2e/formats/test_plan_sizes.py",
        "tests/e2e/formats/test_units_of_times.py", "tests/e2e/formats/test_debezium_connectors.py",
        "tests/e2e/formats/test_wide_tables.py",
    ),
    "convergence": ("tests/convergence",),
    "transactions": (
        "tests/e2e/transactions/test_bad_transactions.py", "tests/e2e/transactions/test_colliding_keys.py",
        "tests/e2e/transactions/test_keyless.py", "tests/e2e/transactions/test_mended_copies.py",
        "tests/e2e/transactions/test_published_in_parts.py", "tests/e2e/transactions/test_refused_key_changes.py",
        "tests/e2e/transactions/test_screen.py", "tests/e2e/transactions/test_stopped_tables.py",
        "tests/e2e/transactions/test_transactions.py",
    ),
    "dataworks": (
        "tests/e2e/transactions/test_dataworks_pairs.py", "tests/e2e/transactions/test_long_transactions.py",
        "tests/e2e/transactions/test_undecodable_records.py",
    ),
    "schema": ("tests/e2e/schema",),
    "replay": ("tests/e2e/replay",),
    "promises": ("tests/e2e/test_promises.py", "tests/e2e/test_job_counts.py"),
    "late": (
        "tests/e2e/late/test_at_once.py", "tests/e2e/late/test_cuts.py", "tests/e2e/late/test_interleaved_hours.py",
        "tests/e2e/late/test_late.py", "tests/e2e/late/test_repeated.py", "tests/e2e/late/test_staged_rows.py",
    ),
    "reloads": (
        "tests/e2e/late/test_incremental_snapshot.py", "tests/e2e/late/test_new_positions.py",
        "tests/e2e/late/test_reloads.py",
        "tests/e2e/late/test_second_snapshot.py",
    ),
    "operations": ("tests/e2e/operations",),
    "crash": (
        "tests/crash/test_interrupted.py", "tests/crash/test_changed_meanwhile.py", "tests/crash/test_bad_storage.py",
        "tests/crash/test_lost_answers.py",
    ),
    "paused": ("tests/crash/test_paused.py",),
    "scheduler": ("tests/scheduler", "tests/dags"),
    "stack": (
        "tests/stack/test_kafka.py", "tests/stack/test_rest_catalog.py", "tests/stack/test_s3_answers.py",
        "tests/stack/test_s3_feed_lock.py", "tests/stack/test_s3_hour.py", "tests/stack/test_s3_land.py",
        "tests/stack/test_s3_paused.py",
    ),
    "cluster": ("tests/stack/test_cluster.py",),
    "survival": ("tests/stack/test_survival.py",),
    "yarn": ("tests/stack/test_yarn.py",),
    "page": ("tests/page",),
}  # fmt: skip
SECOND_TIER = "full and not long"


def run_part(part: str, report: Path) -> tuple[int, float]:
    """pytest's exit code, and the seconds it took."""
    begun = time.monotonic()
    workers = ["-n", os.environ.get("WORKERS") or "2", "--dist", "loadgroup", "--junitxml", str(report)]
    more = shlex.split(os.environ.get("PYTEST", ""))
    command = [sys.executable, "-m", "pytest", *workers, "-m", SECOND_TIER, *PARTS[part], *more]
    # Tests that need what a machine may lack are skipped elsewhere; in the part that is asked for they fail.
    asked = os.environ | {"TIDEMARK_TEST_PART": part}
    return subprocess.run(command, cwd=PROJECT, env=asked, check=False).returncode, time.monotonic() - begun


def counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed (errors too) and skipped; nothing of a run that left no report."""
    if not report.exists():
        return 0, 0, 0
    suites = list(ElementTree.parse(report).iter("testsuite"))
    tests, failures, errors, skipped = (
        sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return tests - failures - errors - skipped, failures + errors, skipped


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in PARTS]:
        sys.exit(f"There is no part {', '.join(unknown)}: there are {', '.join(PARTS)}.")
    rows, codes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or PARTS:
            sys.stdout.write(f"== {name}\n")
            sys.stdout.flush()
            report = Path(folder) / f"{name}.xml"
            code, seconds = run_part(name, report)
            codes.append(code)
            rows.append((name, f"{seconds:.0f}", *map(str, counts(report)), "" if code == 0 else f"exit code {code}"))
    for row in [("part", "seconds", "passed", "failed", "skipped", ""), *rows]:
        sys.stdout.write("{:<14}{:>8}{:>8}{:>8}{:>9}  {}".format(*row).rstrip() + "\n")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
