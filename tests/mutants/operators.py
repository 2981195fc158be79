"""Mutation operators: each site of a module's syntax tree, and what may stand there in place of what does."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice


class MutantKind(StrEnum):
    """What a mutant changes."""

    BOUNDARY = "boundary"  # which side of a comparison the limit itself belongs to
    COMPARISON = "comparison"  # its direction, or equality
    LOGIC = "logic"  # and, or, not, any, all, min, max
    NUMBER = "number"
    SIGN = "sign"  # of a term or a factor
    VERDICT = "verdict"  # the member of an enum that is returned or compared with, and truth values


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    kind: MutantKind
    function: str  # "Class.method", "" at the top of the module
    line: int
    change: str  # "value <= limit -> value < limit"
    source: str  # of the module before it
    site: int  # which of the module's nodes is changed, by its place among _sites
    number: int  # which of that node's changes it is, by its place among _changes_of

    @property
    def tree(self) -> ast.Module:
        """The module with the change."""
        tree = ast.parse(self.source)
        _, node = next(islice(_sites(tree, ""), self.site, None))
        _apply(node, next(islice(_changes_of(node), self.number, None))[1])
        return tree


_BOUNDARIES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_OPPOSITES: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_SIGNS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
_SELECTORS = {"any": "all", "all": "any", "min": "max", "max": "min"}
# The next member of each enum that decides; the last is followed by the first.
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "Verdict": ("PASS", "FAIL", "INCONCLUSIVE"),
    "Exit": ("PASS", "FAIL", "INCONCLUSIVE", "TOOLCHAIN", "USAGE"),
    "Change": ("SAME", "WORSE", "BETTER", "INCONCLUSIVE", "NOT_COMPARED"),
    "Status": ("VERIFIED", "DEGRADED", "FAILED", "UNVERIFIED"),
}
_NAMES = {"PASS": "FAIL", "FAIL": "INCONCLUSIVE", "INCONCLUSIVE": "PASS"}  # of drift/rules.py


def mutants_of(source: str, functions: Collection[str] = ()) -> Iterator[Mutant]:
    """Yield each mutant of a module, of these functions alone where any are named."""
    for site, (function, node) in enumerate(_sites(ast.parse(source), "")):
        if functions and function not in functions:
            continue
        for number, (kind, change) in enumerate(_changes_of(node)):
            changed = copy(node)
            _apply(changed, change)
            said = f"{ast.unparse(node)} -> {ast.unparse(changed)}"
            yield Mutant(kind, function, getattr(node, "lineno", 0), said, source, site, number)


def _sites(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the nodes below a node, each with the name of its function; not annotations and f-strings, which decide
    nothing."""
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                inner = function
                if isinstance(child, ast.FunctionDef | ast.ClassDef):
                    inner = f"{function}.{child.name}" if function else child.name
                yield inner, child
                yield from _sites(child, inner)


def _changes_of(node: ast.AST) -> Iterator[tuple[MutantKind, dict[str, object]]]:
    """Yield the new values of a node's fields, by the kind of the mutant that they make."""
    yield from _changes_of_operators(node)
    yield from _changes_of_values(node)


def _changes_of_operators(node: ast.AST) -> Iterator[tuple[MutantKind, dict[str, object]]]:
    match node:
        case ast.Compare(ops=operators):
            for at, operator in enumerate(operators):
                for kind, table in ((MutantKind.BOUNDARY, _BOUNDARIES), (MutantKind.COMPARISON, _OPPOSITES)):
                    if replacement := table.get(type(operator)):
                        yield kind, {"ops": [*operators[:at], replacement(), *operators[at + 1 :]]}
        case ast.BoolOp(op=operator):
            yield MutantKind.LOGIC, {"op": ast.Or() if isinstance(operator, ast.And) else ast.And()}
        case ast.UnaryOp(op=ast.Not()):
            yield MutantKind.LOGIC, {"operand": ast.UnaryOp(ast.Not(), node.operand)}
        case ast.UnaryOp(op=ast.USub()):
            yield MutantKind.SIGN, {"op": ast.UAdd()}
        case ast.BinOp(op=operator) if type(operator) in _SIGNS and not _is_text(node):
            yield MutantKind.SIGN, {"op": _SIGNS[type(operator)]()}


def _changes_of_values(node: ast.AST) -> Iterator[tuple[MutantKind, dict[str, object]]]:
    match node:
        case ast.Constant(value=bool(value)):
            yield MutantKind.VERDICT, {"value": not value}
        case ast.Constant(value=int(value) | float(value)):
            yield MutantKind.NUMBER, {"value": value + 1 if isinstance(value, int) or not value else value * 1.1}
        case ast.Name(id=name) if name in _SELECTORS:
            yield MutantKind.LOGIC, {"id": _SELECTORS[name]}
        case ast.Name(id=name, ctx=ast.Load()) if name in _NAMES:
            yield MutantKind.VERDICT, {"id": _NAMES[name]}
        case ast.Attribute(value=ast.Name(id=owner), attr=member) if member in _MEMBERS.get(owner, ()):
            members = _MEMBERS[owner]
            yield MutantKind.VERDICT, {"attr": members[(members.index(member) + 1) % len(members)]}


def _is_text(node: ast.BinOp) -> bool:
    """Return whether an operand is a text, a list or a tuple, which have no sign."""
    literals = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
    return any(
        isinstance(side, literals) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _apply(node: ast.AST, change: Mapping[str, object]) -> None:
    for name, value in change.items():
        setattr(node, name, value)
    ast.fix_missing_locations(node)
