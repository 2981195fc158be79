"""Looking up what is installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from transload.converters.steps import missing
from transload.models.environments import find_installed
from transload.pipeline.workers.extras import extras_for, join_needs


def test_a_module_of_a_missing_package_is_missing_and_no_error():
    with pytest.raises(ModuleNotFoundError):  # what makes the helper necessary
        importlib.util.find_spec("no_such_package.part")
    assert find_installed("no_such_package.part") is None
    assert find_installed("no_such_package") is None
    assert missing(("json", "no_such_package.part")) == "needs no_such_package.part"


def test_a_module_of_a_plain_module_is_missing():
    assert find_installed("bisect.part") is None


def test_an_installed_module_is_not_imported():
    spec = find_installed("xml.sax.xmlreader")
    assert spec is not None
    assert spec.name == "xml.sax.xmlreader"
    assert "antigravity" not in sys.modules
    assert find_installed("antigravity") is not None
    assert "antigravity" not in sys.modules


def test_an_extra_is_named_for_a_module_whose_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "google", None)
    monkeypatch.setattr(sys, "path", [])
    for name in [name for name in sys.modules if name.startswith("google.")]:
        monkeypatch.delitem(sys.modules, name)
    assert extras_for(["google.protobuf"]) == ("tensorflow",)


def test_what_several_steps_need_is_named_once():
    reasons = ["needs torch (extra torch)", "needs torch, onnx (extra torch, onnx)", "needs google.protobuf"]
    assert join_needs(reasons) == "needs torch, onnx, google.protobuf (extra torch, onnx)"
    other = "needs clashing (here, or in the Python that TRANSLOAD_PYTHON_OTHER names)"
    assert join_needs([other, "needs torch", other]) == f"needs torch; {other}"
    assert join_needs([]) == ""
