"""Hours, a reader and maintenance on a REST catalog, with a password of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.stack.rest_catalog import CLIENT, SECRET, serve
from tidemark.errors import ConfigError
from tidemark.operations.read_table import json_lines, read_snapshot
from tidemark.settings import Settings
from tidemark_samples import ibm
from tidemark_samples.exporting import Sample

pytestmark = pytest.mark.full

PROJECT = Path(__file__).parent.parent.parent
HOURS = ["2026-11-20T00", "2026-11-20T01"]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    jars = PROJECT / ".tidemark/jars"
    with serve(tmp_path, f"{tmp_path}/warehouse", jars) as address:
        query = urlencode({"warehouse": "rest", "oauth2-server-uri": f"{address}/v1/oauth/tokens"})
        yield {
            "TIDEMARK_HOME": str(tmp_path), "TIDEMARK_FEEDS": "feeds", "TIDEMARK_EXPORTS": "exports",
            "TIDEMARK_JARS": str(jars), "TIDEMARK_CATALOG_URI": f"{address}?{query}", "TIDEMARK_CATALOG_USER": CLIENT,
            "TIDEMARK_CATALOG_PASSWORD": SECRET,
        }  # fmt: skip


def test_hours_on_a_rest_catalog_come_to_the_truth(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ibm.generate(tmp_path, Sample(hours=2, events=60, seed=11))

    def tidemark(*words: str) -> str:
        command = [sys.executable, "-c", "from tidemark.cli import main; main()", *words]
        whole = os.environ | environment
        done = subprocess.run(command, env=whole, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-12000:]
        assert SECRET not in done.stdout + done.stderr
        return done.stdout

    tidemark("run", "payroll", "--hour", HOURS[0], "--to", HOURS[1])
    tidemark("maintain", "payroll")
    assert "good" in tidemark("status")
    assert [line.rpartition(", ")[2] for line in tidemark("audit", "payroll").splitlines()] == ["agrees"] * 2
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for hour in HOURS:
        for truth in (tmp_path / "truth" / hour).iterdir():
            rows, key = read_snapshot(Settings(), truth.stem, hour)
            want = [json.loads(line) for line in truth.read_text().splitlines()]
            assert [json.loads(line) for line in json_lines(rows, key)] == want, f"{truth.stem} at {hour}"
    monkeypatch.setenv("TIDEMARK_CATALOG_PASSWORD", "wrong")
    with pytest.raises(ConfigError, match="does not let us in") as refused:
        read_snapshot(Settings(), truth.stem, HOURS[0])
    assert "wrong" not in str(refused.value) and "TIDEMARK_CATALOG_PASSWORD" in str(refused.value)
