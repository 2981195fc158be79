"""Functions that a model defines itself: converted where they are called, as bodies of the specification are.

They are not inlined before by onnx: its inliner (1.23) drops an attribute that an outer function has by default and
hands on to an inner one, leaves functions of another opset alone, and forgets where a call comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...models.errors import Refused
from .function_bodies import check_call, instance
from .graph import STANDARD, Graph, GraphValue, Node
from .patterns import fused

if TYPE_CHECKING:
    import onnx


class LocalFunctions:
    """A model's own functions by domain, name and overload. They go before operators of the same name."""

    def __init__(self, functions: Sequence[onnx.FunctionProto]) -> None:
        self._functions = {("" if it.domain in STANDARD else it.domain, it.name, it.overload): it for it in functions}
        self._called: list[tuple[str, str, str]] = []  # those whose bodies are being carried

    def knows(self, node: Node) -> bool:
        """Return whether the node calls one of them."""
        return (node.domain, node.op_type, node.overload) in self._functions

    @contextmanager
    def called(self, node: Node, inputs: Sequence[GraphValue | None]) -> Iterator[Graph]:
        """Enter one call: yields the function's graph, with the inputs that are present and the outputs that are
        wanted.

        Both are in the call's order. Raises Refused where the call does not fit the function, or calls itself.
        """
        name = (node.domain, node.op_type, node.overload)
        if name in self._called:
            raise Refused(f"{node}: the function calls itself", fix="check the model with onnx.checker")
        self._called.append(name)
        try:
            yield self._body_of(node, inputs)
        finally:
            self._called.pop()

    def _body_of(self, node: Node, inputs: Sequence[GraphValue | None]) -> Graph:
        function = self._functions[node.domain, node.op_type, node.overload]
        defaults = {it.name: it for it in function.attribute_proto}
        check_call(node, inputs, function, {*defaults, *function.attribute}, "function")
        return fused(instance(function, node, inputs, {**defaults, **node.attributes}))
