"""Pieces of a SavedModel: some operators of the served graph as a graph, with the inputs that they have in the model.

Used to find the smallest piece at which a converter fails (pipeline/minimal_repro/search.py). Worker only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...models.artifact import Artifact, write_artifact
from ...models.errors import Refused
from ...models.formats import Format, Target
from ...models.signature import DTYPES, Array, Signature, TensorSpec
from ..to_onnx.frozen_graph import freeze
from ..to_saved_model.saved_model_from_onnx import SIGNATURE
from .graph_pieces import GraphCutter, GraphPiece, check_size, spec_of

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.framework.function_pb2 import FunctionDef, FunctionDefLibrary
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef

_FRAME_OPERATORS = frozenset({"Enter", "Exit", "Merge", "NextIteration", "Switch"})  # their values cannot be fetched
_CALL = re.compile(r"(Stateful|Stateless)?PartitionedCall(_\d+)?")  # scopes left by saving and inlining


@dataclass(frozen=True)
class SavedModelPiece(GraphPiece):
    """Some operators as a graph, whose inputs are placeholders; TensorFlow computed `expected`."""

    form, suffix = Format.SAVED_MODEL, ".pb"
    tensors: Mapping[str, str]  # names of the inputs' and outputs' tensors (`model/Relu:0`), by the signature's names
    graph: GraphDef

    def save(self, path: Path) -> None:
        """Write the graph to a file."""
        path.write_bytes(self.graph.SerializeToString(deterministic=True))

    def write(self, folder: Path) -> None:
        """Write a SavedModel of the graph as an artifact, the input of a step."""
        write_saved_model(folder / Format.SAVED_MODEL.spec.payload, self.graph, self.signature, self.tensors)
        write_artifact(folder, Target(Format.SAVED_MODEL), self.signature)

    @property
    def runs(self) -> frozenset[str]:
        """Return the operators in the graph and its functions."""
        bodies = (node for function in self.graph.library.function for node in function.node_def)
        return frozenset(node.op for node in (*self.graph.node, *bodies))


def write_saved_model(path: Path, graph: GraphDef, signature: Signature, tensors: Mapping[str, str]) -> None:
    """Write a piece's graph as a SavedModel with a `serving_default` of this signature."""
    import tensorflow as tf

    nodes = [node for node in graph.node if node.op != "Placeholder"]
    body = tf.compat.v1.GraphDef(node=nodes, library=graph.library, versions=graph.versions)
    names, output_names = ([spec.name for spec in specs] for specs in (signature.inputs, signature.outputs))

    def piece(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        by_name, results = dict(zip(names, inputs, strict=True)), [tensors[name] for name in output_names]
        return dict(zip(output_names, tf.graph_util.import_graph_def(body, by_name, results, name=""), strict=True))

    module = tf.Module()
    module.piece = tf.function(piece, input_signature=[_tf_spec(spec) for spec in signature.inputs], autograph=False)
    tf.saved_model.save(module, str(path), signatures={SIGNATURE: module.piece})


def _tf_spec(spec: TensorSpec) -> tf.TensorSpec:
    import tensorflow as tf

    return tf.TensorSpec([axis if isinstance(axis, int) else None for axis in spec.shape], spec.dtype, name=spec.name)


class SavedModelCutter(GraphCutter):
    """The frozen graph that a SavedModel serves, which can be cut into pieces.
    Constants and inputs have no index. Control edges are ignored: a frozen graph has no state."""

    def __init__(self, path: Path, signature: Signature) -> None:
        import tensorflow as tf

        check_size(path)
        frozen = freeze(path)
        self._graph_def, self._inputs = frozen.graph.as_graph_def(), frozen.inputs
        self._outputs = frozen.outputs
        self._declared = {_key(frozen.inputs[spec.name]): spec for spec in signature.inputs}
        if frame := next((node.op for node in self._graph_def.node if node.op in _FRAME_OPERATORS), None):
            raise Refused(
                f"the model has control flow of TensorFlow 1 ({frame}), which cannot be cut into pieces",
                fix="read the log of the step",
            )
        with tf.Graph().as_default() as self._tf_graph:
            tf.import_graph_def(self._graph_def, name="")
        self._constants = {node.name: node for node in self._graph_def.node if node.op == "Const"}
        nodes = (node for node in _sorted_nodes(self._graph_def.node) if node.op not in ("Const", "Placeholder"))
        self.nodes = [node for node in nodes if self._operation(node).outputs]
        self.operators = [(node.op, node.name) for node in self.nodes]
        writes = [[_key(output.name) for output in self._operation(node).outputs] for node in self.nodes]
        results = map(_key, frozen.outputs.values())
        super().__init__([_names_read(node) for node in self.nodes], writes, set(results))
        self._fixed = self._constant_results()

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the full graph once, unoptimised, and keep every tensor that an array can hold."""
        import tensorflow as tf

        recorded = {
            _key(output.name): output
            for node in self.nodes
            for output in self._operation(node).outputs
            if output.dtype.name in DTYPES
        }
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        with tf.compat.v1.Session(graph=self._tf_graph, config=config) as session:
            results = session.run(recorded, {self._inputs[name]: array for name, array in feeds.items()})
        self._values = {**{_key(self._inputs[name]): array for name, array in feeds.items()}, **results}

    @property
    def numbers(self) -> list[list[float]]:
        """The floats among the attributes of each operator."""
        return [[item.f for item in node.attr.values() if item.WhichOneof("value") == "f"] for node in self.nodes]

    @property
    def values(self) -> Mapping[str, Array]:
        """The recorded tensors, without those that depend on constants alone: they are weights."""
        return {name: value for name, value in self._values.items() if name not in self._fixed}

    def output_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the tensor of each output of the model, by its name in the signature."""
        return {name: _key(self._outputs[name]) for name in names if name in self._outputs}

    def piece(self, chosen: Iterable[int]) -> SavedModelPiece | None:
        """Return these operators as a graph; None without inputs or recorded outputs.
        An operator that reads a value that no array can hold, as a list of tensors, brings its producer along."""
        kept = self._with_producers(chosen)
        ends = self._ends_of(kept, self._constants)
        if ends is None:
            return None
        inputs, sizes, outputs = ends
        # tf.function changes capitals in the names of its arguments.
        plain = {name: re.sub(r"\W", "_", _without_call_scopes(name)).lower() for name in (*inputs, *sizes, *outputs)}
        nodes = {self.nodes[index].name for index in kept}
        if len(set(plain.values())) < len(plain) or nodes.intersection(plain[name] for name in (*inputs, *sizes)):
            return None
        signature, feeds, expected = self._recorded(inputs, outputs, plain)
        placed = [_constant(plain[name], self._values[name]) for name in sizes]
        graph = self._build_graph(kept, [*map(_placeholder, signature.inputs), *placed], plain)
        tensors = {name: f"{name}:0" for name in feeds} | {plain[name]: _tensor_name(name) for name in outputs}
        return SavedModelPiece(signature, feeds, expected, len(kept), tensors, graph)

    def describe(self, index: int) -> tuple[str, str, None]:
        """Return an operator's name in TensorFlow, and a description with its scope, which Keras gives each layer."""
        node = self.nodes[index]
        scope, _, name = _without_call_scopes(node.name).rpartition("/")
        return node.op, f"the operator {node.op} ({name}){f', in the scope {scope}' if scope else ''}", None

    def _operation(self, node: NodeDef) -> tf.Operation:
        return self._tf_graph.get_operation_by_name(node.name)

    def _constant_results(self) -> set[str]:
        """Return the tensors that depend on constants alone, as frozen variables do; converters need their values."""
        constant = set(self._constants)
        for node, reads, writes in zip(self.nodes, self._reads, self._writes, strict=True):
            if constant.issuperset(reads) and not self._operation(node).op_def.is_stateful:
                constant.update(writes)
        return constant

    def _is_sizes(self, name: str) -> bool:
        """Return whether a tensor depends on constants alone, or counts as sizes."""
        return name in self._fixed or super()._is_sizes(name)

    def _with_producers(self, chosen: Iterable[int]) -> list[int]:
        kept = set(chosen)
        while more := {
            self._producers[name]
            for name in self._inputs_of(kept)
            if name in self._producers and name not in self._values
        }:
            kept |= more
        return sorted(kept)

    def _outputs_of(self, kept: Sequence[int]) -> list[str]:
        """Return the outputs that arrays can hold; if others read nothing but lists, the last recorded tensor."""
        outputs = [name for name in super()._outputs_of(kept) if name in self._values]
        return outputs or [name for index in kept for name in self._writes[index] if name in self._values][-1:]

    @property
    def constants(self) -> Mapping[str, Array]:
        """The constants and frozen variables that an array can hold."""
        import tensorflow as tf

        arrays = {name: tf.make_ndarray(node.attr["value"].tensor) for name, node in self._constants.items()}
        return {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}

    def _spec(self, name: str, plain: str) -> TensorSpec:
        if name in self._declared:
            return replace(self._declared[name], name=plain)
        shape = self._tf_graph.get_tensor_by_name(_tensor_name(name)).shape
        value = self._values[name]
        return spec_of(plain, value, [None] * value.ndim if shape.rank is None else shape.as_list())

    def _build_graph(self, kept: Sequence[int], inputs: Sequence[NodeDef], plain: Mapping[str, str]) -> GraphDef:
        """Build a graph of the operators, the constants that they read, and their inputs."""
        import tensorflow as tf

        placed = {node.name for node in inputs}
        nodes = [self.nodes[index] for index in kept]
        read = dict.fromkeys(name for node in nodes for name in _names_read(node))
        constants = [self._constants[name] for name in read if name in self._constants]
        graph = tf.compat.v1.GraphDef(versions=self._graph_def.versions)
        graph.node.extend(inputs)
        for node in (*constants, *nodes):
            copy = graph.node.add()
            copy.CopyFrom(node)
            copy.device = ""
            copy.attr.pop("_class", None)  # may name nodes that are not in the piece
            inputs_of_copy = [plain[name] if plain.get(name) in placed else name for name in _names_read(node)]
            del copy.input[:]
            copy.input.extend(inputs_of_copy)
        graph.library.function.extend(_functions(graph.node, self._graph_def.library))
        return graph


def _key(tensor: str) -> str:
    """Return a tensor's name as nodes refer to it: `a` for `a:0`."""
    return tensor.removesuffix(":0")


def _without_call_scopes(name: str) -> str:
    """Remove the scopes of inlined calls from a name."""
    *scopes, last = name.split("/")
    return "/".join([*(scope for scope in scopes if not _CALL.fullmatch(scope)), last])


def _tensor_name(key: str) -> str:
    return key if ":" in key else f"{key}:0"


def _names_read(node: NodeDef) -> list[str]:
    return [_key(name) for name in node.input if not name.startswith("^")]


def _sorted_nodes(nodes: Iterable[NodeDef]) -> list[NodeDef]:
    """Sort nodes topologically."""
    by_name = {node.name: node for node in nodes}
    ordered: dict[str, NodeDef] = {}
    for name in by_name:
        pending = [name]
        while pending:
            node = by_name[pending[-1]]
            before = [item for item in (read.partition(":")[0] for read in _names_read(node)) if item not in ordered]
            if before:
                pending += before
            else:
                ordered[pending.pop()] = node
    return list(ordered.values())


def _functions(nodes: Iterable[NodeDef], library: FunctionDefLibrary) -> Iterator[FunctionDef]:
    """Yield the functions of a library that the nodes call, directly or indirectly."""
    unused = {function.signature.name: function for function in library.function}
    pending = list(nodes)
    while pending:
        for name in _called_names(pending.pop()):
            if function := unused.pop(name, None):
                pending += function.node_def
                yield function


def _called_names(node: NodeDef) -> Iterator[str]:
    yield node.op
    for attribute in node.attr.values():
        yield from (function.name for function in (attribute.func, *attribute.list.func))


def _placeholder(spec: TensorSpec) -> NodeDef:
    import tensorflow as tf

    with tf.Graph().as_default():
        return tf.compat.v1.placeholder(spec.dtype, _tf_spec(spec).shape, spec.name).op.node_def


def _constant(name: str, value: Array) -> NodeDef:
    import tensorflow as tf

    with tf.Graph().as_default():
        return tf.constant(value, name=name).op.node_def


def open_saved_model(artifact: Artifact) -> SavedModelCutter:
    """Open the graph of an artifact."""
    return SavedModelCutter(artifact.path, artifact.signature)
