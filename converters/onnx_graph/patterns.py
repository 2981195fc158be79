"""Exact identities that exporters spell out although ONNX, TensorFlow and TFLite have one operator for them.

That is the exact GELU x (1 + erf(x sqrt 2)) 2 of torch's older exporter. TFLite has a kernel for GELU and none for Erf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import isclose, sqrt

from .graph import Graph, Node, needed, tensor_array


def fused(graph: Graph) -> Graph:
    """Return the graph with each spelled-out GELU replaced by the operator; equal in every answer."""
    finder = _Finder(graph)
    nodes = [finder.gelu(node) or node for node in graph.nodes]
    return replace(graph, nodes=needed(nodes, graph.outputs))


class _Finder:
    """Looks upwards from a node: through values that nobody else reads, except the input itself."""

    def __init__(self, graph: Graph) -> None:
        self.makers: Mapping[str, Node] = {name: node for node in graph.nodes for name in node.outputs}
        self.readers = Counter(name for node in graph.nodes for name in node.inputs)
        self.readers.update(graph.outputs)
        self.constants = graph.constants

    def gelu(self, node: Node) -> Node | None:
        """Return `node` as a Gelu where it is the last multiplication of one: (x (1 + erf)) / 2 in any grouping."""
        factors = self._factors(node, depth=2) if node.op_type == "Mul" else []
        halves = [name for name in factors if self._is(name, 0.5)]
        sums = [name for name in factors if self._erf_argument(name) is not None]
        if len(factors) != 3 or len(halves) != 1 or len(sums) != 1:
            return None
        (x,) = [name for name in factors if name not in (halves[0], sums[0])] or [""]
        if not x or self._scaled(self._erf_argument(sums[0]) or "") != x:
            return None
        return replace(node, op_type="Gelu", version=20, opsets={**node.opsets, "": 20}, inputs=(x,), attributes={})

    def _factors(self, node: Node, depth: int) -> list[str]:
        """Return the factors of a product of products."""
        factors = []
        for name in node.inputs:
            maker = self.makers.get(name)
            if depth > 1 and maker is not None and maker.op_type == "Mul" and self.readers[name] == 1:
                factors += self._factors(maker, depth - 1)
            else:
                factors.append(name)
        return factors

    def _erf_argument(self, name: str) -> str | None:
        """Return the x of which `name` is 1 + erf(x)."""
        total = self.makers.get(name)
        if total is None or total.op_type != "Add" or self.readers[name] != 1:
            return None
        parts = [part for part in total.inputs if not self._is(part, 1.0)]
        erf = self.makers.get(parts[0]) if len(parts) == 1 else None
        return erf.inputs[0] if erf is not None and erf.op_type == "Erf" else None

    def _scaled(self, name: str) -> str | None:
        """Return the x of which `name` is x / sqrt 2."""
        maker = self.makers.get(name)
        if maker is None or maker.op_type not in ("Div", "Mul"):
            return None
        left, right = maker.inputs
        if maker.op_type == "Div":
            return left if self._is(right, sqrt(2)) else None
        return left if self._is(right, sqrt(0.5)) else right if self._is(left, sqrt(0.5)) else None

    def _is(self, name: str, number: float) -> bool:
        """Return whether a name stands for a known scalar; an array of one element might add axes to the answer."""
        array = self.constants.get(name)
        maker = self.makers.get(name)
        if array is None and maker is not None and maker.op_type == "Constant" and "value" in maker.attributes:
            array = tensor_array(maker.attributes["value"].t)
        return array is not None and array.ndim == 0 and isclose(float(array.item()), number, rel_tol=1e-6)
