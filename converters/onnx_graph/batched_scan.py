"""The Scan of opset 8, which has a batch of its own, in terms of the later one.

onnx's version converter (1.23) renames it and leaves the batch axis where it is, so that the result is another model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...models.errors import Refused
from .function_bodies import instance
from .graph import Graph, GraphValue, Node, attribute_value
from .lazy_onnx import onnx

_LATER_OPSET = 9


def is_batched_scan(node: Node) -> bool:
    """Return whether a node is a Scan as opset 8 words it."""
    return (node.domain, node.op_type) == ("", "Scan") and node.version < _LATER_OPSET


def as_nested_scans(node: Node, inputs: Sequence[GraphValue | None]) -> Graph:
    """Return the graph that stands for a batched Scan: a Scan over the batch, whose body scans one sequence.

    Raises Refused where it has sequence lengths, which the later Scan cannot express.
    """
    if inputs[0] is not None:
        raise Refused(f"{node}: its sequences have lengths of their own", fix="export the model at opset 9 or later")
    count = len(inputs) - 1
    # Names with a slash before: the body reads names around the node, too.
    names, outputs = [f"/scanned.{at}" for at in range(count)], [f"/result.{at}" for at in range(len(node.outputs))]
    attributes = {name: attribute_value(attribute) for name, attribute in node.attributes.items()}
    sequence = onnx.helper.make_node("Scan", names, outputs, name="sequence", **_later_attributes(attributes))
    takes, gives = ([onnx.ValueInfoProto(name=name) for name in of_side] for of_side in (names, outputs))
    body = onnx.helper.make_graph([sequence], "sequence", takes, gives)
    (formal, results) = ([f"/batch{name}" for name in of_side] for of_side in (names, outputs))
    batch = onnx.helper.make_node("Scan", formal, results, name="batch", body=body, num_scan_inputs=count)
    opsets = [onnx.helper.make_opsetid("", _LATER_OPSET)]
    function = onnx.helper.make_function("", "BatchedScan", ["", *formal], results, [batch], opsets)
    return instance(function, node, inputs, {})


def _later_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a batched Scan as the later one calls them; others are left for its reader to refuse."""
    directions = attributes.pop("directions", None)
    return attributes | ({} if directions is None else {"scan_input_directions": directions})
