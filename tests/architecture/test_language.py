"""Names follow the rules of CONTRIBUTING.md; ruff holds those of docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from .syntax import parsed

ROOT = Path(__file__).parents[2]
LAYERS = ("models", "converters", "serving", "pipeline")
SOURCES = sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py"))

# Names that say nothing of what they hold.
VAGUE = {"made", "found", "given", "got", "taken", "asked", "each", "one", "what", "those", "others", "thing", "whole"}
# Words that are not written any more, each with the word of the field in its place.
RETIRED = {
    "lent": "inside", "departure": "divergence", "departing": "diverging", "take_in": "import", "plain_zip": "safe_zip",
    "way_of": "dispatch_mode", "whole_files": "atomic_files", "memory_return": "heap_trimmer",
    "far_probes": "extreme_sizes", "wrong_integers": "integer_probes", "find_unsettled": "find_ties",
    "foreign_files": "untrusted_files", "foreign_errors": "library_messages",
    "mend_torchvision": "register_torchvision_stubs",
}  # fmt: skip
EXCUSED = {"pipeline/result/schema.py": {"got"}}  # keys of run.json
# Two siblings have the same thing at the same place: the two back-ends, the faces of a command, protocols, the
# halves of the search for a minimal repro.
SIBLINGS = (
    ("converters/onnx_to_tf", "converters/onnx_to_torch"),
    ("pipeline/commands", "pipeline/cli"),
    ("serving/server", "serving/clients"),
)
COMMANDS = ("pipeline/cli/formats.py", "pipeline/cli/store.py")  # the module of a command has the command's name
MOST_FILES = 25


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a module binds, with its line: variables, parameters, functions, classes, fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler) and node.name:
            yield node.name, node.lineno


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_name_is_vague(file: Path) -> None:
    forbidden = VAGUE - EXCUSED.get(file.relative_to(ROOT).as_posix(), set())
    vague = [f"{name}:{line}" for name, line in bound_names(parsed(file.read_text())) if name.strip("_") in forbidden]
    assert vague == []


def retired_words(name: str) -> set[str]:
    """The retired words in a name, as_this or AsThis."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return {word for word in RETIRED if re.search(rf"(^|_){word}(_|$)", words)}


def test_no_name_has_a_word_that_was_retired() -> None:
    wrong = set()
    for file in SOURCES:
        path = file.relative_to(ROOT)
        for name in {*path.with_suffix("").parts, *(name for name, _ in bound_names(parsed(file.read_text())))}:
            wrong |= {f"{path}: {name} has {word}; write {RETIRED[word]}" for word in retired_words(name)}
    assert wrong == set()
    assert retired_words("DepartureSearch") == {"departure"}
    assert retired_words("silent_departures_talent") == set()


def test_the_vague_name_check_sees_every_way_to_bind_a_name() -> None:
    source = "found = 1\nfor each in x: pass\ndef made(given): pass\nclass one: taken: int\nwith f() as got: pass"
    assert {name for name, _ in bound_names(parsed(source))} & VAGUE == {
        "found", "each", "made", "given", "one", "taken", "got",
    }  # fmt: skip


def test_a_class_name_stands_for_one_class() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in SOURCES:
        for node in parsed(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name.strip("_")].append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def _place_among_siblings(file: Path) -> str:
    """A module's path with its sibling room replaced by the first of the siblings, so that twins compare equal."""
    path = file.relative_to(ROOT).as_posix()
    for first, *others in SIBLINGS:
        for room in others:
            if path.startswith(f"{room}/"):
                return first + path.removeprefix(room)
    return path


def test_a_module_name_stands_for_one_module() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for file in SOURCES:
        if file.stem != "__init__" and file.relative_to(ROOT).as_posix() not in COMMANDS:
            places[file.stem].add(_place_among_siblings(file))
    assert {name: sorted(files) for name, files in places.items() if len(files) > 1} == {}


def test_no_room_holds_more_than_a_newcomer_can_take_in() -> None:
    folders = {file.parent for file in SOURCES}
    crowded = {
        str(folder.relative_to(ROOT)): count
        for folder in folders
        if (count := sum(file.stem != "__init__" for file in folder.glob("*.py"))) > MOST_FILES
    }
    assert crowded == {}
