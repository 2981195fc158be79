"""The mutants are those of the modules that there are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .operators import MutantKind, mutants_of
from .verdict_modules import EQUIVALENT, MODULES

SOURCE = """
def judge(low: float, limits: list[float]) -> str:
    if not low <= limits[0] and any(limits):
        return Verdict.PASS
    return f"{low < 1}"
"""


def test_each_site_has_its_mutants_and_annotations_and_texts_have_none() -> None:
    changes = [(mutant.kind, mutant.change.rpartition(" -> ")[2]) for mutant in mutants_of(SOURCE)]
    assert sorted(changes) == [
        (MutantKind.BOUNDARY, "low < limits[0]"),
        (MutantKind.COMPARISON, "low > limits[0]"),
        (MutantKind.LOGIC, "all"),
        (MutantKind.LOGIC, "not low <= limits[0] or any(limits)"),
        (MutantKind.LOGIC, "not not low <= limits[0]"),
        (MutantKind.NUMBER, "1"),
        (MutantKind.VERDICT, "Verdict.FAIL"),
    ]
    assert all(ast.unparse(mutant.tree) != ast.unparse(ast.parse(SOURCE)) for mutant in mutants_of(SOURCE))


@pytest.mark.parametrize("module", MODULES)
def test_what_the_table_names_is_there(module: str, root: Path) -> None:
    guarded, source = MODULES[module], (root / module).read_text()
    assert all((root / test).exists() for test in guarded.tests)
    functions = {mutant.function for mutant in mutants_of(source)}
    assert functions >= {*guarded.functions}
    equivalent = {(function, change) for name, function, change in EQUIVALENT if name == module}
    if equivalent:
        assert equivalent <= {(mutant.function, mutant.change) for mutant in mutants_of(source)}
