"""What of a module runs when it is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def nodes_at_import(tree: ast.AST, *, for_types: bool = False) -> Iterator[ast.AST]:
    """Every node that runs when the module is imported: not in functions; and those for type checkers, if wanted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not for_types:
            continue
        yield node
        yield from nodes_at_import(node, for_types=for_types)
