"""Pieces of a SavedModel: some operators of the graph that it serves as a graph of their own, fed with what they are
fed in the whole.

For finding the smallest piece that a converter fails at (pipeline/minimal_repro/search.py). Worker only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import write_artifact
from ...models.errors import Refused
from ...models.formats import PAYLOAD, Format, Target
from ...models.signature import DTYPES, Array, Signature, TensorSpec
from ...models.store import size_of
from ..to_onnx.frozen_graph import freeze
from ..to_saved_model.saved_model_from_onnx import SIGNATURE
from .graph_pieces import Graph, spec_of

if TYPE_CHECKING:
    import tensorflow as tf

_MOST_BYTES = 1_500_000_000  # the pieces hold copies of weights, and protobuf ends at 2 GB
_OF_FRAMES = frozenset({"Enter", "Exit", "Merge", "NextIteration", "Switch"})  # values in these cannot be read
_CALL = re.compile(r"(Stateful|Stateless)?PartitionedCall(_\d+)?")  # scopes that saving and inlining leave


@dataclass(frozen=True)
class Piece:
    """Some operators as a graph. Its inputs are placeholders that are called as the signature has them. `tensors`: what
    its inputs and outputs are called in it (`model/Relu:0`), by the signature's names; `expected` is what TensorFlow
    computes for `feeds` in the whole."""

    graph: Any  # a GraphDef
    signature: Signature
    tensors: Mapping[str, str]
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    operators: int  # of the whole model's

    def save(self, path: Path) -> None:
        """The graph as a file."""
        path.write_bytes(self.graph.SerializeToString(deterministic=True))

    def write(self, folder: Path) -> None:
        """A SavedModel of it as an artifact, which a step can be given."""
        write_saved_model(folder / PAYLOAD[Format.SAVED_MODEL], self.graph, self.signature, self.tensors)
        write_artifact(folder, Target(Format.SAVED_MODEL), self.signature)

    @property
    def runs(self) -> frozenset[str]:
        """The operators in it, those of its functions among them."""
        bodies = (node for function in self.graph.library.function for node in function.node_def)
        return frozenset(node.op for node in (*self.graph.node, *bodies))


def write_saved_model(path: Path, graph: Any, signature: Signature, tensors: Mapping[str, str]) -> None:
    """A graph, as a Piece has it, as a SavedModel; its `serving_default` is as the signature says."""
    import tensorflow as tf

    body = tf.compat.v1.GraphDef()
    body.CopyFrom(graph)
    del body.node[:]
    body.node.extend(node for node in graph.node if node.op != "Placeholder")
    names, given = ([spec.name for spec in specs] for specs in (signature.inputs, signature.outputs))

    def piece(*inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        fed, wanted = dict(zip(names, inputs, strict=True)), [tensors[name] for name in given]
        return dict(zip(given, tf.graph_util.import_graph_def(body, fed, wanted, name=""), strict=True))

    module = tf.Module()
    module.piece = tf.function(piece, input_signature=[_tf_spec(spec) for spec in signature.inputs], autograph=False)
    tf.saved_model.save(module, str(path), signatures={SIGNATURE: module.piece})


def _tf_spec(spec: TensorSpec) -> tf.TensorSpec:
    import tensorflow as tf

    return tf.TensorSpec([axis if isinstance(axis, int) else None for axis in spec.shape], spec.dtype, name=spec.name)


class Cutter:
    """What a SavedModel serves, frozen and ready to be cut. Operators are numbered in a topological order; constants
    and inputs are none. The order that control edges ask for is left out: what is frozen keeps no state."""

    def __init__(self, path: Path, signature: Signature) -> None:
        if size_of(path) > _MOST_BYTES:
            raise Refused("the model is too large to be cut into pieces", fix="try it with fewer layers of a kind")
        found = freeze(path)
        self._graph_def, self._inputs = found.graph.as_graph_def(), found.inputs
        self._declared = {_key(found.inputs[spec.name]): spec for spec in signature.inputs}
        _check_frames(self._graph_def.node)
        self._whole = _imported(self._graph_def)
        self._constants = {node.name: node for node in self._graph_def.node if node.op == "Const"}
        self.nodes = [node for node in _in_order(self._graph_def.node) if self._computes(node)]
        makes = [[_key(made.name) for made in self._operation(node).outputs] for node in self.nodes]
        results = map(_key, found.outputs.values())
        self._graph = Graph([_reads(node) for node in self.nodes], makes, set(results))
        self._fixed = self._of_constants()
        self.values: dict[str, Array] = {}

    @property
    def operators(self) -> list[tuple[str, str]]:
        """What the operators are, and what they are called."""
        return [(node.op, node.name) for node in self.nodes]

    def record(self, feeds: Mapping[str, Array]) -> None:
        """Run the whole once as it is, unoptimised, and keep every tensor in it that an array holds."""
        import tensorflow as tf

        wanted = {
            _key(made.name): made
            for node in self.nodes
            for made in self._operation(node).outputs
            if made.dtype.name in DTYPES
        }
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        with tf.compat.v1.Session(graph=self._whole, config=config) as session:
            found = session.run(wanted, {self._inputs[name]: array for name, array in feeds.items()})
        self.values = {**{_key(self._inputs[name]): array for name, array in feeds.items()}, **found}

    def piece(self, chosen: Iterable[int]) -> Piece | None:
        """These operators as a graph, with those whose results no array holds where they read such, as a list of
        tensors. None where nothing goes in, or nothing comes out that was seen."""
        kept = self._with_makers(chosen)
        needed = [name for name in self._graph.fed(kept) if name not in self._constants]
        known = {name for name in needed if self._is_known(name)}
        fed = [name for name in needed if name not in known]
        given = self._given(kept)
        # tf.function has its own way with capitals in the names of what it takes.
        plain = {name: re.sub(r"\W", "_", _own(name)).lower() for name in (*needed, *given)}
        nodes = {self.nodes[at].name for at in kept}
        alike = len(set(plain.values())) < len(plain) or nodes.intersection(plain[name] for name in needed)
        if not fed or not given or alike:
            return None
        signature = Signature(*(tuple(self._spec(name, plain[name]) for name in each) for each in (fed, given)))
        placed = [_constant(plain[name], self.values[name]) for name in needed if name in known]
        graph = self._assembled(kept, [*map(_placeholder, signature.inputs), *placed], plain)
        tensors = {plain[name]: f"{plain[name]}:0" for name in fed} | {plain[name]: _tensor(name) for name in given}
        feeds, expected = ({plain[name]: self.values[name] for name in names} for names in (fed, given))
        return Piece(graph, signature, tensors, feeds, expected, len(kept))

    def behind(self, at: int, most: int) -> list[int]:
        """An operator and those before it that it depends on, nearest first, up to `most` of them."""
        return self._graph.behind(at, most)

    def described(self, at: int) -> tuple[str, str]:
        """An operator as TensorFlow calls it, and for a person, with its scope, which Keras gives each layer."""
        node = self.nodes[at]
        scope, _, name = _own(node.name).rpartition("/")
        return node.op, f"the operator {node.op} ({name}){f', in the scope {scope}' if scope else ''}"

    def _computes(self, node: Any) -> bool:
        return node.op not in ("Const", "Placeholder") and bool(self._operation(node).outputs)

    def _operation(self, node: Any) -> Any:
        return self._whole.get_operation_by_name(node.name)

    def _of_constants(self) -> set[str]:
        """What follows from constants alone, as a variable that was frozen and is read: converters want to know it."""
        found = set(self._constants)
        for node, reads, makes in zip(self.nodes, self._graph.reads, self._graph.makes, strict=True):
            if found.issuperset(reads) and not self._operation(node).op_def.is_stateful:
                found.update(makes)
        return found

    def _is_known(self, name: str) -> bool:
        return name in self._fixed or self._graph.is_sizes(name, self.values[name])

    def _with_makers(self, chosen: Iterable[int]) -> list[int]:
        kept = set(chosen)
        while more := {
            self._graph.made[name]
            for name in self._graph.fed(kept)
            if name in self._graph.made and name not in self.values
        }:
            kept |= more
        return sorted(kept)

    def _given(self, kept: Sequence[int]) -> list[str]:
        """What it gives as far as arrays hold it; where others read nothing but lists, what there is beside them."""
        given = [name for name in self._graph.given(kept) if name in self.values]
        return given or [name for at in kept for name in self._graph.makes[at] if name in self.values][-1:]

    def _spec(self, name: str, plain: str) -> TensorSpec:
        if name in self._declared:
            return replace(self._declared[name], name=plain)
        shape = self._whole.get_tensor_by_name(_tensor(name)).shape
        value = self.values[name]
        return spec_of(plain, value, [None] * value.ndim if shape.rank is None else shape.as_list())

    def _assembled(self, kept: Sequence[int], inputs: Sequence[Any], plain: Mapping[str, str]) -> Any:
        """A GraphDef of the operators, the constants that they read, and what they are fed."""
        import tensorflow as tf

        placed = {node.name for node in inputs}
        nodes = [self.nodes[at] for at in kept]
        read = dict.fromkeys(name for node in nodes for name in _reads(node))
        constants = [self._constants[name] for name in read if name in self._constants]
        graph = tf.compat.v1.GraphDef(versions=self._graph_def.versions)
        graph.node.extend(inputs)
        for node in (*constants, *nodes):
            copy = graph.node.add()
            copy.CopyFrom(node)
            copy.device = ""
            copy.attr.pop("_class", None)  # names others that need not be here
            wanted = [plain[name] if plain.get(name) in placed else name for name in _reads(node)]
            del copy.input[:]
            copy.input.extend(wanted)
        graph.library.function.extend(_functions(graph.node, self._graph_def.library))
        return graph


def _key(tensor: str) -> str:
    """A tensor's name as nodes have it: `a` for `a:0`."""
    return tensor.removesuffix(":0")


def _own(name: str) -> str:
    """A name without the scopes of calls that were written out."""
    *scopes, last = name.split("/")
    return "/".join([*(scope for scope in scopes if not _CALL.fullmatch(scope)), last])


def _tensor(key: str) -> str:
    return key if ":" in key else f"{key}:0"


def _reads(node: Any) -> list[str]:
    return [_key(name) for name in node.input if not name.startswith("^")]


def _imported(graph_def: Any) -> Any:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    return graph


def _check_frames(nodes: Iterable[Any]) -> None:
    for node in nodes:
        if node.op in _OF_FRAMES:
            raise Refused(
                f"the model has control flow of TensorFlow 1 ({node.op}), which cannot be cut into pieces",
                fix="read the log of the step",
            )


def _in_order(nodes: Iterable[Any]) -> list[Any]:
    """Each behind those that it reads."""
    named, found = {node.name: node for node in nodes}, dict[str, Any]()
    for name in named:
        waiting = [name]
        while waiting:
            node = named[waiting[-1]]
            before = [each for each in (read.partition(":")[0] for read in _reads(node)) if each not in found]
            if before:
                waiting += before
            else:
                found[waiting.pop()] = node
    return list(found.values())


def _functions(nodes: Iterable[Any], library: Any) -> Iterator[Any]:
    """Those of a library that nodes run, and that these run themselves."""
    known = {each.signature.name: each for each in library.function}
    waiting = list(nodes)
    while waiting:
        for name in _called(waiting.pop()):
            if function := known.pop(name, None):
                waiting += function.node_def
                yield function


def _called(node: Any) -> Iterator[str]:
    yield node.op
    for attribute in node.attr.values():
        yield from (each.name for each in (attribute.func, *attribute.list.func))


def _placeholder(spec: TensorSpec) -> Any:
    import tensorflow as tf

    node = tf.compat.v1.NodeDef(name=spec.name, op="Placeholder")
    kind = _tf_spec(spec)
    node.attr["dtype"].type = kind.dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(kind.shape.as_proto())
    return node


def _constant(name: str, value: Array) -> Any:
    import tensorflow as tf

    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype
    return node
