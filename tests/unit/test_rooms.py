"""The library's rooms: who imports whom; and how its classes tell their fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parent.parent.parent / "include/tidemark"
MODULES = sorted(LIBRARY.rglob("*.py"))

#: From the top to the bottom: a module imports from its own room and from those below it. A room is a folder, or a
#: module that stands alone.
ROOMS = (
    "cli", "orchestration", "page", "operations", "pipeline", "changelog", "tables", "fold", "ledger", "feeds", "formats",
    "containers", "lake", "storage", "values", "crash", "logs", "settings", "hours", "identifiers", "errors",
)  # fmt: skip
#: What a room does not know although it stands below: room → rooms it must not import.
UNKNOWN = {
    "formats": {"lake"},  # messages are decoded wherever they lie
    "containers": {"lake"},
    "fold": {"formats", "containers", "lake", "storage"},  # from DataFrame to DataFrame
}
#: The generators of sample exports are a package of their own, beside the library: only the command line knows them, and
#: they know these rooms.
SAMPLES, OF_SAMPLES = LIBRARY.parent / "tidemark_samples", {"hours", "formats"}
#: (module, module it imports) → why it must.
ARROWS_UP: dict[tuple[str, str], str] = {}


def module_name(path: Path) -> str:
    """``pipeline.hour`` of a path; a package is named by its folder, the library itself by the empty name."""
    parts = path.relative_to(LIBRARY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    return module.partition(".")[0]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> Iterator[str]:
    """The library's modules that a module imports, within functions and for type checkers too. For ``from x import y``
    where ``y`` is a module, that module."""
    known = {module_name(module) for module in MODULES}
    package = path.parent.relative_to(LIBRARY.parent).parts
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            where = ".".join([*base, *([node.module] if node.module else [])])
            inside = [f"{where}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("tidemark.") in known else where for name in inside]
        else:
            continue
        for name in names:
            if name == "tidemark" or name.startswith("tidemark."):
                yield name.removeprefix("tidemark").removeprefix(".")


def is_allowed(importer: str, imported: str) -> bool:
    above, below = room(importer), room(imported)
    if above == below or not importer or not imported:
        return True
    return ROOMS.index(above) < ROOMS.index(below) and below not in UNKNOWN.get(above, set())


def test_every_module_has_a_room() -> None:
    assert {room(module_name(path)) for path in MODULES} - {""} <= set(ROOMS)


def test_arrows_point_down_only() -> None:
    up = {
        (module_name(path), imported)
        for path in MODULES
        for imported in imports(path)
        if not is_allowed(module_name(path), imported)
    }
    found = [f"{importer} imports {imported}" for importer, imported in sorted(up - ARROWS_UP.keys())]
    assert not found, "\n".join(["", *found])
    assert ARROWS_UP.keys() <= up, "an exception that nothing needs any more"


def test_samples_stand_beside_the_library() -> None:
    """They know a few rooms, and only the command line knows them: the wheel leaves them out."""
    below = {
        node.module.removeprefix("tidemark.").partition(".")[0]
        for path in SAMPLES.rglob("*.py")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tidemark.")
    }
    assert below == OF_SAMPLES
    knowing = {
        module_name(path)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidemark_samples")
    }
    assert knowing == {"cli.installation"}


def test_no_stage_reads_the_receipts() -> None:
    """What it knows of the past is the feed's state; its own hour's last receipt goes on in the next one."""
    above = {"pipeline", "changelog", "tables", "fold"}
    taken = {
        alias.name
        for path in MODULES
        if room(module_name(path)) in above
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.module == "tidemark.ledger.publication_history"
        for alias in node.names
    }
    assert taken == {"load_receipt", "cuts_made"}


def base_names(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def known_models(classes: Sequence[ast.ClassDef]) -> set[str]:
    """The names of pydantic's models among the classes, by their bases."""
    known, found = set[str](), {"BaseModel", "BaseSettings"}
    while found != known:
        known, found = found, found | {node.name for node in classes if base_names(node) & found}
    return found


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_described(field: ast.AnnAssign) -> bool:
    return any(isinstance(part, ast.keyword) and part.arg == "description" for part in ast.walk(field))


def lacks(node: ast.ClassDef, models: set[str]) -> list[str]:
    """The fields of a class that say nothing, and the class where it has so many that they must be given by name.

    A dataclass or a NamedTuple says it in a docstring under the field, a model there or in the field's description.
    """
    decorators = [ast.unparse(one) for one in node.decorator_list]
    decorator = next((one for one in decorators if one.partition("(")[0].rpartition(".")[2] == "dataclass"), None)
    model = decorator is None and node.name in models
    if decorator is None and not model and "NamedTuple" not in base_names(node):
        return []
    followed = zip(node.body, [*node.body[1:], ast.Pass()], strict=True)
    fields = [
        (field, below)
        for field, below in followed
        if isinstance(field, ast.AnnAssign) and "ClassVar" not in ast.unparse(field.annotation)
    ]
    found = [
        f"{node.name}.{ast.unparse(field.target)} says nothing"
        for field, below in fields
        if not is_docstring(below) and not (model and is_described(field))
    ]
    if decorator is not None and len(fields) >= 5 and "kw_only=True" not in decorator:
        found.append(f"{node.name} is not kw_only")
    return found


def test_each_field_says_what_it_holds() -> None:
    """And of five fields and more nobody counts which is which: they are given by name."""
    classes = {
        str(path.relative_to(LIBRARY.parent)): [node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
        for path in [*MODULES, *SAMPLES.rglob("*.py")]
    }
    models = known_models([node for found in classes.values() for node in found])
    lacking = [
        f"{module}: {what}" for module, found in classes.items() for node in found for what in lacks(node, models)
    ]
    assert not lacking, "\n".join(["", *lacking])


def test_the_reader_of_classes_sees_all_kinds() -> None:
    source = """
class Model(BaseModel):
    a: int = Field(description="Its number.")
    b: int
class Options(Model):
    model_config: ClassVar[Any] = {}
    a: Annotated[int, Field(description="Its number.")] = 1
    b: int = 2
    "Another one."
    c: int = Field(3)
class Pair(typing.NamedTuple):
    one: int
    other: int
    "The other."
@dataclass(frozen=True)
class Many:
    a: int
    "Its number."
    b: int = field(metadata=dict(description="Its number."))
    c: int; d: int; e: int
class Plain:
    a: int
"""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert [what.partition(" ")[0] for node in classes for what in lacks(node, known_models(classes))] == [
        "Model.b", "Options.c", "Pair.one", "Many.b", "Many.c", "Many.d", "Many.e", "Many",
    ]  # fmt: skip


def test_the_reader_of_imports_sees_all_kinds() -> None:
    """Else the arrows would be held by nothing."""
    path = LIBRARY / "pipeline" / "imagined.py"
    source = """
import tidemark.cli
from tidemark import errors
from tidemark.lake import session, catalog
from tidemark.feeds.model import Feed
from . import hour
from ..fold.fold_rows import fold
if TYPE_CHECKING:
    from tidemark.pipeline.checks import Plan
def f():
    from tidemark.operations.audit import audit
"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "tree", lambda _: ast.parse(source))
        assert sorted(imports(path)) == [
            "cli", "errors", "feeds.model", "fold.fold_rows", "lake.catalog", "lake.session", "operations.audit",
            "pipeline.checks", "pipeline.hour",
        ]  # fmt: skip
    assert not is_allowed("fold.fold_rows", "lake.session") and not is_allowed("ledger.receipts", "fold.fold_rows")
    assert is_allowed("pipeline.hour", "lake.session")
