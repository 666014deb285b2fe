"""Which tests are run when: the parts of the second tier, and the tests that are near a change."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import near_tests, second_tier
from tests import conftest

PROJECT = Path(__file__).parent.parent.parent


def test_every_test_of_the_second_tier_is_in_one_part() -> None:
    second = [
        path.relative_to(PROJECT)
        for path in (PROJECT / "tests").rglob("test_*.py")
        if re.search(r"mark\.full\b", path.read_text("utf-8"))
    ]
    assert second
    for path in second:
        parts = [
            part
            for part, folders in second_tier.PARTS.items()
            if any(path.is_relative_to(folder) for folder in folders)
        ]
        assert len(parts) == 1, f"{path} is in {parts}"


def test_make_has_a_target_for_each_part() -> None:
    makefile = (PROJECT / "Makefile").read_text("utf-8").replace("\\\n", "")
    (targets,) = re.findall(r"^(test-.*): test-%: setup$", makefile, re.MULTILINE)
    assert targets.split() == [f"test-{part}" for part in second_tier.PARTS]


def test_a_part_that_fails_is_counted_and_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(part: str, report: Path) -> tuple[int, float]:
        if part == "crash":
            return 139, 7.0  # it died and left no report
        bad = part == "late"
        report.write_text(
            f'<testsuites><testsuite tests="9" failures="{int(bad)}" errors="{int(bad)}" skipped="1"/></testsuites>'
        )
        return int(bad), 60.4

    monkeypatch.setattr(second_tier, "run_part", run)
    assert second_tier.main(["crash", "late", "schema"]) == 1
    table = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    assert table == [
        ["part", "seconds", "passed", "failed", "skipped"],
        ["crash", "7", "0", "0", "0", "exit", "code", "139"],
        ["late", "60", "6", "2", "1", "exit", "code", "1"],
        ["schema", "60", "8", "0", "1"],
    ]
    assert second_tier.main(["schema"]) == 0
    with pytest.raises(SystemExit, match="There is no part nosuch"):
        second_tier.main(["nosuch"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "tests/unit/fold/test_fold.py": "import json",
        "tests/unit/test_rooms.py": "",
        "tests/unit/test_documents.py": "",
        "tests/unit/test_errors.py": "from tidemark.errors import TidemarkError",
        "tests/e2e/late/test_late.py": "def f():\n    from tests.e2e import pair",
        "tests/e2e/pair.py": "from tidemark.fold import fold_rows",
        "tests/contract/test_fixtures.py": "",
        "tests/contract/data/a/changes.jsonl": "",
        "tests/stack/conftest.py": "from tests.postgres import postgres",
        "tests/stack/test_s3.py": "",
        "tests/postgres.py": "",
        "tests/unit/samples/test_samples.py": "",
        "tests/scheduler/test_daily.py": "from tidemark_samples import ibm",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "near"),
    [
        (
            "include/tidemark/fold/fold_rows.py",
            ["tests/e2e/late/test_late.py", "tests/unit/fold", "tests/unit/test_rooms.py"],
        ),
        ("include/tidemark/fold/other.py", ["tests/unit/fold", "tests/unit/test_rooms.py"]),
        ("include/tidemark/errors.py", ["tests/unit/test_errors.py", "tests/unit/test_rooms.py"]),
        ("tests/e2e/pair.py", ["tests/e2e/late/test_late.py"]),
        ("tests/e2e/late/test_late.py", ["tests/e2e/late/test_late.py"]),
        ("tests/e2e/late/test_that_is_gone.py", []),
        ("tests/contract/data/a/changes.jsonl", ["tests/contract"]),
        ("tests/postgres.py", ["tests/stack/test_s3.py"]),
        ("include/tidemark_samples/ibm.py", ["tests/scheduler/test_daily.py", "tests/unit/samples"]),
        ("docs/operations.md", ["tests/unit/test_documents.py"]),
        ("LICENSE", []),
    ],
)  # fmt: skip
def test_what_is_near_a_change(project: Path, changed: str, near: list[str]) -> None:
    chosen = near_tests.near_tests([changed], project)
    assert list(chosen) == near and set(chosen.values()) <= {changed}


def test_files_of_a_chosen_folder_are_not_named_again(project: Path) -> None:
    changed = ["scripts/setup", "include/tidemark/errors.py"]
    assert list(near_tests.near_tests(changed, project)) == ["tests/unit"]


def test_a_commit_that_does_not_exist_is_said() -> None:
    with pytest.raises(SystemExit, match="There is no commit nosuch: name one with `make test-near SINCE=…`"):
        near_tests.changed_since("nosuch")


def test_a_whole_run_of_the_first_tier_names_its_slow_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"tests/unit/test_a.py::slow": 20.1, "tests/unit/test_a.py::slowest": 30.0}
    monkeypatch.setattr(conftest, "_SECONDS", slow | {"tests/unit/test_a.py::quick": 19.9})
    for whole in (True, False):
        monkeypatch.setattr(conftest, "_is_whole_first_tier", lambda config, whole=whole: whole)
        written: list[str] = []
        reporter: Any = SimpleNamespace(section=lambda title, **_: None, write_line=written.append)
        config: Any = SimpleNamespace()
        conftest.pytest_terminal_summary(reporter, config)
        named = [line.split()[-1] for line in written if "::" in line]
        assert named == (["tests/unit/test_a.py::slowest", "tests/unit/test_a.py::slow"] if whole else [])
