"""The tests that belong to what changed since a commit, one path a line: ``python scripts/near_tests.py [COMMIT]``.

Without a commit: since the branch left ``origin/main``. What is not committed counts too. By folders and imports:

- a room of the library: ``tests/unit/<room>``, and the tests that import a changed module of it;
- a helper of the tests: the tests that import it, directly or through other helpers;
- a test, or a file of data in a folder of tests: the test, the tests of the folder;
- any other file: :data:`BESIDE`.

Says on stderr why each was chosen.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).parent.parent
#: Changed path (its beginning) → the tests that belong to it. The first that fits counts.
BESIDE = {
    "dags/": "tests/dags",
    "jobs/": "tests/dags",
    "plugins/": "tests/dags/test_page.py",
    "docker-compose.yaml": "tests/unit/test_compose.py",
    "Dockerfile": "tests/unit/test_compose.py",
    "include/checks/": "tests/unit/test_documents.py",
    "include/feeds/": "tests/unit/feeds",
    "include/tidemark_samples/": "tests/unit/samples",
    "docs/": "tests/unit/test_documents.py",
    "README.md": "tests/unit/test_documents.py",
    "CONTRIBUTING.md": "tests/unit/test_documents.py",
    "CHANGELOG.md": "tests/unit/test_documents.py",
    "Makefile": "tests/unit/test_documents.py",
    "benchmarks/": "tests/unit/test_documents.py",
    "scripts/": "tests/unit",
}
LIBRARY = "include/tidemark/"


def near_tests(changed: Iterable[str], project: Path = PROJECT) -> dict[str, str]:
    """Test files and folders, and for each the change it was chosen for. ``changed``: paths within the project."""
    importers = _importers(project)
    chosen: dict[str, str] = {}
    for path in sorted(changed):
        for test in _tests_of(path, importers, project):
            chosen.setdefault(test, path)
    # What lies in a chosen folder is chosen with it.
    return {test: why for test, why in sorted(chosen.items()) if not _parents(test) & chosen.keys()}


def changed_since(commit: str | None) -> list[str]:
    """Paths that differ from the commit, or that git does not know yet. Exits with a sentence where there is no commit."""
    base = commit or _git("merge-base", "HEAD", "origin/main")
    changed = _git("diff", "--name-only", base) if base else None
    if changed is None:
        sys.exit(f"There is no commit {commit or 'origin/main'}: name one with `make test-near SINCE=…`.")
    new = _git("ls-files", "--others", "--exclude-standard") or ""
    return sorted({*changed.splitlines(), *new.splitlines()})


def _tests_of(path: str, importers: dict[str, set[str]], project: Path) -> set[str]:
    if path.startswith(LIBRARY):
        inside = path.removeprefix(LIBRARY)
        room = inside.split("/")[0].removesuffix(".py")
        unit = {f"tests/unit/{room}", f"tests/unit/test_{room}.py", "tests/unit/test_rooms.py"}
        return {test for test in unit if (project / test).exists()} | _importing(path, importers)
    if path.startswith("tests/"):
        if _is_test(path):
            return {path} if (project / path).exists() else set()
        return _importing(path, importers) or _beside_data(path, project)
    return {test for start, test in BESIDE.items() if path.startswith(start)} | _importing(path, importers)


def _importing(path: str, importers: dict[str, set[str]]) -> set[str]:
    """The tests that import a module, also through other modules of the tests."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        for importer in importers.get(waiting.pop(), set()) - found:
            found.add(importer)
            waiting.append(importer)
    return {test for test in found if _is_test(test)}


def _beside_data(path: str, project: Path) -> set[str]:
    """The nearest folder above that has tests."""
    for parent in Path(path).parents:
        if any((project / parent).glob("test_*.py")):
            return {str(parent)}
    return set()


def _importers(project: Path) -> dict[str, set[str]]:
    """By path of a module: the modules of the tests that import it. A conftest.py is imported by all of its folder."""
    importers: dict[str, set[str]] = {}
    modules = [str(path.relative_to(project)) for path in (project / "tests").rglob("*.py")]
    for module in modules:
        for imported in _imports(project / module):
            base = "include/" if imported.startswith("tidemark") else ""
            path = base + imported.replace(".", "/")
            for one in (f"{path}.py", f"{path}/__init__.py"):
                importers.setdefault(one, set()).add(module)
        for parent in _parents(module):
            importers.setdefault(f"{parent}/conftest.py", set()).add(module)
    return importers


def _imports(module: Path) -> Iterable[str]:
    """Names of what a module imports, of ``from a import b`` both ``a`` and ``a.b``; within functions too."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_test(path: str) -> bool:
    return Path(path).name.startswith("test_")


def _parents(path: str) -> set[str]:
    return {str(parent) for parent in Path(path).parents if str(parent) != "."}


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> None:
    chosen = near_tests(changed_since(sys.argv[1] if len(sys.argv) > 1 else None))
    says = [f"{len(chosen)} files and folders of tests are near:"] if chosen else ["No test is near."]
    says += [f"  {test}  ({why})" for test, why in chosen.items()]
    sys.stderr.write("".join(f"{line}\n" for line in says))
    sys.stdout.write("".join(f"{test}\n" for test in chosen))


if __name__ == "__main__":
    main()
