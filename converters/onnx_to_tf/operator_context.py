"""The context passed to operator functions: a reader of a node (node_reader.py) whose inputs are values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TypeAlias

from ...models.signature import Array
from ..onnx_graph.graph import Graph, Node
from ..onnx_graph.node_reader import NodeReader
from .common.tensor_sequence import GrownSequence, TensorSequence
from .kernels.dialects import Kernels
from .lowerings import ANY, NARROW
from .values import Layout, Size, TfTensor, Value, known, sizes
from .weight_variables import Weights

Branch: TypeAlias = Callable[[Graph, Sequence[Value]], list[Value]]


class OperatorContext(NodeReader[Value, Size]):
    """Context passed to every operator function: typed access to a node's inputs and attributes."""

    sequence_type = TensorSequence
    reads_computed_axes = True

    def __init__(
        self, node: Node, inputs: Sequence[Value | None], weights: Weights, kernels: Kernels, branch: Branch
    ) -> None:
        super().__init__(node, inputs)
        self.branch = branch  # runs a graph that lies inside the node
        self.weights = weights
        self.kernels = kernels

    def with_inputs(self, *inputs: Value | None) -> OperatorContext:
        """Return this node with other inputs, for another operator's function; the attributes that reads count."""
        inner = copy(self)
        inner._inputs, inner._inputs_read = inputs, set()
        return inner

    # Inputs

    def sequence(self, at: int) -> TensorSequence:
        """Return an input that must be a sequence of tensors, of known length."""
        value = self.anything(at)
        if not isinstance(value, TensorSequence):
            self.refuse(f"its input {at} is no sequence of tensors", fix="check the model with onnx.checker")
        if isinstance(value, GrownSequence):
            self.refuse(
                f"its input {at} is a sequence as long as a loop had steps", fix="join it into one tensor first"
            )
        return value

    def grown_sequence(self, at: int) -> Value | None:
        """Return a sequence that a loop appended to as one tensor with the steps along its first axis; or None."""
        value = self.anything(at)
        return value.stack if isinstance(value, GrownSequence) else None

    def tensor(self, at: int, layout: Layout = Layout.LOGICAL) -> TfTensor:
        """Return an input as a tensor in a layout."""
        return self.value(at).tensor(layout)

    def optional_array(self, at: int, name: str) -> Array | None:
        """Return the array of an input as `array` does, or None where the model leaves the input out."""
        return None if self.optional(at) is None else self.array(at, name)

    def sizes(self, at: int, name: str) -> tuple[Size, ...]:
        """Return a vector or scalar of sizes, each an int or an int32 scalar tensor; `name` names it to the user."""
        parts = self.value(at).size_parts()
        if parts is None:
            self.refuse(f"the length of its {name} is not known", fix=f"make the {name} a vector of known length")
        return parts

    def takes(self, allowed: frozenset[str], dtype: str) -> bool:
        """Return whether a function takes a dtype; one that takes ANY only moves elements, those in a carrier too."""
        return dtype in allowed or (dtype in NARROW and allowed >= ANY)

    # Results

    def known(self, array: Array) -> Value:
        """Return a result that is known while lowering."""
        return known(array, self.weights)

    def sized(self, parts: Sequence[Size], *, scalar: bool = False, dtype: str = "int64") -> Value:
        """Return a result that is a vector of sizes, or a single one."""
        return sizes(parts, self.weights, scalar=scalar, dtype=dtype)
