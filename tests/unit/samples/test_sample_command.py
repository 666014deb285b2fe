"""``tidemark sample`` writes a feed that is right, for every format in every container it fits."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.contract.pairs import EXCUSED
from tidemark.cli import app
from tidemark.containers import CONTAINERS
from tidemark.errors import ConfigError
from tidemark.formats import FORMATS

FITTING = [(f, c) for f in FORMATS for c in CONTAINERS if (f, c) not in EXCUSED]


@pytest.mark.parametrize(("format_name", "container"), FITTING)
def test_a_sample_comes_with_a_feed_file_and_its_truth(tmp_path: Path, format_name: str, container: str) -> None:
    options = ["--hours", "2", "--events", "40", "--seed", "3", "--container", container]
    done = CliRunner().invoke(app, ["sample", format_name, str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    (feed,) = (tmp_path / "feeds").glob("*.yaml")
    assert f"tidemark run {feed.stem}" in done.output
    assert CliRunner().invoke(app, ["feeds", "check", str(feed)]).exit_code == 0
    assert {path.name for path in (tmp_path / "truth").iterdir()} == {"2026-11-20T00", "2026-11-20T01"}
    assert list((tmp_path / "truth").rglob("*.jsonl")) and list((tmp_path / "exports").rglob("_SUCCESS"))


def test_samples_may_lie_beside_each_other_in_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "my lake"
    for format_name, feed in (("ibm", "payroll"), ("canal", "inventory")):
        done = CliRunner().invoke(app, ["sample", format_name, str(folder), "--hours", "1", "--events", "20"])
        assert done.exit_code == 0, done.exception
        words = shlex.split(done.output.splitlines()[-1])
        assert words[0] == f"TIDEMARK_HOME={folder}" and words[-4:] == ["run", feed, "--hour", "2026-11-20T00"]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        CliRunner().invoke(app, ["sample", "qlik", str(tmp_path / name), "--hours", "1"])
    one, two = (
        {p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()}
        for n in ("one", "two")
    )
    assert one and [*one.values()] == [*two.values()]


def test_an_installed_package_says_where_samples_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidemark_samples", None)
    done = CliRunner().invoke(app, ["sample", "qlik", str(tmp_path)])
    assert isinstance(done.exception, ConfigError) and "scripts/in-project tidemark sample" in str(done.exception.fix)
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["sample", "xml", str(tmp_path)])
    assert done.exit_code != 0 and "one of: canal, dataworks, debezium, ibm, qlik" in str(done.exception)
