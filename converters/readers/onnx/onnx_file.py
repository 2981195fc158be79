"""Check of an .onnx file from an untrusted source, its data files inside its own folder, and its signature."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

from ....models.errors import BadRequest
from ....models.formats import Format
from ....models.library_messages import first_line
from ....models.signature import BATCH, DTYPES, Axis, Signature, TensorSpec
from ...lazy_import import onnx
from ...onnx_graph.graph import graphs_in
from ...onnx_graph.topological_order import sort_nodes
from ...to_onnx.finish_model import declare, save
from ..file_content import whole_file

if TYPE_CHECKING:
    from google.protobuf.message import Message

_EXPORT_AGAIN = "copy it again, or export it again"
_MAX_PARSED_BYTES = 1 << 31  # protobuf's own limit
MOST_NODES = 500_000  # with those of functions at each of their calls
_MOST_DIGITS = 18  # of a place in a file, which is an int64
_LOOPS = ("Loop", "Scan")
_PLACEHOLDER_NAMES = frozenset(("?", "*", "-1", "None", "none", "unk", "unknown", "dynamic"))  # mean any size


def parse_onnx(path: Path) -> onnx.ModelProto:
    """Parse the model in a file, without the data files beside it. Raises BadRequest if it is no ONNX model."""
    from google.protobuf.message import DecodeError

    if path.stat().st_size >= _MAX_PARSED_BYTES:
        raise BadRequest(f"{path} is larger than an ONNX file can be (2 GB)", fix="export it with external data")
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadRequest(f"{path} is no whole ONNX model: it cannot be decoded", fix=_EXPORT_AGAIN) from error
    if not model.ir_version or not model.graph.output:  # protobuf parses much as an empty message
        raise BadRequest(f"{path} is no ONNX model: it holds no graph with outputs", fix=_EXPORT_AGAIN)
    return model


def gather_tables(path: Path) -> set[int]:
    """Return how many rows the tables have that an ONNX file looks numbers up in."""
    graph = parse_onnx(path).graph
    rows = {tensor.name: tensor.dims[0] for tensor in graph.initializer if tensor.dims}
    tables = (node.input[0] for node in _nodes_in(graph.node) if node.op_type == "Gather" and node.input)
    return {rows[name] for name in tables if name in rows}


def check_external(model: onnx.ModelProto, path: Path) -> list[str]:
    """Return the names of the data files that the model refers to, all inside the folder of `path`.

    Checks every tensor anywhere in the model: runtimes follow the names by code of their own. Raises BadRequest if a
    name leads out of the folder (absolute, by `..` or by a link), or the data is missing or too short.
    """
    return list(dict.fromkeys(_check_tensor(tensor, path) for tensor in _external_tensors(model)))


def _external_tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Yield every tensor in a message that keeps its data in another file."""
    if message.DESCRIPTOR.full_name == "onnx.TensorProto":
        if message.external_data:
            yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for inner in value if descriptor.is_repeated else (value,):
            yield from _external_tensors(inner)


def _check_tensor(tensor: onnx.TensorProto, path: Path) -> str:
    entries: dict[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    if not all(isinstance(text, str) for pair in entries.items() for text in pair):  # protobuf gives them as bytes
        raise BadRequest(f"{path} says in no text where its data lie", fix=_EXPORT_AGAIN)
    name = entries.get("location", "")
    problem = f"{path.name} keeps the tensor {tensor.name} in {name!r}"
    if len(entries) != len(tensor.external_data):  # readers differ in which of two they follow
        raise BadRequest(f"{problem}, and says twice where", fix=_EXPORT_AGAIN)
    parts = Path(name).parts
    if not name or Path(name).is_absolute() or ".." in parts or "\\" in name or "\0" in name:
        raise BadRequest(f"{problem}, which leads out of its folder", fix="export it again with its data beside it")
    folder = path.parent.resolve()
    file = folder / name
    if not file.resolve().is_relative_to(folder):
        raise BadRequest(f"{problem}, a link out of its folder", fix="copy the data itself beside the model")
    if not file.is_file():
        raise BadRequest(f"{problem}, which is not there", fix=f"put {name} beside {path.name}")
    start, length = (_byte_count(entries.get(key), problem) for key in ("offset", "length"))
    if start + length > file.stat().st_size:
        raise BadRequest(f"{problem}, which is shorter than that", fix="copy the data again")
    return name


def _byte_count(text: str | None, problem: str) -> int:
    if text is not None and not (text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise BadRequest(f"{problem} at {text!r}, which is no number of bytes", fix=_EXPORT_AGAIN)
    return int(text or 0)


def _nodes_in(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those of the graphs inside of them."""
    pending = [nodes]
    while pending:
        for node in pending.pop():
            yield node
            pending += [body.node for attribute in node.attribute for body in graphs_in(attribute)]


@dataclass
class OnnxFile:
    """A parsed model and its path. `changed`: the model differs from the file."""

    model: onnx.ModelProto
    path: Path
    changed: bool = False
    unnamed: list[str] = field(default_factory=list)  # inputs whose first axis has neither name nor size

    def load_external(self) -> None:
        """Load the data files, after `check_external`. Raises BadRequest if they cannot be read."""
        if any(_external_tensors(self.model)):
            self.changed = True
            with self._onnx_errors("the data of {} cannot be read"):
                onnx.load_external_data_for_model(self.model, str(self.path.parent))

    def check_nodes(self) -> None:
        """Raise BadRequest if the model holds too many nodes, its functions written out, or one that calls itself."""
        functions = {(function.domain, function.name): function for function in self.model.functions}
        called = {
            key: [call for node in _nodes_in(function.node) if (call := (node.domain, node.op_type)) in functions]
            for key, function in functions.items()
        }
        try:
            order = list(TopologicalSorter(called).static_order())
        except CycleError as error:
            raise BadRequest(f"{self.path} holds functions that call themselves", fix=_EXPORT_AGAIN) from error
        sizes: dict[tuple[str, str], int] = {}
        for key in order:
            sizes[key] = sum(sizes.get((node.domain, node.op_type), 1) for node in _nodes_in(functions[key].node))
        total = sum(sizes.get((node.domain, node.op_type), 1) for node in _nodes_in(self.model.graph.node))
        if total > MOST_NODES:
            raise BadRequest(
                f"{self.path} holds {total:,} nodes, and {MOST_NODES:,} are the most that are read",
                fix="export it with its loops as loops",
            )

    def has_loops(self) -> bool:
        """Return whether any graph of the model, or function in it, holds a loop."""
        parts = (self.model.graph.node, *(function.node for function in self.model.functions))
        return any(node.op_type in _LOOPS for part in parts for node in _nodes_in(part))

    def sort(self) -> None:
        """Sort the nodes topologically. Raises BadRequest if they have a cycle."""
        self.changed |= sort_nodes(self.model.graph)

    def refuse_plugins(self) -> None:
        """Raise BadRequest if the graph runs a plugin of TensorRT, by the names that these have."""
        graph, written = self.model.graph, {function.name for function in self.model.functions}
        plugins = [node for node in graph.node if node.op_type.endswith("_TRT") and node.op_type not in written]
        if not plugins:
            return
        computed = {name for node in graph.node if node not in plugins for name in node.output}
        read = [name for name in dict.fromkeys(plugins[0].input) if name in computed]
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [value.name for value in graph.input if value.name not in weights]
        cut = f"onnx.utils.extract_model({self.path.name!r}, 'cut.onnx', {inputs}, {read}, check_model=False)"
        is_last = "NMS" in plugins[0].op_type and read
        raise BadRequest(
            f"{self.path} holds {plugins[0].op_type}, a plugin that TensorRT alone has",
            fix=f"cut the model before it, and choose boxes where it is called: {cut}"
            if is_last
            else "export it without TensorRT's plugins",
        )

    def check(self) -> None:
        """Raise BadRequest if the model breaks ONNX's rules."""
        if self.model.ByteSize() < _MAX_PARSED_BYTES:  # the checker takes no larger one; a runtime will check it
            with self._onnx_errors("{} is no valid ONNX model"):
                onnx.checker.check_model(self.model)

    @contextmanager
    def _onnx_errors(self, problem: str) -> Iterator[None]:
        """Map ONNX's errors about the file to BadRequest."""
        try:
            yield
        except (
            ValueError, TypeError, OSError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError,
        ) as error:  # fmt: skip
            raise BadRequest(f"{problem.format(self.path)}: {first_line(error, 240)}", fix=_EXPORT_AGAIN) from error

    def signature(self, requested: Sequence[TensorSpec]) -> Signature:
        """Return the declared signature. `requested` gives the shape of an input that declares none.

        A nameless axis gets a name; a nameless first axis of an input is the batch. Raises BadRequest if something is
        declared that a signature cannot express.
        """
        graph = self.model.graph
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in weights]
        if not inputs:
            raise BadRequest(f"{self.path} takes no inputs: there is nothing to serve", fix=_EXPORT_AGAIN)
        if len(inputs) != len(graph.input):  # early versions list weights as inputs, too
            self.changed = True
            self.model.ir_version = max(self.model.ir_version, 4)  # before version 4 that is required
            del graph.input[:]
            graph.input.extend(inputs)
        repeated = [name for name, count in Counter(value.name for value in graph.output).items() if count > 1]
        if repeated:
            raise BadRequest(f"{self.path} lists its output {repeated[0]} twice", fix="list each output once")
        repeated = [name for name, count in Counter(value.name for value in graph.input).items() if count > 1]
        if repeated:
            raise BadRequest(f"{self.path} lists its input {repeated[0]} twice", fix="list each input once")
        requested_by_name = {spec.name: spec for spec in requested}
        with whole_file(self.path, "ONNX model", _EXPORT_AGAIN):
            self._refuse_texts()
            self._infer_outputs()
            return Signature(
                tuple(self._spec(value, requested_by_name.get(value.name), batch=BATCH) for value in graph.input),
                tuple(self._spec(value, None) for value in graph.output),
            )

    def declare(self, signature: Signature) -> None:
        """Write the signature's axes into the model, if it declares others."""
        graph = self.model.graph
        pairs = [*zip(graph.input, signature.inputs, strict=True), *zip(graph.output, signature.outputs, strict=True)]
        if all(_shape(value) == spec.shape for value, spec in pairs):
            return
        self.changed = True
        for value, spec in pairs:
            declare(value, spec)
        del graph.value_info[:]  # it has the former names of axes

    def write(self, out: Path) -> None:
        """Write the model to `out`: the file's own bytes if nothing changed."""
        target = out / Format.ONNX.spec.payload
        if self.changed:
            save(self.model, target)
        else:
            shutil.copyfile(self.path, target)

    def _refuse_texts(self) -> None:
        """Raise BadRequest if an output is the text of a class, or a map by classes, as of scikit-learn's exporter."""
        graph = self.model.graph
        of_maps = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "ZipMap"}
        texts = [value.name for value in graph.output if value.type.tensor_type.elem_type == onnx.TensorProto.STRING]
        refused = next((value.name for value in graph.output if value.name in {*texts, *of_maps}), None)
        if refused is None:
            return
        inputs = [value.name for value in graph.input]
        outputs = [of_maps.get(value.name, value.name) for value in graph.output]
        numbers = [name for name in dict.fromkeys(outputs) if name not in texts]
        cut = f"onnx.utils.extract_model({self.path.name!r}, 'numbers.onnx', {inputs}, {numbers}), or "
        raise BadRequest(
            f"{self.path}: the output {refused} is {'text' if refused in texts else 'a map for each sample (ZipMap)'}, "
            "and the formats carry tensors of numbers alone",
            fix=f"{cut if numbers else ''}export with options={{'zipmap': False}} a model fitted on integer classes",
        )

    def _infer_outputs(self) -> None:
        """Declare outputs without a shape, as far as ONNX can infer it."""
        graph = self.model.graph
        if all(value.type.tensor_type.HasField("shape") for value in graph.output):
            return
        with self._onnx_errors("{} is no valid ONNX model"):
            inferred = onnx.shape_inference.infer_shapes(self.model).graph.output
        for value, shaped in zip(graph.output, inferred, strict=True):
            value.CopyFrom(shaped)
        self.changed = True

    def _spec(self, value: onnx.ValueInfoProto, requested: TensorSpec | None, batch: str | None = None) -> TensorSpec:
        value_type = value.type.WhichOneof("value")
        if value_type != "tensor_type":
            raise BadRequest(f"{self.path}: {value.name} is no tensor but a {value_type}", fix="export tensors only")
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
            if dtype not in DTYPES:
                raise ValueError(f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
            shape = _shape(value)
            if shape is None and requested is None:
                of_input = f"name it, as in --input {value.name}={dtype}[batch,3,224,224]"
                of_output = "export it with the shapes of its outputs: ONNX cannot tell this one"
                raise BadRequest(f"{self.path} says no shape of {value.name}", fix=of_input if batch else of_output)
            declared = requested.shape if shape is None and requested is not None else shape or ()
            if batch and declared[:1] == ("",):
                self.unnamed.append(value.name)
            names = (batch if batch and at == 0 else f"{value.name}_{at}" for at in range(len(declared)))
            axes = (name if axis == "" else axis for name, axis in zip(names, declared, strict=True))
            return TensorSpec(value.name, dtype, tuple(axes))
        except (ValueError, KeyError, TypeError) as error:
            raise BadRequest(f"{self.path}: {value.name}: {error}", fix="export numbers or booleans") from error


def _shape(value: onnx.ValueInfoProto) -> tuple[Axis, ...] | None:
    """Return the declared axes, "" for one with neither size nor name; None if the rank is not declared."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else ("" if dim.dim_param in _PLACEHOLDER_NAMES else dim.dim_param)
        for dim in value.type.tensor_type.shape.dim
    )
