"""The table of libraries, and how its results are counted and shown. No framework is loaded."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from transload.models.signature import parse_input

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = ROOT / "benchmarks" / "libraries"
MODULES = ("library_models", "library_page", "compare_copies", "own_answers")


@pytest.fixture(autouse=True)
def libraries_on_path() -> Iterator[None]:
    """The scripts import each other by bare names; nothing of that stays behind."""
    before = list(sys.path)
    sys.path.insert(0, str(LIBRARIES))
    yield
    sys.path[:] = before
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def page() -> ModuleType:
    return importlib.import_module("library_page")


def test_table_has_40_models_of_20_packages_that_are_none_of_the_known() -> None:
    models = importlib.import_module("library_models").read_models()
    packages = {model.package for model in models}
    assert len({model.key for model in models}) == len(models) >= 40
    assert len(packages) >= 20
    assert not packages & {"torchvision", "timm", "transformers"}


def test_each_model_is_a_command_with_inputs_that_transload_reads() -> None:
    for model in importlib.import_module("library_models").read_models():
        command = model.command(Path("env/bin/python"))
        assert command[:4] == ["convert", model.code, "--python", "env/bin/python"]
        names = {parse_input(spec).name for spec in model.inputs}
        assert len(names) == len(model.inputs)


def test_code_of_the_user_exists() -> None:
    source = (LIBRARIES / "nets" / "user_models.py").read_text()
    for model in importlib.import_module("library_models").read_models():
        file, _, name = model.code.partition(":")
        if file == "user_models.py":
            assert f"class {name}(" in source or f"def {name}(" in source, name


def test_packages_are_in_the_requirements() -> None:
    lines = (LIBRARIES / "requirements.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    packages = {model.package for model in importlib.import_module("library_models").read_models()}
    assert packages <= pinned
    assert not pinned & {"torch", "triton"}, "torch is the CPU's, and installed first"


def test_a_verified_copy_that_differs_is_wrong(page: ModuleType) -> None:
    rows = {
        "a: net": _row("verified", same=True),
        "b: net": _row("verified", same=False),
        "c: net": _row("degraded", same=False),
        "d: net": _row("verified", same=None),
    }
    assert page.wrong_copies(rows) == ["b: net: onnx"]
    assert page.count_verified(rows, "onnx") == 3


def test_comparison_takes_the_output_of_the_shape_and_the_spread() -> None:
    compare_copies = importlib.import_module("compare_copies")
    expected = [np.array([[0.0, 100.0]]), np.array([1.0, 2.0, 3.0])]
    near = [np.array([1.0, 2.0, 3.0]), np.array([[0.0, 100.001]])]
    far = [np.array([1.0, 2.0, 3.0]), np.array([[0.0, 101.0]])]
    assert compare_copies._judge(near, expected)["same"] is True
    assert compare_copies._judge(far, expected) == {"same": False, "relative_error": 0.02}
    assert compare_copies._judge(near[:1], expected) == {"same": False, "relative_error": None}


def test_committed_page_is_of_the_committed_results(page: ModuleType, tmp_path: Path) -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / "libraries.json").read_text())
    page.write_library_page(results, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "evidence" / "libraries-tried.md").read_text()
    assert page.wrong_copies(results["models"]) == []


def _row(status: str, *, same: bool | None) -> dict[str, Any]:
    return {"artifacts": {"onnx": {"status": status}}, "checks": {"onnx": {"same": same}}}
