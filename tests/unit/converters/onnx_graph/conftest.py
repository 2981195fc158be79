"""Nodes to read, without any back-end: values are a dtype, a shape and perhaps an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import helper

from transload.converters.onnx_graph.graph import Node, graph_of
from transload.converters.onnx_graph.node_reader import NodeReader

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class PlainValue:
    """A value without a back-end."""

    dtype: str
    shape: tuple[int | None, ...]
    array: Array | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)


class PlainSequence(PlainValue):
    """Stands for a sequence of tensors."""


class PlainReader(NodeReader[PlainValue, int]):
    """A reader whose sizes are numbers."""

    sequence_type = PlainSequence

    def sizes(self, at: int, name: str) -> tuple[int, ...]:
        return self.integers(at, name)

    def known(self, array: Array) -> PlainValue:
        return value_of(array)


def value_of(array: Any) -> PlainValue:
    """A known value."""
    array = np.asarray(array)
    return PlainValue(array.dtype.name, array.shape, array)


def tensor(*shape: int | None, dtype: str = "float32") -> PlainValue:
    """A value that the model computes."""
    return PlainValue(dtype, shape)


def node_of(op_type: str, inputs: int, *, opset: int, outputs: int = 1, domain: str = "", **attributes: Any) -> Node:
    """A node as a file holds it, with its wording by the opset."""
    names = [f"x{at}" for at in range(inputs)]
    written = helper.make_node(op_type, names, [f"y{at}" for at in range(outputs)], domain=domain, **attributes)
    graph = helper.make_graph([written], "test", [], [helper.make_empty_tensor_value_info("y0")])
    (node,) = graph_of(graph, {"": opset, "com.microsoft": 1}).nodes
    return node


@pytest.fixture
def read() -> Callable[..., PlainReader]:
    """Makes a reader of one node: `read("Relu", [tensor(2)], opset=20)`."""

    def make(op_type: str, inputs: Sequence[Any], *, opset: int, **options: Any) -> PlainReader:
        values = [it if it is None or isinstance(it, PlainValue) else value_of(it) for it in inputs]
        return PlainReader(node_of(op_type, len(inputs), opset=opset, **options), values)

    return make


@pytest.fixture
def values() -> Any:
    """The makers of values: `values.tensor(2, None)`, `values.sequence()`."""

    class Makers:
        tensor = staticmethod(tensor)

        @staticmethod
        def sequence() -> PlainSequence:
            return PlainSequence("float32", ())

    return Makers
