"""Pieces of an ONNX model: some of its operators as a model, with the inputs that they have in the full model.

Used to find the smallest piece at which a converter fails (pipeline/minimal_repro/search.py). Worker only.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...models.artifact import Artifact
from ...models.formats import Format
from ...models.signature import Array, Signature, TensorSpec
from ...models.source_lines import line_in
from ..onnx_graph.graph import outer_names
from ..onnx_graph.topological_order import sort_nodes
from .graph_pieces import GraphCutter, GraphPiece, check_size, spec_of

if TYPE_CHECKING:
    import onnx

    TensorType: TypeAlias = onnx.TypeProto.Tensor

_STACK, _SCOPES = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes"  # metadata of torch's exporter at a node


@dataclass(frozen=True)
class OnnxPiece(GraphPiece):
    """Some operators as an ONNX model; ONNX Runtime computed `expected`."""

    form, suffix = Format.ONNX, ".onnx"
    model: onnx.ModelProto

    def save(self, path: Path) -> None:
        """Write the model to a file."""
        import onnx

        onnx.save_model(self.model, path)


class OnnxCutter(GraphCutter):
    """An ONNX model that can be cut into pieces.
    `flat`: another node flattens each output of a piece to a matrix. Some converters return images in a layout of their
    own, and would seem to be wrong about every image."""

    flat = False
    is_typed = True

    def __init__(self, path: Path) -> None:
        import onnx

        check_size(path.parent)
        self._model = _without_constants(onnx.load(path))
        sort_nodes(self._model.graph)  # ONNX Runtime runs a file in any order, and `record_until_failure` in the file's
        self.nodes = list(self._model.graph.node)
        self.operators = [(node.op_type, node.name) for node in self.nodes]
        self._weights = {tensor.name: tensor for tensor in self._model.graph.initializer}
        writes = [[name for name in node.output if name] for node in self.nodes]
        known = {value.name for value in self._model.graph.input}.union(self._weights, *writes)
        reads = [[name for name in dict.fromkeys(_names_read(node)) if name in known] for node in self.nodes]
        super().__init__(reads, writes, {value.name for value in self._model.graph.output})
        self._types = _tensor_types(self._model)
        self._run: Callable[[Mapping[str, Array]], dict[str, Array]] | None = None

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the full model once, and keep every tensor."""
        if self._run is None:
            self._run = _value_runner(self._model, self._producers, self._types)
        self._values = {**feeds, **self._run(feeds)}

    @property
    def numbers(self) -> list[list[float]]:
        """The floats among the attributes of each node."""
        return [[item.f for item in node.attribute if item.type == item.FLOAT] for node in self.nodes]

    def record_until_failure(self, feeds: Mapping[str, Array]) -> int | None:
        """Run node by node, and keep every tensor that can be computed. Return the first node that fails, if any."""
        weights = self.constants
        values, failing = {**weights, **feeds}, None
        for at, node in enumerate(self.nodes):
            if not values.keys() >= set(self._reads[at]):
                continue
            try:
                values |= self._run_node(node, {name: values[name] for name in self._reads[at]})
            except Exception:  # noqa: BLE001  (ONNX Runtime raises its own, for every kind of mismatch)
                failing = at if failing is None else failing
        self._values = {name: value for name, value in values.items() if name not in weights}
        return failing

    def record_in_half(self, feeds: Mapping[str, Array]) -> bool:
        """Run node by node: what goes from one to the next is in the dtypes of the file. Return whether all could run.
        ONNX Runtime runs a graph of float16 in float32 on most processors, with no rounding between its nodes."""
        return self.record_until_failure(feeds) is None

    def _run_node(self, node: onnx.NodeProto, read: Mapping[str, Array]) -> dict[str, Array]:
        """Run a node alone."""
        import onnxruntime
        from onnx import helper

        inputs = [_value_info(TensorSpec(name, str(array.dtype), array.shape)) for name, array in read.items()]
        names = [name for name in node.output if name]
        graph = helper.make_graph([node], "node", inputs, [helper.make_empty_tensor_value_info(name) for name in names])
        model = helper.make_model(
            graph, opset_imports=list(self._model.opset_import), functions=list(self._model.functions)
        )
        model.ir_version = self._model.ir_version
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 4  # a failure is an answer here
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = zip(names, session.run(names, read), strict=True)
        return {name: value for name, value in values if isinstance(value, np.ndarray)}

    def piece(self, chosen: Iterable[int]) -> OnnxPiece | None:
        """Return these nodes as a model; None if an input or output is no recorded tensor, or there are no inputs."""
        from onnx import numpy_helper

        kept = sorted(set(chosen))
        ends = self._ends_of(kept, self._weights)
        if ends is None:
            return None
        inputs, sizes, outputs = ends
        try:
            signature, feeds, expected = self._recorded(inputs, outputs, {name: name for name in (*inputs, *outputs)})
        except ValueError:  # a dtype that the formats lack
            return None
        nodes = [self.nodes[index] for index in kept]
        if self.flat:
            nodes, signature, expected = _with_flat_outputs(nodes, signature, expected)
        weights = [self._weights[name] for name in self._inputs_of(kept) if name in self._weights]
        weights += [numpy_helper.from_array(self._values[name], name) for name in sizes]
        model = self._build_model(nodes, signature, weights)
        return OnnxPiece(signature, feeds, expected, len(kept), model)

    def describe(self, index: int) -> tuple[str, str, str | None]:
        """Return a node's operator, a description with its name and line, and the line that it comes from, if known."""
        node = self.nodes[index]
        line, name = _line_of(node), f" ({node.name})" if node.name else ""
        return node.op_type, f"the operator {node.op_type}{name}{f', from {line}' if line else ''}", line

    @property
    def constants(self) -> Mapping[str, Array]:
        """The initializers."""
        from onnx import numpy_helper

        return {name: numpy_helper.to_array(tensor) for name, tensor in self._weights.items()}

    def _spec(self, name: str, plain: str) -> TensorSpec:
        return spec_of(plain, self._values[name], _declared_axes(self._types.get(name)))

    def _build_model(
        self, nodes: list[onnx.NodeProto], signature: Signature, weights: list[onnx.TensorProto]
    ) -> onnx.ModelProto:
        from onnx import helper

        inputs, outputs = ([_value_info(spec) for spec in specs] for specs in (signature.inputs, signature.outputs))
        graph = helper.make_graph(nodes, "piece", inputs, outputs, weights)
        model: onnx.ModelProto = helper.make_model(
            graph, opset_imports=list(self._model.opset_import), functions=list(self._model.functions)
        )
        model.ir_version = self._model.ir_version
        return model


def _with_flat_outputs(
    nodes: list[onnx.NodeProto], signature: Signature, expected: Mapping[str, Array]
) -> tuple[list[onnx.NodeProto], Signature, dict[str, Array]]:
    """Flatten each output of three axes or more to a matrix with the same first axis, under another name."""
    from onnx import helper

    outputs, values = [], {}
    for spec in signature.outputs:
        value, flat = expected[spec.name], spec
        if value.ndim > 2:
            value = value.reshape(len(value), math.prod(value.shape[1:]))
            is_static = all(isinstance(axis, int) for axis in spec.shape[1:])
            shape = (spec.shape[0], value.shape[1] if is_static else f"{spec.name}_rest")
            flat = TensorSpec(f"{spec.name}.flat", spec.dtype, shape)
            nodes = [*nodes, helper.make_node("Flatten", [spec.name], [flat.name], axis=1)]
        outputs.append(flat)
        values[flat.name] = value
    return nodes, Signature(signature.inputs, tuple(outputs)), values


def _line_of(node: onnx.NodeProto) -> str | None:
    """Return the line of the user's code that torch's exporter noted; else the module's name."""
    notes = {entry.key: entry.value for entry in node.metadata_props}
    if line := line_in(notes.get(_STACK, "")):
        return line
    names = re.findall(r"'([^']*)'", notes.get(_SCOPES, ""))
    return next((f"the module {name}" for name in reversed(names[:-1]) if name), None)


def _value_info(spec: TensorSpec) -> onnx.ValueInfoProto:
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
    return helper.make_tensor_value_info(spec.name, dtype, list(spec.shape))


def _without_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Turn Constant nodes into initializers: a piece contains those that it reads."""
    from onnx import numpy_helper

    kept_nodes = []
    for node in model.graph.node:
        value = next((a for a in node.attribute if node.op_type == "Constant" and a.name == "value"), None)
        if value is None:
            kept_nodes.append(node)
        else:
            model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(value.t), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept_nodes)
    return model


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node reads, also in its graphs, whose own names are among them."""
    yield from node.input
    for attribute in node.attribute:
        yield from outer_names(attribute)


def _tensor_types(model: onnx.ModelProto) -> dict[str, TensorType]:
    import onnx

    with contextlib.suppress(Exception):  # without inference there are only fewer types
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return {value.name: value.type.tensor_type for value in values if value.type.HasField("tensor_type")}


def _declared_axes(tensor_type: TensorType | None) -> list[int | str | None] | None:
    if tensor_type is None or not tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor_type.shape.dim]


def _value_runner(
    model: onnx.ModelProto, written: Iterable[str], types: Mapping[str, TensorType]
) -> Callable[[Mapping[str, Array]], dict[str, Array]]:
    """Return a function that computes every tensor which nodes write, in ONNX Runtime without optimisation, else by
    ONNX's reference."""
    import onnx

    full = onnx.ModelProto()
    full.CopyFrom(model)
    outputs = {value.name for value in full.graph.output}
    for name in written:
        if name in types and name not in outputs:  # neither a sequence nor an optional
            value = full.graph.output.add()
            value.name = name
            value.type.tensor_type.CopyFrom(types[name])
    names = [value.name for value in full.graph.output]
    session: Any = None
    with contextlib.suppress(Exception):  # it lacks an operator; the reference has all
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # threads of its own choice it pins to cores, and a worker may not
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(full.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(feeds: Mapping[str, Array]) -> dict[str, Array]:
        arrays = None
        with contextlib.suppress(Exception):
            arrays = session and session.run(names, dict(feeds))
        if arrays is None:
            from onnx.reference import ReferenceEvaluator

            arrays = ReferenceEvaluator(full).run(names, dict(feeds))
        values = zip(names, arrays, strict=True)
        return {name: np.asarray(value) for name, value in values if isinstance(value, np.ndarray)}

    return run


def open_onnx(artifact: Artifact) -> OnnxCutter:
    """Open the graph of an artifact."""
    return OnnxCutter(artifact.path)
