"""What an operator's function is given: a reader of a node (node_reader.py) whose inputs are this lowering's values."""

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
from .values import Layout, Size, TfTensor, Value, computed, known, sizes
from .weight_variables import Weights

Branch: TypeAlias = Callable[[Graph, Sequence[Value]], list[Value]]


class Op(NodeReader[Value, Size]):
    """One node with its inputs. Operators read it through its methods and through nothing else."""

    sequence_type = TensorSequence
    reads_computed_axes = True

    def __init__(
        self, node: Node, inputs: Sequence[Value | None], weights: Weights, kernels: Kernels, branch: Branch
    ) -> None:
        super().__init__(node, inputs)
        self.branch = branch  # runs a graph that lies inside the node
        self.weights = weights
        self.kernels = kernels

    def over(self, *inputs: Value | None) -> Op:
        """This node, as a function of another operator reads it that is part of what this one does: with other inputs,
        and with attributes of the same names. What that function reads of them is read."""
        inner = copy(self)
        inner._inputs, inner._inputs_read = inputs, set()
        return inner

    # Inputs

    def sequence(self, at: int) -> TensorSequence:
        """An input that must be a sequence of tensors, of known length."""
        found = self.anything(at)
        if not isinstance(found, TensorSequence):
            self.refuse(f"its input {at} is no sequence of tensors", fix="check the model with onnx.checker")
        if isinstance(found, GrownSequence):
            self.refuse(
                f"its input {at} is a sequence as long as a loop had steps", fix="join it into one tensor first"
            )
        return found

    def grown(self, at: int) -> Value | None:
        """An input that is a sequence which a loop made, as one tensor with the steps along its first axis; or None."""
        found = self.anything(at)
        return found.stack if isinstance(found, GrownSequence) else None

    def tensor(self, at: int, layout: Layout = Layout.LOGICAL) -> TfTensor:
        """An input as a tensor in a layout."""
        return self.value(at).tensor(layout)

    def optional_array(self, at: int, what: str) -> Array | None:
        """As `array`, or None where the model leaves the input out."""
        return None if self.optional(at) is None else self.array(at, what)

    def sizes(self, at: int, what: str) -> tuple[Size, ...]:
        """A vector or scalar of sizes, each an int or an int32 scalar tensor."""
        found = self.value(at).size_parts()
        if found is None:
            self.refuse(f"the length of its {what} is not known", fix=f"make the {what} a vector of known length")
        return found

    def takes(self, allowed: frozenset[str], dtype: str) -> bool:
        """Return whether a function takes a dtype; one that takes ANY only moves elements, those in a carrier too."""
        return dtype in allowed or (dtype in NARROW and allowed >= ANY)

    # Answers

    def known(self, array: Array) -> Value:
        """An answer that is known while lowering."""
        return known(array, self.weights)

    def sized(self, parts: Sequence[Size], *, scalar: bool = False, dtype: str = "int64") -> Value:
        """An answer that is a vector of sizes, or a single one."""
        return sizes(parts, self.weights, scalar=scalar, dtype=dtype)

    def computed(self, tensor: TfTensor, layout: Layout = Layout.LOGICAL) -> Value:
        """An answer that TensorFlow computes."""
        return computed(tensor, layout)
