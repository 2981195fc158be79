"""What the project says about itself is so: packages, versions, sizes, words."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import transload

from .syntax import nodes_of, parsed

ROOT = Path(__file__).parents[2]
LAYERS = ("models", "converters", "serving", "pipeline")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py")) + sorted(ROOT.glob("*.py"))
NOT_TESTED = {"ray"}  # extras outside of the tested set: a cluster is no part of continuous integration
MOST_LINES, MOST_FUNCTION_LINES = 400, 50

# Spelt so that this file does not hold what it looks for.
FORBIDDEN = (
    r"/(w[o]rk|f[a]rm|r[o]ot)/|/tmp/(l[a]b|st[u]dio|bash_j[o]bs)|f[a]rm-[a-z]+|\bsub[a]gent",
    r"\bT[O]DO\b|\bF[I]XME\b|\bX[X]X\b",
    r"# type: ign[o]re$|# n[o]qa$",
    r"^(<[<]{6}|>[>]{6}|\|[|]{6})( |$)",
)


def test_the_packages_listed_are_the_packages_there_are() -> None:
    folders = {file.parent for layer in LAYERS for file in (ROOT / layer).rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []
    there = {".".join(("transload", *folder.relative_to(ROOT).parts)) for folder in folders}
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == {"transload", *there}


def test_files_beside_the_code_are_in_the_wheel() -> None:
    """A template that is not package data works in the checkout and is lost for everybody else."""
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]
    lost = []
    for layer in LAYERS:
        for file in (ROOT / layer).rglob("*"):
            if file.is_dir() or file.suffix in (".py", ".pyc", ".pyi") or "__pycache__" in file.parts:
                continue
            folders = file.relative_to(ROOT).parents
            packages = [".".join(("transload", *folder.parts)) for folder in folders]  # a pattern may name folders
            if not any(
                file.relative_to(ROOT / folder).match(pattern)
                for package, folder in zip(packages, folders, strict=True)
                for pattern in patterns.get(package, ())
                if pattern.count("/") == len(file.relative_to(ROOT / folder).parts) - 1
            ):
                lost.append(str(file.relative_to(ROOT)))
    assert lost == []


def test_the_version_is_that_of_the_newest_entry_in_the_changelog() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == transload.__version__


def test_every_library_asked_for_is_pinned_inside_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {
        canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version
    }
    extras = PYPROJECT["project"]["optional-dependencies"]
    tested = [requirements for name, requirements in extras.items() if name not in NOT_TESTED]
    wanted = [*PYPROJECT["project"]["dependencies"], *(text for extra in tested for text in extra)]
    wrong = []
    for requirement in (each for each in map(Requirement, wanted) if each.name != "transload"):
        pin = pins.get(canonicalize_name(requirement.name))
        if pin is None or not requirement.specifier.contains(pin):
            wrong.append(f"{requirement}: {pin}")
    assert wrong == []


def test_type_checkers_see_the_root_as_the_package() -> None:
    assert (ROOT / "typings" / "transload").is_symlink()
    assert (ROOT / "typings" / "transload").resolve() == ROOT


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_modules_and_functions_keep_to_their_size(file: Path) -> None:
    """A module that must be longer says why in its docstring ("longer than 400 lines because ...")."""
    text = file.read_text()
    tree = parsed(text)
    excused = f"longer than {MOST_LINES} lines because" in (ast.get_docstring(tree) or "")
    assert excused or len(text.splitlines()) <= MOST_LINES
    assert long_functions(tree) == []


def long_functions(tree: ast.AST) -> list[str]:
    """The parameters do not count: those of a command are its options, a line each."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [each.name for each in found if (each.end_lineno or 0) - each.body[0].lineno + 1 >= MOST_FUNCTION_LINES]


def test_the_size_check_counts_from_the_docstring_to_the_last_line() -> None:
    body = "  x = 1\n" * 49
    assert long_functions(parsed(f"def fits(\n  a,\n  b,\n):\n{body}")) == []
    assert long_functions(parsed(f"def long():\n{body}  x = 2\n")) == ["long"]


@pytest.mark.parametrize("words", FORBIDDEN)
def test_no_forbidden_words(words: str) -> None:
    done = subprocess.run(
        ["git", "grep", "-nIP", words, "--", "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout or done.stderr


def test_the_word_check_finds_what_it_looks_for() -> None:
    samples = ("/ro" + "ot/x", "TO" + "DO", "x = 1  # type: ig" + "nore", "<" * 7 + " HEAD")
    for words, sample in zip(FORBIDDEN, samples, strict=True):
        assert re.search(words, sample)


def test_errors_are_not_swallowed() -> None:
    """`except Exception: pass` hides a bug; a narrower one says what may be absent."""
    wrong = []
    for file in SOURCES:
        for node in nodes_of(file.read_text()):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")
            if broad and all(isinstance(each, ast.Pass) for each in node.body):
                wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []
