"""Check of the graphs that PyTorch compiled from a TorchScript archive, before any of them is called.

It is the second check of the code: torchscript_code.py reads the archive's text, this module what torch made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..allowed_torch_operators import is_allowed

# Kinds of nodes that are no operators.
_STRUCTURE = frozenset(f"prim::{name}" for name in (
    "Constant", "If", "Loop", "GetAttr", "SetAttr", "HasAttr", "CallMethod", "CallFunction", "CreateObject", "Closure",
    "ListConstruct", "ListUnpack", "DictConstruct", "TupleConstruct", "TupleUnpack", "TupleSlice", "TupleIndex",
    "StringIndex", "fork", "awaitable", "isinstance", "unchecked_cast", "Enter", "Exit", "LegacyTypedConstructor",
    "SetConstruct", "Drop", "Param", "Return", "SequenceConstruct",
))  # fmt: skip


def refused_operators(unit: Any) -> Iterator[str]:
    """Yield the kinds of nodes that are not known to only compute, in all functions of a CompilationUnit."""
    for function in unit.get_functions():
        pending: list[Any] = [function.graph]
        while pending:
            block = pending.pop()
            for node in block.nodes():
                kind = node.kind()
                space, _, name = kind.partition("::")
                if kind not in _STRUCTURE and not is_allowed(space, name):
                    yield kind
                pending += node.blocks()
                pending += (node.g(name) for name in node.attributeNames() if node.kindOf(name) == "g")
