"""Pieces of an ONNX model: some of its operators as a model of their own, fed with what they are fed in the whole.

For finding the smallest piece that a converter fails at (pipeline/minimal_repro/search.py). Worker only.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.artifact import write_artifact
from ...models.errors import Refused
from ...models.formats import PAYLOAD, Format, Target
from ...models.signature import Array, Signature, TensorSpec
from ...models.store import size_of
from .graph_pieces import Graph, spec_of

if TYPE_CHECKING:
    import onnx

_MOST_BYTES = 1_500_000_000  # the pieces hold copies of weights, and protobuf ends at 2 GB
_STACK, _SCOPES = "pkg.torch.onnx.stack_trace", "pkg.torch.onnx.name_scopes"  # what torch's exporter notes at a node
_TORCHS = ("site-packages", "torch/fx/")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\s*\n?\s*(?P<text>[^\n]*)')


@dataclass(frozen=True)
class Piece:
    """Some operators as a model; `expected` is what ONNX Runtime computes for `feeds` in the whole model."""

    model: onnx.ModelProto
    signature: Signature
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]

    operators: int  # of the whole model's

    def save(self, path: Path) -> None:
        """The model as a file."""
        import onnx

        onnx.save_model(self.model, path)

    def write(self, folder: Path) -> None:
        """The model as an artifact, which a step can be given."""
        self.save(folder / PAYLOAD[Format.ONNX])
        write_artifact(folder, Target(Format.ONNX), self.signature)


class Cutter:
    """An ONNX model, ready to be cut. Its nodes are numbered in their order, which is topological."""

    def __init__(self, path: Path) -> None:
        import onnx

        if size_of(path.parent) > _MOST_BYTES:
            raise Refused("the model is too large to be cut into pieces", fix="try it with fewer layers of a kind")
        self._model = _without_constants(onnx.load(path))
        self.nodes = list(self._model.graph.node)
        makes = [[name for name in node.output if name] for node in self.nodes]
        results = {value.name for value in self._model.graph.output}
        self._graph = Graph([_reads(node) for node in self.nodes], makes, results)
        self._weights = {each.name: each for each in self._model.graph.initializer}
        self._types = _types(self._model)
        self.values: dict[str, Array] = {}

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the whole once, and keep every tensor in it."""
        self.values = {**feeds, **_every_value(self._model, self._graph.made, self._types, feeds)}

    def piece(self, chosen: Iterable[int], *, flat: bool = False) -> Piece | None:
        """These nodes as a model. None where what they read or give is no tensor that was seen.

        `flat`: what it gives is flattened to a matrix by one more node. Some converters hand out images in a layout of
        their own, and would seem to be wrong about each.
        """
        kept = sorted(set(chosen))
        needed = self._graph.fed(kept)
        fed = [name for name in needed if name not in self._weights]
        given = self._graph.given(kept)
        if not given or any(name not in self.values for name in (*fed, *given)):
            return None
        sizes = [name for name in fed if self._graph.is_sizes(name, self.values[name])]
        fed = [name for name in fed if name not in sizes]
        try:
            signature = Signature(tuple(map(self._spec, fed)), tuple(map(self._spec, given)))
        except ValueError:  # a dtype that nothing here carries, or nothing that goes in
            return None
        weights = [self._weights[name] for name in needed if name in self._weights]
        feeds, expected = ({name: self.values[name] for name in names} for names in (fed, given))
        nodes = [self.nodes[at] for at in kept]
        if flat:
            nodes, signature, expected = _flattened(nodes, signature, expected)
        model = self._assembled(nodes, signature, [*weights, *map(self._constant, sizes)])
        return Piece(model, signature, feeds, expected, len(kept))

    def behind(self, at: int, most: int) -> list[int]:
        """A node and those before it that it depends on, nearest first, up to `most` of them."""
        return self._graph.behind(at, most)

    def _constant(self, name: str) -> onnx.TensorProto:
        from onnx import numpy_helper

        return numpy_helper.from_array(self.values[name], name)

    def _spec(self, name: str) -> TensorSpec:
        return spec_of(name, self.values[name], _axes(self._types.get(name)))

    def _assembled(self, nodes: Sequence[Any], signature: Signature, weights: list[Any]) -> onnx.ModelProto:
        from onnx import helper

        inputs, outputs = ([_value_info(spec) for spec in specs] for specs in (signature.inputs, signature.outputs))
        graph = helper.make_graph(nodes, "piece", inputs, outputs, weights)
        model: onnx.ModelProto = helper.make_model(
            graph, opset_imports=list(self._model.opset_import), functions=list(self._model.functions)
        )
        model.ir_version = self._model.ir_version
        return model


def _flattened(
    nodes: list[Any], signature: Signature, expected: Mapping[str, Array]
) -> tuple[list[Any], Signature, dict[str, Array]]:
    """With each output of three axes or more as a matrix, its first axis kept, under a name of its own."""
    from onnx import helper

    outputs, values = [], {}
    for spec in signature.outputs:
        value, flat = expected[spec.name], spec
        if value.ndim > 2:
            value = value.reshape(len(value), math.prod(value.shape[1:]))
            known = all(isinstance(axis, int) for axis in spec.shape[1:])
            shape = (spec.shape[0], value.shape[1] if known else f"{spec.name}_rest")
            flat = TensorSpec(f"{spec.name}.flat", spec.dtype, shape)
            nodes = [*nodes, helper.make_node("Flatten", [spec.name], [flat.name], axis=1)]
        outputs.append(flat)
        values[flat.name] = value
    return nodes, Signature(signature.inputs, tuple(outputs)), values


def described(node: onnx.NodeProto) -> str:
    """A node for a person: its operator, its name, and the line of the model it comes from where that is known."""
    line = line_of(node)
    return f"the operator {node.op_type}{f' ({node.name})' if node.name else ''}{f', from {line}' if line else ''}"


def line_of(node: onnx.NodeProto) -> str | None:
    """The line of the user's own code, as torch's exporter has noted it; else the module's name."""
    noted = {each.key: each.value for each in node.metadata_props}
    if line := line_in(noted.get(_STACK, "")):
        return line
    names = re.findall(r"'([^']*)'", noted.get(_SCOPES, ""))
    return next((f"the module {name}" for name in reversed(names[:-1]) if name), None)


def line_in(trace: str) -> str | None:
    """The innermost line of the user's own code in a stack trace of torch's: "net.py:14 (`x = x.flip(1)`)"."""
    frames = [each for each in _FRAME.finditer(trace) if not any(place in each["file"] for place in _TORCHS)]
    if not frames:
        return None
    last = frames[-1]
    text = last["text"].strip()
    return f"{Path(last['file']).name}:{last['line']}{f' (`{text}`)' if text else ''}"


def _value_info(spec: TensorSpec) -> Any:
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
    return helper.make_tensor_value_info(spec.name, dtype, list(spec.shape))


def _without_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """Constant nodes as initializers: a piece takes along those that it reads."""
    from onnx import numpy_helper

    kept = []
    for node in model.graph.node:
        value = next((each for each in node.attribute if node.op_type == "Constant" and each.name == "value"), None)
        if value is None:
            kept.append(node)
        else:
            model.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(value.t), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def _reads(node: onnx.NodeProto) -> list[str]:
    """What a node reads, also from inside the graphs that it holds."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            names += _reads_from_outside(graph)
    return list(dict.fromkeys(names))


def _reads_from_outside(graph: onnx.GraphProto) -> Iterator[str]:
    own = {each.name for each in (*graph.input, *graph.initializer)} | {
        name for node in graph.node for name in node.output
    }
    for node in graph.node:
        yield from (name for name in _reads(node) if name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def _types(model: onnx.ModelProto) -> dict[str, Any]:
    """The tensor types that are declared, or follow from what is."""
    import onnx

    with contextlib.suppress(Exception):  # without it there are fewer types, and no other harm
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    values = (*model.graph.input, *model.graph.value_info, *model.graph.output)
    return {value.name: value.type.tensor_type for value in values if value.type.HasField("tensor_type")}


def _axes(kind: Any) -> list[int | str | None] | None:
    if kind is None or not kind.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim
    ]  # fmt: skip


def _every_value(
    model: onnx.ModelProto, made: Iterable[str], types: Mapping[str, Any], feeds: Mapping[str, Array]
) -> dict[str, Array]:
    """Every tensor that the nodes make, by ONNX Runtime as it computes without optimising; else by the reference."""
    import onnx

    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    there = {value.name for value in whole.graph.output}
    for name in made:
        if name in types and name not in there:  # no sequence of tensors, and no optional one
            value = whole.graph.output.add()
            value.name = name
            value.type.tensor_type.CopyFrom(types[name])
    names = [value.name for value in whole.graph.output]
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(names, dict(feeds))
    except Exception:  # noqa: BLE001  (an operator that it lacks; the reference has them all)
        from onnx.reference import ReferenceEvaluator

        found = ReferenceEvaluator(whole).run(names, dict(feeds))
    return {name: np.asarray(value) for name, value in zip(names, found, strict=True) if isinstance(value, np.ndarray)}
