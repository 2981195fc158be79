"""Make a module of the calls of a program that another torch has exported (user_python/inside/program_graph.py).
Worker only.

Only operators that compute are called, as in a .pt2 file of a stranger. Whether ours do what theirs did, the
verification says.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..models.errors import Refused
from .readers.allowed_torch_operators import is_allowed

if TYPE_CHECKING:
    import torch

_OPERATOR = (
    "eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "floordiv", "mod", "pow", "truediv", "and_",
    "or_", "getitem", "abs", "not_",
)  # fmt: skip
_MATH = ("trunc", "floor", "ceil", "sqrt")
_SYMBOLIC = ("sym_not", "sym_int", "sym_float", "sym_ite", "sym_max", "sym_min", "sym_sum")
_OTHER_ROUTES = "leave it to the other routes"


def rebuild_program(document: Any, tensors: Sequence[torch.Tensor], inputs: Sequence[str]) -> torch.nn.Module:
    """Return a module that makes the calls of a graph; it takes the inputs by position, under these names.
    Raises Refused where the graph calls an operator that ours has not, or that may do more than compute."""
    try:
        return _Rebuilding(tensors, list(inputs)).module(document)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise Refused(f"the other torch described no program: {error}", fix=_OTHER_ROUTES) from error


class _Rebuilding:
    """A graph that grows call by call."""

    def __init__(self, tensors: Sequence[torch.Tensor], inputs: list[str]) -> None:
        import torch

        self._torch = torch
        self._tensors, self._inputs = tensors, inputs
        self._graph = torch.fx.Graph()
        self._nodes: dict[str, torch.fx.Node] = {}
        self._root = torch.nn.Module()

    def module(self, document: Mapping[str, Any]) -> torch.nn.Module:
        """Return the module of a whole graph."""
        for row in document["nodes"]:
            self._nodes[row["name"]] = self._node(row)
        if self._inputs:
            raise ValueError(f"it takes no {self._inputs[0]}")
        outputs = tuple(self._argument(value) for value in document["outputs"])
        self._graph.output(outputs if len(outputs) > 1 else outputs[0])
        return self._torch.fx.GraphModule(self._root, self._graph).eval()

    def _node(self, row: Mapping[str, Any]) -> torch.fx.Node:
        if row["op"] == "input":
            return self._graph.placeholder(self._inputs.pop(0))
        if row["op"] == "tensor":
            name, tensor = f"tensor_{row['at']}", self._tensors[row["at"]]
            if row["buffer"]:
                self._root.register_buffer(name, tensor)
            else:
                self._root.register_parameter(name, self._torch.nn.Parameter(tensor, requires_grad=False))
            return self._graph.get_attr(name)
        arguments = tuple(self._argument(part) for part in row["args"])
        keywords = {str(key): self._argument(part) for key, part in row["kwargs"].items()}
        return self._graph.call_function(_function(row["function"]), arguments, keywords)

    def _argument(self, document: Mapping[str, Any]) -> Any:
        """Return the argument of a call. Raises ValueError where it is none."""
        ((kind, value),) = document.items()
        if kind == "node":
            return self._nodes[value]
        if kind == "constant" and (value is None or isinstance(value, bool | int | float | str)):
            return value
        if kind in ("list", "slice"):
            parts = [self._argument(part) for part in value]
            return parts if kind == "list" else slice(*parts)
        if kind == "torch":
            return self._constant(value)
        if kind == "device":
            return self._torch.device("cpu")
        if kind == "complex":
            return complex(*value)
        raise ValueError("it holds something else than arguments")

    def _constant(self, name: str) -> Any:
        """Return a dtype, a layout or a memory format of torch by its name."""
        constant = getattr(self._torch, name)
        if not isinstance(constant, self._torch.dtype | self._torch.layout | self._torch.memory_format):
            raise TypeError(f"{name} is no constant of torch")
        return constant


def _function(name: str) -> Callable[..., Any]:
    """Return what a call names. Raises Refused where it may do more than compute, or ours has it not."""
    import torch

    module, _, plain = name.rpartition(".")
    for known, names, space in ((operator, _OPERATOR, "operator"), (math, _MATH, "math"), (torch, _SYMBOLIC, "torch")):
        if module == space and plain in names:
            function: Callable[..., Any] = getattr(known, plain)
            return function
    space, colons, rest = name.partition("::")
    operator_name, _, overload = rest.partition(".")
    if not colons or not is_allowed(space, operator_name):
        raise Refused(f"the program calls {name[:80]}, which may do more than compute", fix=_OTHER_ROUTES)
    try:
        packet = getattr(getattr(torch.ops, space), operator_name)
        call: Callable[..., Any] = getattr(packet, overload or "default")
    except AttributeError as error:
        raise Refused(f"the program calls {name[:80]}, which our torch has not", fix=_OTHER_ROUTES) from error
    return call
