"""An .onnx file that nobody vouches for: parsed, its data files held inside its own folder, its signature read."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.errors import BadRequest
from ...models.foreign_errors import first_line
from ...models.formats import PAYLOAD, Format
from ...models.signature import BATCH, DTYPES, Axis, Signature, TensorSpec
from ..onnx_graph.topological_order import sort_nodes
from ..to_onnx.finish_model import declare, save

if TYPE_CHECKING:
    import onnx

_AGAIN = "copy it again, or export it again"
_MOST_PARSED_BYTES = 1 << 31  # protobuf's own limit
_NO_NAMES = frozenset(("?", "*", "-1", "None", "none", "unk", "unknown", "dynamic"))  # what tools write for any size


def parse_onnx(path: Path) -> onnx.ModelProto:
    """The model in a file, without the data files beside it.

    Raises BadRequest where it is no ONNX model.
    """
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # no stubs are installed

    if path.stat().st_size >= _MOST_PARSED_BYTES:
        raise BadRequest(f"{path} is larger than an ONNX file can be (2 GB)", fix="export it with external data")
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadRequest(f"{path} is no whole ONNX model: it cannot be decoded", fix=_AGAIN) from error
    if not model.ir_version or not model.graph.output:  # protobuf takes much for a message with nothing in it
        raise BadRequest(f"{path} is no ONNX model: it holds no graph with outputs", fix=_AGAIN)
    return model


def check_external(model: onnx.ModelProto, path: Path) -> list[str]:
    """The names of the data files that the model refers to, each inside the folder of `path`.

    Every tensor counts, wherever in the model it stands: runtimes follow them by code of their own. Raises BadRequest
    where a name leads out of the folder (absolute, by `..` or by a link), or the data is not there or too short.
    """
    names = dict.fromkeys(_check_tensor(tensor, path) for tensor in _external_tensors(model))
    return list(names)


def _external_tensors(message: Any) -> Iterator[Any]:
    """Every tensor in a message that keeps its data elsewhere."""
    if message.DESCRIPTOR.full_name == "onnx.TensorProto":
        if message.external_data:
            yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        for inner in value if descriptor.is_repeated else (value,):
            yield from _external_tensors(inner)


def _check_tensor(tensor: Any, path: Path) -> str:
    entries: dict[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    name = entries.get("location", "")
    what = f"{path.name} keeps the tensor {tensor.name} in {name!r}"
    parts = Path(name).parts
    if not name or Path(name).is_absolute() or ".." in parts or "\\" in name or "\0" in name:
        raise BadRequest(f"{what}, which leads out of its folder", fix="export it again with its data beside it")
    folder = path.parent.resolve()
    file = folder / name
    if not file.resolve().is_relative_to(folder):
        raise BadRequest(f"{what}, a link out of its folder", fix="copy the data itself beside the model")
    if not file.is_file():
        raise BadRequest(f"{what}, which is not there", fix=f"put {name} beside {path.name}")
    start, length = (_number(entries.get(key), what) for key in ("offset", "length"))
    if start + length > file.stat().st_size:
        raise BadRequest(f"{what}, which is shorter than that", fix="copy the data again")
    return name


def _number(text: str | None, what: str) -> int:
    if text is not None and not text.isdecimal():
        raise BadRequest(f"{what} at {text!r}, which is no number of bytes", fix=_AGAIN)
    return int(text or 0)


@dataclass
class OnnxFile:
    """A parsed model, and where it lies. `changed`: it is not what the file holds any more."""

    model: onnx.ModelProto
    path: Path
    changed: bool = field(default=False)
    unnamed: list[str] = field(default_factory=list)  # inputs whose first axis has neither name nor size

    def load_external(self) -> None:
        """Take the data files in. Only after `check_external`. Raises BadRequest."""
        from onnx.external_data_helper import load_external_data_for_model

        if any(True for _ in _external_tensors(self.model)):
            self.changed = True
            with self._sound("the data of {} cannot be read"):
                load_external_data_for_model(self.model, str(self.path.parent))

    def sort(self) -> None:
        """Put the nodes in ONNX's order. Raises BadRequest where they have none."""
        self.changed |= sort_nodes(self.model.graph)

    def check(self) -> None:
        """Hold the whole against ONNX's rules. Raises BadRequest."""
        import onnx

        if self.model.ByteSize() < _MOST_PARSED_BYTES:  # a larger one cannot be handed over; its runtime finds out
            with self._sound("{} is no valid ONNX model"):
                onnx.checker.check_model(self.model)

    @contextmanager
    def _sound(self, what: str) -> Iterator[None]:
        """What ONNX says of a file, as a BadRequest."""
        import onnx

        try:
            yield
        except (ValueError, OSError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise BadRequest(f"{what.format(self.path)}: {first_line(error, 240)}", fix=_AGAIN) from error

    def signature(self, asked: Sequence[TensorSpec]) -> Signature:
        """Inputs and outputs as the file declares them. `asked` gives the shape of an input that declares none.

        An axis without a name gets one of its own; as the first of an input it is the batch. Raises BadRequest where
        something is declared that a signature cannot say.
        """
        graph = self.model.graph
        own = {each.name for each in graph.initializer}
        inputs = [value for value in graph.input if value.name not in own]
        if not inputs:
            raise BadRequest(f"{self.path} takes no inputs: there is nothing to serve", fix=_AGAIN)
        if len(inputs) != len(graph.input):  # files of the first versions list their weights as inputs, too
            self.changed = True
            self.model.ir_version = max(self.model.ir_version, 4)  # before 4 they have to
            kept = list(inputs)
            del graph.input[:]
            graph.input.extend(kept)
        twice = [name for name, times in Counter(value.name for value in graph.output).items() if times > 1]
        if twice:
            raise BadRequest(f"{self.path} lists its output {twice[0]} twice", fix="list each output once")
        given = {spec.name: spec for spec in asked}
        self._infer_outputs()
        return Signature(
            tuple(self._spec(value, given.get(value.name), first=BATCH) for value in graph.input),
            tuple(self._spec(value, None) for value in graph.output),
        )

    def declare(self, signature: Signature) -> None:
        """Write the signature's axes into the model, where it says something else."""
        graph = self.model.graph
        pairs = [
            *zip(graph.input, signature.inputs, strict=True),
            *zip(graph.output, signature.outputs, strict=True),
        ]
        if all(_shape(value) == spec.shape for value, spec in pairs):
            return
        self.changed = True
        for value, spec in pairs:
            declare(value, spec)
        del graph.value_info[:]  # it speaks of axes by their former names

    def write(self, out: Path) -> None:
        """Put the model into `out`: the file's own bytes where nothing had to change."""
        target = out / PAYLOAD[Format.ONNX]
        if self.changed:
            save(self.model, target)
        else:
            shutil.copyfile(self.path, target)

    def _infer_outputs(self) -> None:
        """Declare outputs that have no shape, as far as ONNX can tell."""
        import onnx

        graph = self.model.graph
        if all(value.type.tensor_type.HasField("shape") for value in graph.output):
            return
        with self._sound("{} is no valid ONNX model"):
            inferred = onnx.shape_inference.infer_shapes(self.model).graph.output
        for value, found in zip(graph.output, inferred, strict=True):
            value.CopyFrom(found)
        self.changed = True

    def _spec(self, value: onnx.ValueInfoProto, given: TensorSpec | None, first: str | None = None) -> TensorSpec:
        import onnx

        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise BadRequest(f"{self.path}: {value.name} is no tensor but a {kind}", fix="export tensors only")
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name
            if dtype not in DTYPES:
                raise ValueError(f"dtype {dtype!r} is none of {', '.join(DTYPES)}")
            shape = _shape(value)
            if shape is None and given is None:
                of_input = f"name it, as in --input {value.name}={dtype}[batch,3,224,224]"
                of_output = "export it with the shapes of its outputs: ONNX cannot tell this one"
                raise BadRequest(f"{self.path} says no shape of {value.name}", fix=of_input if first else of_output)
            declared = given.shape if shape is None and given is not None else shape or ()
            if first and declared[:1] == ("",):
                self.unnamed.append(value.name)
            axes = (_own_name(value.name, at, first) if axis == "" else axis for at, axis in enumerate(declared))
            return TensorSpec(value.name, dtype, tuple(axes))
        except (ValueError, KeyError, TypeError) as error:
            raise BadRequest(f"{self.path}: {value.name}: {error}", fix="export numbers or booleans") from error


def _shape(value: onnx.ValueInfoProto) -> tuple[Axis, ...] | None:
    """The axes as declared, "" where one has neither size nor name; None where not even the rank is declared."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else ("" if dim.dim_param in _NO_NAMES else dim.dim_param)
        for dim in value.type.tensor_type.shape.dim
    )


def _own_name(tensor: str, at: int, first: str | None) -> str:
    return first if first and at == 0 else f"{tensor}_{at}"


__all__ = ["OnnxFile", "check_external", "parse_onnx"]
