"""What runs inside a user's interpreter is Python 3.9: what a newer Python alone reads would fail in an older one."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import transload.models.user_python.inside

FILES = sorted(Path(str(transload.models.user_python.inside.__file__)).parent.glob("*.py"))
THEIRS = {"torch", "numpy", "tensorflow", "keras"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_parses_as_python_39(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 9))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_calls_nothing_newer(file: Path) -> None:
    """The names that Python 3.10 and later brought, which an older one meets only as it runs."""
    newer = [
        f"{file.name}:{node.lineno}"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Match) or (isinstance(node, ast.Call) and _is_newer(node))
    ]
    assert newer == []


def _is_newer(call: ast.Call) -> bool:
    name, keywords = ast.unparse(call.func), {keyword.arg for keyword in call.keywords}
    union = name in ("isinstance", "issubclass") and isinstance(call.args[1], ast.BinOp)
    return union or (name == "zip" and "strict" in keywords) or bool(keywords & {"slots", "kw_only"})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_imports_the_standard_library_a_framework_and_itself_alone(file: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1
            if not node.level:
                names.add(str(node.module).partition(".")[0])
    assert names <= sys.stdlib_module_names | THEIRS
