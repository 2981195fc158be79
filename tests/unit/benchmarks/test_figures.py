"""The page on the age of committed figures has each of them, and notices what is missing or newer."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def figures(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", root / "benchmarks" / "figures.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("figures", None)
    return module


def test_each_figure_has_its_row_with_its_pages_and_its_day(figures: ModuleType) -> None:
    assert list(figures.faults(figures.PAGE.read_text())) == []


def test_the_readme_says_where_the_age_of_its_figures_stands(root: Path) -> None:
    assert "(docs/evidence/figures.md)" in (root / "README.md").read_text()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ((r"\| `serving\.json`.*\n", ""), "figures.md has no row of serving.json; write it by `make figures`"),
        ((r"\[README\.md\]", "[none]"), "does not say that README.md cites conversion.json"),
        ((r"2\d{3}-\d\d-\d\d \|", "2020-01-01 |"), "was written on "),
    ],
)
def test_what_is_missing_or_newer_is_noticed(figures: ModuleType, change: tuple[str, str], fault: str) -> None:
    if fault == "was written on " and not figures.git("log", "-1"):
        pytest.skip("git's history says when a file was written")
    assert any(fault in text for text in figures.faults(re.sub(*change, figures.PAGE.read_text())))
