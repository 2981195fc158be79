"""The house: layers point one way, frameworks stay in their rooms and inside functions."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from transload.converters.steps import STEPS
from transload.serving.runtimes.runtime_table import RUNTIMES

from .syntax import nodes_of, parsed

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "models": set(),
    "converters": {"models"},
    "serving": {"models"},
    "pipeline": {"models", "converters", "serving"},
}
FRAMEWORKS = {
    "torch", "torchvision", "timm", "lightning_fabric", "tensorflow", "tensorflow_serving", "tf_keras", "keras", "onnx",
    "onnxscript", "onnxruntime", "onnx2tf", "onnx_graphsurgeon", "sng4onnx", "onnxsim", "ai_edge_litert", "sklearn",
    "grpc", "grpc_health", "grpc_reflection", "uvloop", "httptools",
}  # fmt: skip
FOR_PEOPLE = {"pydantic", "typer", "rich", "plotly", "jinja2"}  # a GPU machine runs the other layers without them


def modules(layer: str, root: Path = ROOT) -> list[Path]:
    return sorted((root / layer).rglob("*.py"))


def layers_reached(source: str, depth: int) -> set[str]:
    """The top-level folders that a module `depth` folders below the root reaches by relative imports."""
    reached = set()
    for node in nodes_of(source):
        if isinstance(node, ast.ImportFrom) and node.level > depth:
            reached |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("transload"):
            reached.add("an absolute import of transload")
        elif isinstance(node, ast.Import):
            reached |= {"an absolute import of transload" for each in node.names if each.name.startswith("transload")}
    return reached - {"__version__"}


def modules_imported(file: Path, root: Path = ROOT) -> set[Path]:
    """The modules of ours that a module imports at its top, for type checkers too."""
    reached: set[Path] = set()
    for node in _at_import(parsed(file.read_text()), for_types=True):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = file.parents[node.level - 1].joinpath(*(node.module.split(".") if node.module else ()))
            names = [base / alias.name for alias in node.names]
            reached |= {path.with_suffix(".py") for path in (base, *names) if path.with_suffix(".py").is_file()}
    return reached


def circles(graph: dict[Path, set[Path]]) -> list[list[str]]:
    """The shortest way from each module back to itself, of those that have one."""
    found = []
    for start in graph:
        ways = {start: [start]}
        waiting = [start]
        while waiting:
            here = waiting.pop(0)
            for after in sorted(graph.get(here, ())):
                if after == start:
                    found.append([file.name for file in ways[here]])
                    waiting.clear()
                    break
                if after not in ways:
                    ways[after] = [*ways[here], after]
                    waiting.append(after)
    return found


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert circles({file: modules_imported(file) for layer in MAY_IMPORT for file in modules(layer)}) == []


def test_the_circle_check_finds_a_circle() -> None:
    a, b, c = Path("a.py"), Path("b.py"), Path("c.py")
    assert circles({a: {b}, b: {c}, c: set()}) == []
    assert circles({a: {b}, b: {a}, c: {a}}) == [["a.py", "b.py"], ["b.py", "a.py"]]


def imported(tree: ast.AST, *, top_only: bool = False) -> Iterator[str]:
    """Top-level names of the modules that are imported; `top_only`: when the module itself is."""
    for node in _at_import(tree) if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def _at_import(tree: ast.AST, *, for_types: bool = False) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: not in functions; and those for type checkers, if wanted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            continue
        yield node
        yield from _at_import(node, for_types=for_types)


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_layers_point_one_way(layer: str) -> None:
    wrong = {}
    for file in modules(layer):
        depth = len(file.relative_to(ROOT).parts) - 1
        if found := layers_reached(file.read_text(), depth) - MAY_IMPORT[layer]:
            wrong[str(file.relative_to(ROOT))] = found
    assert not wrong


def test_the_layer_check_sees_every_way_to_reach_another_layer() -> None:
    assert layers_reached("from ..serving.session import Session", 1) == {"serving"}
    assert layers_reached("def f():\n from ...serving import session", 2) == {"serving"}
    assert layers_reached("from .. import pipeline", 1) == {"pipeline"}
    assert layers_reached("from .. import formats", 2) == set()
    assert layers_reached("import transload.pipeline", 1) == {"an absolute import of transload"}
    assert layers_reached("from transload.pipeline import run", 1) == {"an absolute import of transload"}


def rooms_reached(folder: Path) -> set[str]:
    """The sibling rooms that the modules of a room of converters/ import from."""
    depth = len(folder.relative_to(ROOT / "converters").parts)
    reached = set()
    for file in sorted(folder.rglob("*.py")):
        inner = len(file.relative_to(folder).parts) - 1
        for node in nodes_of(file.read_text()):
            if isinstance(node, ast.ImportFrom) and node.level == depth + inner + 1 and node.module:
                reached.add(node.module.split(".")[0])
    return reached


PATCHES = ("torch_export", "torch_onnx_dynamo", "torch_onnx_torchscript")


@pytest.mark.parametrize("room", PATCHES)
def test_patches_of_one_exporter_import_only_what_the_exporters_share(room: str) -> None:
    reached = {
        node.module.split(".")[0]
        for file in sorted((ROOT / "converters" / "patches" / room).glob("*.py"))
        for node in nodes_of(file.read_text())
        if isinstance(node, ast.ImportFrom) and node.level == 2 and node.module
    }
    assert reached - {"ledger"} == {"torch_shared"}


# Rooms and modules of pipeline/, from the bottom.
FLOORS = (
    {"drift", "progress"}, {"workers", "locate"}, {"result"}, {"options"}, {"plan"}, {"measure", "minimal_repro"},
    {"show"}, {"extras"}, {"commands"}, {"cli"}, {"api"}, {"api_stub"},
)  # fmt: skip
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def rooms_of_pipeline(file: Path, source: str) -> set[str]:
    """The rooms of pipeline/ that a module imports from, inside functions, too."""
    package = file.relative_to(ROOT).parent.parts
    reached = set()
    for node in nodes_of(source):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = (*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ()))
        names = [base[1]] if len(base) > 1 else [alias.name for alias in node.names]
        reached |= set(names) if base[:1] == ("pipeline",) else set()
    return reached


def test_no_floor_of_the_pipeline_imports_a_higher_one() -> None:
    inside = "def f():\n  from ..commands.run import run\nfrom .. import api"
    assert rooms_of_pipeline(ROOT / "pipeline" / "plan" / "x.py", inside) == {"commands", "api"}
    upward = {}
    for file in modules("pipeline"):
        room = file.relative_to(ROOT / "pipeline").parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        reached = rooms_of_pipeline(file, file.read_text()) - {room}
        if higher := {other for other in reached if FLOOR_OF[other] >= FLOOR_OF[room]}:
            upward[file.relative_to(ROOT).as_posix()] = higher
    assert upward == {}


def test_the_architecture_page_has_every_room() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text()
    rooms = {
        f"`{init.parent.relative_to(ROOT)}/`" for layer in MAY_IMPORT for init in (ROOT / layer).glob("*/__init__.py")
    }
    assert {room for room in rooms if room not in page} == set()


TARGETS = ("to_pytorch", "to_saved_model", "to_tflite", "to_onnx")  # each may import from those before it


@pytest.mark.parametrize("room", TARGETS)
def test_rooms_of_targets_import_each_other_in_one_direction(room: str) -> None:
    reached = rooms_reached(ROOT / "converters" / room)
    assert reached, "the check sees no import at all"
    assert reached.isdisjoint(TARGETS[TARGETS.index(room) + 1 :])
    assert reached.isdisjoint(("readers", "minimal_repro"))


# What is of one format: its record, its readers and cutters, what writes it and what runs it; and the table of steps.
FORMAT_ROOMS = (
    "models/formats/", "converters/to_", "serving/runtimes/",
    *(f"converters/readers/{name}/" for name in ("keras", "onnx", "pt2", "saved_model", "tflite", "torchscript")),
    *(f"converters/minimal_repro/{name}_pieces.py" for name in ("onnx", "saved_model", "tflite")),
    "converters/steps.py", "converters/user_python_captures.py", "converters/onnx_half.py",
    "serving/bundles/",  # what other systems take
)  # fmt: skip
FORMAT_MEMBERS = {"PT2", "TORCHSCRIPT", "ONNX", "SAVED_MODEL", "TFLITE", "KERAS"}


def formats_named(source: str) -> set[str]:
    return {
        node.attr
        for node in nodes_of(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Format"
    } & FORMAT_MEMBERS


def test_whoever_needs_a_fact_of_a_format_asks_its_record() -> None:
    assert formats_named("x = Format.ONNX if y else Format(z)") == {"ONNX"}
    files = [file for layer in MAY_IMPORT for file in modules(layer)]
    named = {file.relative_to(ROOT).as_posix() for file in files if formats_named(file.read_text())}
    assert {name for name in named if not name.startswith(FORMAT_ROOMS)} == set()


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_frameworks_are_imported_inside_functions_only(layer: str) -> None:
    wrong = {}
    for file in modules(layer):
        if found := FRAMEWORKS & set(imported(parsed(file.read_text()), top_only=True)):
            wrong[str(file.relative_to(ROOT))] = found
    assert not wrong


def test_the_pipeline_touches_no_framework_at_all() -> None:
    wrong = {}
    for file in modules("pipeline"):
        if found := FRAMEWORKS & set(imported(parsed(file.read_text()))):
            wrong[str(file.relative_to(ROOT))] = found
    assert not wrong


@pytest.mark.parametrize("layer", ["models", "converters", "serving"])
def test_what_a_worker_runs_needs_no_library_that_is_for_people(layer: str) -> None:
    wrong = {}
    for file in modules(layer):
        if found := FOR_PEOPLE & set(imported(parsed(file.read_text()))):
            wrong[str(file.relative_to(ROOT))] = found
    assert not wrong


def test_the_framework_check_sees_classes_and_branches_and_spares_functions() -> None:
    tops = "import torch.nn\nclass A:\n  import onnx\nif x:\n  from sklearn import svm\nelse:\n  import keras"
    assert set(imported(parsed(tops), top_only=True)) == {"torch", "onnx", "sklearn", "keras"}
    inside = "def f():\n  import torch\nif TYPE_CHECKING:\n  import onnx\nclass A:\n  def g(self):\n    import keras"
    assert set(imported(parsed(inside), top_only=True)) == set()
    assert set(imported(parsed(inside))) == {"torch", "onnx", "keras"}


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_bare_import_of_a_layer_fails_loudly(layer: str) -> None:
    """From the root, `import models` would find ours and make a second copy of every class in it."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {layer}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: this folder is transload.{layer}: import it by that name"


def test_every_entry_of_the_tables_names_a_function_that_exists() -> None:
    """Entries are text that a worker imports; a module that moved would be missed until a user meets it."""
    entries = [step.entry for step in STEPS] + [runtime.entry for runtime in RUNTIMES.values()]
    missing = []
    for entry in entries:
        module, _, function = entry.partition(":")
        file = ROOT.joinpath(*module.split(".")[1:]).with_suffix(".py")
        functions = [node.name for node in parsed(file.read_text()).body if isinstance(node, ast.FunctionDef)]
        if function not in functions:
            missing.append(entry)
    assert entries
    assert missing == []
