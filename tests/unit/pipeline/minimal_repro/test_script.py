"""Names of a model are text in a script, and never code."""

from __future__ import annotations

import ast

import pytest

from transload.pipeline.minimal_repro.script import full_script
from transload.pipeline.minimal_repro.search_records import PieceFacts, SearchOptions


@pytest.mark.parametrize(
    "name", ['"""\nimport os\n"""', 'a"', "a\\", 'x"""', "a\u2028import os", "a\rimport os", "{0}"]
)
def test_a_name_ends_no_docstring(name: str) -> None:
    facts = PieceFacts(
        complete=True,
        where=f"the operator {name}",
        kind=name,
        message=name,
        operator=name,
        operators=1,
        line=None,
        fix="",
    )
    options = SearchOptions(
        step="tf2onnx", target="onnx", chain=(("m:f", {}),), model=name, least_db=60.0, reason="", seconds=1.0
    )
    tree = ast.parse(full_script(options, facts, ""))
    plain = ast.parse(full_script(options, facts, "").replace(ast.get_docstring(tree, clean=False) or "", "text"))
    assert [type(node) for node in tree.body] == [ast.Expr, ast.FunctionDef, ast.FunctionDef, ast.Expr]
    assert len(plain.body) == len(tree.body)
