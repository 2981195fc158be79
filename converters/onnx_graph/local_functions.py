"""Functions that a model defines itself: lowered where they are called, as bodies of the specification are.

Not inlined before by onnx: its inliner (1.23) drops an attribute that an outer function has by default and hands on to
an inner one, leaves functions of another opset alone, and forgets where a call comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...models.errors import Refused
from .function_bodies import Typed, check_call, instance
from .graph import STANDARD, Graph, Node
from .patterns import fused

if TYPE_CHECKING:
    import onnx


class Functions:
    """By domain, name and overload. A function of the model goes before an operator of the same name."""

    def __init__(self, functions: Sequence[onnx.FunctionProto]) -> None:
        self._functions = {
            ("" if each.domain in STANDARD else each.domain, each.name, each.overload): each for each in functions
        }
        self._called: list[tuple[str, str, str]] = []  # those whose bodies are being carried

    def knows(self, node: Node) -> bool:
        """Whether the node calls one of them."""
        return (node.domain, node.op_type, node.overload) in self._functions

    @contextmanager
    def called(self, node: Node, inputs: Sequence[Typed | None]) -> Iterator[Graph]:
        """The function's graph for one call, that takes the inputs that are there and makes the outputs that are
        wanted, both in the call's order; to be carried inside of this.

        Raises Refused where the call gives or wants what the function does not have, or is one of the function itself.
        """
        name = (node.domain, node.op_type, node.overload)
        if name in self._called:
            raise Refused(f"{node}: the function calls itself", fix="check the model with onnx.checker")
        self._called.append(name)
        try:
            yield self._body_of(node, inputs)
        finally:
            self._called.pop()

    def _body_of(self, node: Node, inputs: Sequence[Typed | None]) -> Graph:
        function = self._functions[node.domain, node.op_type, node.overload]
        defaults = {each.name: each for each in function.attribute_proto}
        check_call(node, inputs, function, {*defaults, *function.attribute}, "function")
        return fused(instance(function, node, inputs, {**defaults, **node.attributes}))
