"""What the documents say exists: links, targets of make, commands, modules; and one record's journey is a real one."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from tidemark.cli import app
from tidemark.feeds.model import Table
from tidemark.fold.contract import TIDEMARK_TYPE
from tidemark.formats import FORMATS
from tidemark.formats.contract import CHANGES
from tidemark.lake.stored_formats import FORMAT
from tidemark.ledger.feed_state import FeedState, HourRange, NextPublication, Republication
from tidemark.ledger.manifest import LandedObject, Manifest
from tidemark.ledger.receipts import CheckResult, Counts, FeedProgress, Receipt, TableProgress, TableReceipt
from tidemark.ledger.system_tables import SYSTEM_COLUMNS
from tidemark.pipeline.checks import plan_checks
from tidemark.settings import Settings
from tidemark_samples import load_sample
from tidemark_samples.exporting import Sample

PROJECT = Path(__file__).parent.parent.parent
LIBRARY = PROJECT / "include/tidemark"
DOCUMENTS = sorted(
    [PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") if (PROJECT / name).exists()]
    + [*(PROJECT / "docs").rglob("*.md"), PROJECT / "benchmarks/README.md", PROJECT / "include/checks/README.md"]
)
ARCHITECTURE = PROJECT / "docs/architecture.md"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_MAKE = re.compile(r"\bmake ((?:[a-z][a-z-]*)|$)")
_COMMAND = re.compile(r"\btidemark ([a-z][a-z ]*)")
_WHOLE_COMMAND = re.compile(r"(?:^|[\s/])tidemark ([a-z-][^`\n|&;]*)")
#: Folders that a path in a document may begin in. The last are rooms of the library.
_FOLDERS = [f"{path.name}/" for path in PROJECT.iterdir() if path.is_dir() and path.name[0] != "."]
_ROOMS = [f"{path.name}/" for path in LIBRARY.iterdir() if path.is_dir() and path.name[0] != "_"]


@cache
def text(document: Path) -> str:
    return document.read_text("utf-8")


def code(document: Path) -> Iterator[str]:
    """What a document prints as code: in its blocks, line by line, and within its sentences."""
    for _, block in _FENCE.findall(text(document)):
        yield from block.splitlines()
    yield from _CODE.findall(_FENCE.sub("", text(document)))


def anchors(document: Path) -> set[str]:
    """The headings of a document, as links name them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text(document)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def each(found: Iterator[tuple[Path, str]]) -> list[object]:
    """Parameters of a test, named by their document."""
    pairs = sorted(set(found))
    return [pytest.param(document, what, id=f"{document.relative_to(PROJECT)}: {what}") for document, what in pairs]


def links() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for target in _LINK.findall(_FENCE.sub("", text(document))):
            if "://" not in target:
                yield document, target


def targets() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for printed in code(document):
            yield from ((document, target) for target in _MAKE.findall(printed) if target)


def commands() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for printed in code(document):
            yield from ((document, words.strip()) for words in _COMMAND.findall(printed))


def paths() -> Iterator[tuple[Path, str]]:
    for document in DOCUMENTS:
        for printed in _CODE.findall(_FENCE.sub("", text(document))):
            # `tally` is the format of the walk-through, which nobody has added.
            if printed.startswith((*_FOLDERS, *_ROOMS)) and not re.search(r"[<>*…{\s]|tally", printed):
                yield document, printed


def named_tests() -> Iterator[tuple[Path, str]]:
    """Tests that a document names, perhaps with their file in front: ``test_ibm.py::test_key_change``. A name may end in
    ``…``."""
    for document in DOCUMENTS:
        for printed in _CODE.findall(_FENCE.sub("", text(document))):
            if re.fullmatch(r"(?:[\w/]+\.py)?(?:::)?test_\w+…?", printed):
                yield document, printed


@cache
def written_tests() -> dict[str, set[str]]:
    """By file, the names of its tests."""
    files = (PROJECT / "tests").rglob("test_*.py")
    return {
        str(file.relative_to(PROJECT)): set(re.findall(r"^def (test_\w+)", text(file), re.MULTILINE)) for file in files
    }


@pytest.mark.parametrize(("document", "named"), each(named_tests()))
def test_a_test_exists(document: Path, named: str) -> None:
    path, _, name = named.rpartition("::")
    of_path = [tests for file, tests in written_tests().items() if file.endswith(path)]
    begun = name.endswith("…")
    found = any(test.startswith(name[:-1]) if begun else test == name for tests in of_path for test in tests)
    assert found, f"there is no test {named}"


@pytest.mark.parametrize(("document", "target"), each(links()))
def test_a_link_leads_somewhere(document: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    linked = (document.parent / path).resolve() if path else document
    assert linked.exists(), f"there is no {target}"
    assert not anchor or anchor in anchors(linked), f"{path or document.name} has no heading {anchor}"


@pytest.mark.parametrize(("document", "target"), each(targets()))
def test_a_target_of_make_exists(document: Path, target: str) -> None:
    makefile = text(PROJECT / "Makefile").replace("\\\n", "")
    assert re.search(rf"^(?:\S+ )*{target}(?: \S+)*:", makefile, re.MULTILINE), f"make has no target {target}"


@pytest.mark.parametrize(("document", "words"), each(commands()))
def test_a_command_exists(document: Path, words: str) -> None:
    """Words behind a command are its arguments: a group has none."""
    found: Any = typer.main.get_command(app)
    assert found.commands
    for word in words.split():
        if not hasattr(found, "commands"):
            break
        assert word in found.commands, f"there is no `tidemark {words}`"
        found = found.commands[word]


def printed_commands() -> Iterator[tuple[Path, str]]:
    """Whole `tidemark` commands, of the documents and of what the library's texts print."""
    for document in DOCUMENTS:
        for printed in code(document):
            yield from ((document, found) for found in _WHOLE_COMMAND.findall(printed))
    for module in LIBRARY.rglob("*.py"):
        for printed in re.findall(r"`([^`\n]+)`", text(module)):
            yield from ((module, found) for found in _WHOLE_COMMAND.findall(printed))


@pytest.mark.parametrize(("document", "printed"), each(printed_commands()))
def test_a_printed_command_has_its_options(document: Path, printed: str) -> None:
    found: Any = typer.main.get_command(app)
    words = printed.split("#")[0].split()
    while words and words[0] in getattr(found, "commands", ()):
        found = found.commands[words.pop(0)]
    known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for option in re.findall(r"(?<!\S)\[?(--[a-z][a-z-]*)", " ".join(words)):
        assert option in known | {"--help"}, f"`tidemark {printed}`: there is no {option}"


@pytest.mark.parametrize(("document", "path"), each(paths()))
def test_a_path_exists(document: Path, path: str) -> None:
    """Paths begin in the project's folder, in the library's, or in the document's."""
    assert any((root / path).exists() for root in (PROJECT, LIBRARY, document.parent)), f"there is no {path}"


def test_the_rooms_of_the_architecture_are_those_of_the_library() -> None:
    named = set(re.findall(r"^\| (.+?) \| ", text(ARCHITECTURE), re.MULTILINE))
    rooms = {name.rstrip("/") for cell in named for name in _CODE.findall(cell) if name.endswith((".py", "/"))}
    # A folder that has only what Python compiled is left of an older release.
    there = {path.name for path in LIBRARY.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))} - {
        "__init__.py"
    }
    assert rooms == there


#: By section of the data model: the columns and fields that are stored, which it explains.
STORED = {
    "Manifests": [*Manifest.model_fields, *LandedObject.model_fields],
    "The change log": [*CHANGES.names, "hour", "version", "table", "key_names", "after_names"],
    "Published tables": TIDEMARK_TYPE.names,
    "System tables": [column for columns in SYSTEM_COLUMNS.values() for column in columns],
    "Receipts": [
        name
        for model in (Receipt, TableReceipt, Counts, CheckResult, FeedProgress, TableProgress)
        for name in model.model_fields
    ],
    "The state of a feed": [
        name for model in (FeedState, NextPublication, HourRange, Republication) for name in model.model_fields
    ],
}


@pytest.mark.parametrize("section", STORED)
def test_the_data_model_explains_every_column_and_field(section: str) -> None:
    page = text(PROJECT / "docs/data-model.md")
    explained = page.partition(f"\n## {section}")[2].partition("\n## ")[0]
    words = {word for printed in _CODE.findall(explained) for word in re.findall(r"\w+", printed)}
    # Every stored document has a format, which the page explains once; counts of released changes go together.
    missing = {name for name in STORED[section] if not name.startswith("released_")} - words - {"format"}
    assert not missing


def test_the_example_of_a_module_of_checks_is_one(tmp_path: Path) -> None:
    (example,) = [
        b for language, b in _FENCE.findall(text(PROJECT / "include/checks/README.md")) if language == "python"
    ]
    (tmp_path / "orders.py").write_text(example, "utf-8")
    table = Table.model_validate({"checks_module": "orders:Orders"})
    plan = plan_checks("shop.orders", table, Settings(checks=tmp_path))
    assert {(check.column, check.consequence) for check in plan.checks} == {("id", "stop"), ("qty", "quarantine")}
    assert [consequence for _, consequence in plan.models] == ["warn"]


def test_every_format_has_a_page_that_the_readme_lists() -> None:
    assert {page.stem for page in (PROJECT / "docs/formats").glob("*.md")} == set(FORMATS)
    assert all(f"(docs/formats/{name}.md)" in text(PROJECT / "README.md") for name in FORMATS)


def test_every_decision_is_listed() -> None:
    folder = PROJECT / "docs/decisions"
    pages = {page.name for page in folder.glob("0*.md")}
    assert pages and pages == set(_LINK.findall(text(folder / "README.md")))


def test_the_record_of_the_journey_is_what_the_sample_writes(tmp_path: Path) -> None:
    """The page's record lies where it says, in the object that its manifest entry describes."""
    blocks = [block for language, block in _FENCE.findall(text(ARCHITECTURE)) if language == "json"]
    record, landed = blocks[0].strip(), json.loads(blocks[1])
    load_sample("debezium").generate(tmp_path, Sample(hours=1, events=40, seed=3))
    source = tmp_path / landed["source"].removeprefix("/tmp/walk/")
    held = source.read_bytes()
    assert (len(held), hashlib.sha256(held).hexdigest()) == (landed["bytes"], landed["sha256"])
    lines = gzip.decompress(held).decode().splitlines()
    assert len(lines) == landed["records"]
    assert lines[9] == record, "the page says that it is line 10"


def test_the_receipt_of_the_journey_is_one_of_this_release() -> None:
    """A part of one: fields that there are, in their order, with this release's format."""
    printed = json.loads([block for language, block in _FENCE.findall(text(ARCHITECTURE)) if language == "json"][-1])
    assert printed["format"] == FORMAT
    for part, model in ((printed, Receipt), *((table, TableReceipt) for table in printed["tables"])):
        assert list(part) == [name for name in model.model_fields if name in part]


def test_the_sum_of_the_journey_holds() -> None:
    sentence = text(ARCHITECTURE).partition("Over all four tables:")[2]
    before, _, after = "".join(takewhile(lambda sign: sign != ".", sentence)).partition("=")
    landed, accounted = (sum(map(int, re.findall(r"\d+", side))) for side in (before, after))
    assert landed == accounted > 0
