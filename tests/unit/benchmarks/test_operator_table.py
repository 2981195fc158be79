"""Coverage of onnx's operators: a new operator or wording shows up as a gap with a name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks" / "conformance"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("operator_table")
    sys.modules.pop("operator_table")


def test_the_page_lists_lowered_and_missing_operators(table: ModuleType) -> None:
    page = table.PAGE.read_text()
    assert table.update_page(page) == page, "write it anew: python benchmarks/conformance/operator_table.py"


def test_the_table_would_show_a_lowering_that_goes_missing(table: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from transload.converters.onnx_to_tf import lowerings

    monkeypatch.delitem(lowerings.entries(), ("", "Conv"))
    assert "Conv," in table.update_page(table.PAGE.read_text()).partition("**Not lowered")[2]
