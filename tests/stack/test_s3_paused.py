"""Runs that stand still before a write while another goes on, with their lakes on S3."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.promise(1, 5, 6)]

PROJECT = Path(__file__).parent.parent.parent


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "test",
    [
        "test_what_a_run_writes_that_was_overtaken_counts_for_nobody[the same hour]",
        "test_before_each_of_its_writes[even-the same hour]",
        "test_before_each_of_its_writes[odd-the same hour]",
    ],
)
def test_a_run_that_was_overtaken_counts_for_nobody_on_s3(s3_endpoint: str, bucket: str, test: str) -> None:
    """In a process of its own: Spark keeps the S3 that it began with."""
    on_s3 = {"TIDEMARK_S3_ENDPOINT": s3_endpoint, "TIDEMARK_TEST_LAKES": f"s3://{bucket}"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-m",
        "",
        f"tests/crash/test_paused.py::{test}",
    ]
    done = subprocess.run(
        [*command, "--timeout", "850"], cwd=PROJECT, env=os.environ | on_s3,
        capture_output=True, text=True, timeout=880, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-12000:]
    assert "1 passed" in done.stdout
