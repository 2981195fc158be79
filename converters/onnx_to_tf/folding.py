"""Folding of a batch normalisation that directly follows a convolution into its weight and bias.

scale (W * x + b - mean) / sqrt(var + epsilon) + bias  =  (W f) * x + (b - mean) f + bias
    f = scale / sqrt(var + epsilon)

Exact up to rounding; computed in float64 and rounded once. Exporters mostly do it themselves, but not all of them. A
normalisation that is left costs a pass over the image in every layer, and in 8 bits one more rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...models.signature import Array
from ..onnx_graph.graph import Graph, Node, attribute_value, needed, outer_names

_ATTRIBUTES = {"epsilon", "momentum", "training_mode", "spatial"}
_SINCE = 7


def fold_batch_normalizations(graph: Graph) -> Graph:
    """Return the graph with each such pair as one convolution; equal in every answer up to rounding."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    readers = Counter(_reads(graph))
    constants = dict(graph.constants)
    convolutions: dict[str, Node] = {}
    for node in graph.nodes:
        convolution = makers.get(node.inputs[0]) if _is_plain(node) else None
        if convolution is None or readers[node.inputs[0]] != 1:
            continue
        arrays = _fold(convolution, node, constants)
        if arrays is not None:
            names = tuple(f"{part}_of_{node.outputs[0]}" for part in ("weight", "bias"))
            constants.update(zip(names, arrays, strict=True))
            inputs = (convolution.inputs[0], *names)
            convolutions[node.outputs[0]] = replace(convolution, inputs=inputs, outputs=node.outputs[:1])
    nodes = [convolutions.get(node.outputs[0], node) for node in graph.nodes]
    return replace(graph, nodes=needed(nodes, graph.outputs), constants=constants)


def _reads(graph: Graph) -> Iterator[str]:
    """Yield every name as often as it is read, by graphs inside nodes and as an output too."""
    yield from graph.outputs
    for node in graph.nodes:
        yield from node.inputs
        for attribute in node.attributes.values():
            yield from outer_names(attribute)


def _is_plain(node: Node) -> bool:
    """Return whether a node is a batch normalisation that does not train, with one mean for each channel."""
    training = "training_mode" in node.attributes and attribute_value(node.attributes["training_mode"])
    spatial = "spatial" not in node.attributes or attribute_value(node.attributes["spatial"])  # until opset 8
    return (
        (node.domain, node.op_type) == ("", "BatchNormalization")
        and node.version >= _SINCE
        and not training
        and spatial
        and set(node.attributes) <= _ATTRIBUTES
        and not any(node.outputs[1:])
    )


def _fold(convolution: Node, node: Node, constants: dict[str, Array]) -> tuple[Array, Array] | None:
    """Return the folded weight and bias; None where an input is not a constant, or a result would overflow."""
    sources = [*convolution.inputs[1:], *node.inputs[1:]]
    constant = all(name in constants for name in sources if name)
    if (convolution.domain, convolution.op_type) not in (("", "Conv"), ("", "ConvTranspose")) or not constant:
        return None
    weight = constants[convolution.inputs[1]]
    scale, shift, mean, variance = (np.asarray(constants[name], np.float64) for name in node.inputs[1:5])
    epsilon = attribute_value(node.attributes["epsilon"]) if "epsilon" in node.attributes else 1e-5
    factor = scale / np.sqrt(variance + epsilon)
    bias = convolution.inputs[2] if len(convolution.inputs) > 2 else ""
    old_bias = np.asarray(constants[bias], np.float64) if bias else np.zeros_like(factor)
    product = np.asarray(weight, np.float64) * _along_filters(convolution, weight, factor)
    offset = (old_bias - mean) * factor + shift
    with np.errstate(over="ignore"):
        arrays = product.astype(weight.dtype), offset.astype(weight.dtype)
    return arrays if all(np.isfinite(array).all() for array in arrays) else None


def _along_filters(convolution: Node, weight: Array, factor: Array) -> Array:
    """Return the factors in a shape that fits the weight: (M, C / group, ...), or transposed (C, M / group, ...)."""
    ones = (1,) * (weight.ndim - 2)
    if convolution.op_type == "Conv":
        return factor.reshape(-1, 1, *ones)
    group = factor.size // weight.shape[1]
    return np.repeat(factor.reshape(group, weight.shape[1], *ones), weight.shape[0] // group, axis=0)
