"""tf2onnx's graphs and nodes, of which tf2onnx 1.17 declares no types, and what a graph says of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

Shape: TypeAlias = Sequence[int]  # -1 where a size shows only as the model runs
AttributeValue: TypeAlias = int | float | str | Sequence[int] | Sequence[float]


class Dtype:
    """ONNX's numbers of dtypes (onnx.TensorProto)."""

    FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64 = 1, 2, 3, 4, 5, 6, 7
    BOOL, DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128 = 9, 11, 12, 13, 14, 15


class TfNode(Protocol):
    """An operator of TensorFlow, TFLite or ONNX in a graph of tf2onnx. Tensors are known by their names."""

    type: str
    graph: TfGraph
    input: Sequence[str]
    output: Sequence[str]
    name: str
    inputs: Sequence[TfNode | None]
    output_shapes: Sequence[Shape | None]
    output_dtypes: Sequence[int | None]

    def is_const(self) -> bool: ...
    def get_attr_value(self, name: str, default: Any = None) -> Any: ...
    def get_attr_str(self, name: str) -> str: ...
    def set_attr(self, name: str, value: AttributeValue) -> None: ...
    def get_tensor_value(self, as_list: bool = True) -> NDArray[Any]: ...
    def get_body_graphs(self) -> Mapping[str, TfGraph]: ...


class TfGraph(Protocol):
    """A graph of tf2onnx, or a function of one. A dtype is a number of onnx.TensorProto, or None where it is open."""

    outputs: list[str]
    inputs: list[TfNode]
    parent_graph: TfGraph
    scan_outputs: list[tuple[int, str]]
    ragged_variant_list_reads: Sequence[object]
    ragged_variant_list_writes: Sequence[object]
    _is_subgraph: bool
    input_names: Sequence[str]

    def get_nodes(self) -> Sequence[TfNode]: ...
    def get_node_by_name(self, name: str) -> TfNode: ...
    def get_node_by_output(self, output: str) -> TfNode | None: ...
    def get_dtype(self, name: str) -> Any: ...
    def set_dtype(self, name: str, dtype: int | None) -> None: ...
    def get_shape(self, name: str) -> list[int] | None: ...
    def set_shape(self, name: str, val: Shape | None) -> None: ...
    def copy_shape(self, input_name: str, output_name: str) -> None: ...
    def get_rank(self, name: str) -> int | None: ...
    def make_const(self, name: str, np_val: NDArray[Any]) -> TfNode: ...
    def make_node(self, op_type: str, inputs: Sequence[str], **options: object) -> TfNode: ...
    def remove_node(self, node_name: str) -> None: ...
    def delete_unused_nodes(self, outputs_name: Sequence[str]) -> None: ...
    def topological_sort(self, ops: Sequence[TfNode]) -> None: ...
    def find_output_consumers(self, output_name: str) -> list[TfNode]: ...
    def replace_input(self, node: TfNode, old_input: str, new_input: str, input_index: int) -> None: ...
    def replace_inputs(self, node: TfNode, new_inputs: Sequence[str]) -> None: ...
    def replace_all_inputs(self, old_input: str, new_input: str) -> None: ...
    def insert_new_node_on_input(
        self, node: TfNode, op_type: str, input_name: str, input_index: int | None = None, **attributes: int
    ) -> TfNode: ...
    def insert_new_node_on_output(self, op_type: str, output_name: str, **attributes: int) -> TfNode: ...


Rewriter: TypeAlias = Callable[[TfGraph, Sequence[TfNode]], Sequence[TfNode]]


def copy_source(graph: TfGraph, name: str) -> str:
    """Return the tensor that `name` is a copy of, through any chain of Identity nodes."""
    node = graph.get_node_by_output(name)
    return copy_source(graph, node.input[0]) if node is not None and node.type == "Identity" else name


def integer_source(graph: TfGraph, name: str) -> str:
    """Return the number that `name` is a copy of, also through a Cast of an int32 or int64."""
    name = copy_source(graph, name)
    node = graph.get_node_by_output(name)
    is_cast = node is not None and node.type == "Cast" and graph.get_dtype(node.input[0]) in (Dtype.INT32, Dtype.INT64)
    return integer_source(graph, node.input[0]) if node is not None and is_cast else name


def constant_of(node: TfNode | None) -> NDArray[Any] | None:
    """Return the array that a constant node holds, or None for any other node and for none."""
    return node.get_tensor_value(as_list=False) if node is not None and node.is_const() else None


def constant_integer(graph: TfGraph, name: str) -> int | None:
    """Return the integer that a tensor without axes always holds, or None."""
    value = constant_of(graph.get_node_by_output(integer_source(graph, name)))
    return int(value) if value is not None and not value.ndim and value.dtype.kind == "i" else None
