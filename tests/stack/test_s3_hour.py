"""Whole hours with exports, landing and lake on S3, by the feed file that also works on local folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

pytestmark = [pytest.mark.full, pytest.mark.promise(1)]

PROJECT = Path(__file__).parent.parent.parent
HOURS = ["2026-11-20T00", "2026-11-20T01"]


def test_hours_on_s3_come_to_the_same_tables(tmp_path: Path, s3_endpoint: str, s3: Any, bucket: str) -> None:
    ibm.generate(tmp_path, Sample(hours=2, events=60, seed=11))
    for file in (tmp_path / "exports").rglob("*"):
        if file.is_file():
            s3.upload_file(str(file), bucket, f"exports/{file.relative_to(tmp_path / 'exports')}")
    environment = {
        "TIDEMARK_HOME": str(tmp_path),
        "TIDEMARK_FEEDS": str(tmp_path / "feeds"),
        "TIDEMARK_JARS": str(PROJECT / ".tidemark/jars"),
        "TIDEMARK_EXPORTS": f"s3://{bucket}/exports",
        "TIDEMARK_LAKE": f"s3://{bucket}/lake",
        "TIDEMARK_S3_ENDPOINT": s3_endpoint,
    }
    # A process of its own: a Spark session keeps the catalog it began with.
    command = [sys.executable, "-c", "from tidemark.cli import main; main()"]
    done = subprocess.run(
        [*command, "run", "payroll", "--hour", HOURS[0], "--to", HOURS[1]],
        env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-12000:]
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [f"payroll {hour}" for hour in HOURS]

    settings = Settings(
        home=tmp_path, lake=f"s3://{bucket}/lake", exports=f"s3://{bucket}/exports", s3_endpoint=s3_endpoint
    )
    for hour in HOURS:
        for truth in (tmp_path / "truth" / hour).iterdir():
            rows, key = read_snapshot(settings, truth.stem, hour)
            want = [json.loads(line) for line in truth.read_text().splitlines()]
            assert [json.loads(line) for line in json_lines(rows, key)] == want, f"{truth.stem} at {hour}"
    assert not (tmp_path / ".tidemark/lake").exists()  # nothing but the catalog stayed on this machine
