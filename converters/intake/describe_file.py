"""What a model's file says of itself, read in a worker by the checks of the intake. Nothing of it is run.

Operators of ONNX, TFLite and SavedModels that may do more than compute are told and not refused: their files are parsed
and not loaded. Torch and Keras load theirs, so what take_in.py refuses of those is refused here.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...models.errors import BadRequest, TransloadError
from ...models.formats import Format
from ...models.job import Job
from ...models.keras_model import signature_of_keras
from ...models.probes.samples import check_file
from ...models.signature import Signature
from ..conversion_records import StoredWeights
from ..embedded_metadata import EXTRA_FILE, KEY
from ..lazy_import import onnx, tflite
from ..to_pytorch.pt2_signature import describe_program
from ..to_tflite.flatbuffer import count_operators, inputs_and_outputs, model_of
from .file_content import check_content, refuse_links, whole_file
from .intake_records import FileDescription, FileOptions
from .keras_file import check_keras, load_checked_keras
from .onnx_file import OnnxFile, parse_onnx
from .pt2_file import check_pt2, load_pt2
from .saved_model_folder import read_saved_model, signature_of_saved_model
from .torchscript_file import check_torchscript, load_torchscript

_MOST_TEXT = 10_000  # letters of one text
_MOST_OPERATORS = 100
_MAGIC, _MAGIC_AT = b"TFL3", 4
_COPY_AGAIN = "copy it again, or convert it again"


def describe_file(job: Job) -> Mapping[str, Any]:
    """Describe a model's file or folder: FileOptions -> FileDescription.

    Raises BadRequest if it is not whole, or reading it would run code.
    """
    options = FileOptions.from_json(job.options)
    path, form = Path(options.path), Format(options.format)
    if path.is_dir():
        refuse_links(path, "SavedModel")
    else:
        check_file(path, options.sha256)
        check_content(path, form)
    return _READERS[form](path).to_json()


def _describe_onnx(path: Path) -> FileDescription:
    model = parse_onnx(path)
    file = OnnxFile(model, path)
    file.check_nodes()
    with whole_file(path, "ONNX model", _COPY_AGAIN):
        graph = model.graph
        weights = {tensor.name for tensor in graph.initializer}
        tensors = [(_onnx_dtype(tensor.data_type), math.prod(tensor.dims)) for tensor in graph.initializer]
        return FileDescription(
            producer=_plain(f"{model.producer_name} {model.producer_version}"),
            versions=(
                f"IR {model.ir_version}",
                *(_plain(f"opset {entry.version}{f' of {entry.domain}' if entry.domain else ''}")
                  for entry in model.opset_import),
            ),
            inputs=tuple(_onnx_value(value) for value in graph.input if value.name not in weights),
            outputs=tuple(map(_onnx_value, graph.output)),
            operators=_counted(node.op_type for node in graph.node),
            weights=_summed(tensors),
            metadata={_plain(entry.key): _plain(entry.value) for entry in model.metadata_props},
        )  # fmt: skip


def _onnx_dtype(number: int) -> str:
    name: str = onnx.TensorProto.DataType.Name(number).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def _onnx_value(value: onnx.ValueInfoProto) -> str:
    if value.type.WhichOneof("value") != "tensor_type":
        return _plain(f"{value.name}={value.type.WhichOneof('value')}")
    tensor = value.type.tensor_type
    axes = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim
    ]  # fmt: skip
    shape = f"[{','.join(axes)}]" if tensor.HasField("shape") else "[of any rank]"
    return _plain(f"{value.name}={_onnx_dtype(tensor.elem_type)}{shape}")


def _describe_tflite(path: Path) -> FileDescription:
    from ai_edge_litert.interpreter import Interpreter

    with path.open("rb") as opened:
        head = opened.read(_MAGIC_AT + len(_MAGIC))
    if head[_MAGIC_AT:] != _MAGIC:
        raise BadRequest(f"{path} is no TFLite file", fix=_COPY_AGAIN)
    with whole_file(path, "TFLite file", _COPY_AGAIN):
        Interpreter(model_path=str(path), num_threads=1)  # verifies the file, and runs nothing
        model = model_of(np.memmap(path, mode="r"))
        graph = model.Subgraphs(0)
        names = {number: name.lower() for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}
        inputs, outputs = inputs_and_outputs(model)

        def text(name: str, index: int) -> str:
            tensor = graph.Tensors(index)
            signature, sizes = tensor.ShapeSignatureAsNumpy(), tensor.ShapeAsNumpy()
            sizes = signature if tensor.ShapeSignatureLength() else sizes if tensor.ShapeLength() else ()
            axes = ",".join("?" if size < 0 else str(size) for size in sizes)
            return _plain(f"{name}={names[tensor.Type()]}[{axes}]")

        return FileDescription(
            producer=_plain((model.Description() or b"").decode(errors="replace")),
            versions=(f"schema {model.Version()}",),
            inputs=tuple(text(tensor.name, tensor.index) for tensor in inputs),
            outputs=tuple(text(tensor.name, tensor.index) for tensor in outputs),
            operators=_most(count_operators(path)),
            weights=_tflite_weights(model, names),
            metadata=_tflite_metadata(model),
        )


def _tflite_weights(model: tflite.Model, names: Mapping[int, str]) -> tuple[StoredWeights, ...]:
    held: dict[int, tuple[str, int]] = {}  # by the buffer: several tensors may share one
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for tensor in map(graph.Tensors, range(graph.TensorsLength())):
            buffer = model.Buffers(tensor.Buffer())
            if count := buffer.DataLength() or buffer.Size():
                held[tensor.Buffer()] = (names[tensor.Type()], int(count))
    return _summed_bytes(held.values())


def _tflite_metadata(model: tflite.Model) -> dict[str, str]:
    metadata = {}
    for entry in map(model.Metadata, range(model.MetadataLength())):
        content = model.Buffers(entry.Buffer()).DataAsNumpy()
        data = content.tobytes() if isinstance(content, np.ndarray) else b""
        metadata[_plain((entry.Name() or b"").decode(errors="replace"))] = _text_of(data)
    return metadata


def _text_of(data: bytes) -> str:
    """Return bytes as a text, or how many they are where they are none."""
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        text = "\0"
    return _plain(text) if text.isprintable() else f"{len(data)} bytes"


def _describe_saved_model(path: Path) -> FileDescription:
    graph = read_saved_model(path, trust=True)
    with whole_file(path, "SavedModel", _COPY_AGAIN):
        nodes = [*graph.graph_def.node, *(node for part in graph.graph_def.library.function for node in part.node_def)]
        count = sum(node.op in (b"VarHandleOp", b"VariableV2", b"Variable") for node in graph.graph_def.node)
        size = sum(file.stat().st_size for file in (path / "variables").glob("variables.data-*"))
        signature, note = _signature(lambda: signature_of_saved_model(graph, path))
        version = bytes(graph.meta_info_def.tensorflow_version).decode(errors="replace")
        names = ", ".join(sorted(graph.signature_def))
        tags = b", ".join(graph.meta_info_def.tags).decode(errors="replace")
        return FileDescription(
            producer=_plain(f"TensorFlow {version}" if version else ""),
            versions=(_plain(f"tags {tags}"), _plain(f"signatures {names}")),
            inputs=_texts(signature, "inputs"),
            outputs=_texts(signature, "outputs"),
            operators=_counted(node.op.decode(errors="replace") for node in nodes),
            weights=(StoredWeights(dtype="variables", tensors=count, bytes=size),) if count else (),
            metadata=_extra_text(path / EXTRA_FILE),
            notes=note,
        )


def _extra_text(file: Path) -> dict[str, str]:
    if not file.is_file() or file.stat().st_size > _MOST_TEXT:
        return {}
    return {KEY: _text_of(file.read_bytes())}


def _describe_pt2(path: Path) -> FileDescription:
    check_pt2(path)
    program = load_pt2(path)
    signature, note = _signature(lambda: describe_program(program, path)[0])
    constants = (value for value in program.constants.values() if hasattr(value, "dtype"))
    tensors = [*program.state_dict.values(), *constants]
    calls = (str(node.target) for node in program.graph.nodes if node.op == "call_function")
    with zipfile.ZipFile(path) as archive:
        return FileDescription(
            producer="PyTorch",
            versions=tuple(_archive_versions(archive)),
            inputs=_texts(signature, "inputs"),
            outputs=_texts(signature, "outputs"),
            operators=_counted(calls),
            weights=_torch_weights(tensors),
            metadata=_archive_texts(archive),
            notes=note,
        )


def _describe_torchscript(path: Path) -> FileDescription:
    check_torchscript(path)
    module = load_torchscript(path)
    forward: Any = getattr(module, "forward", None)
    arguments = forward.schema.arguments[1:] if forward is not None else ()
    graph: Any = getattr(module, "inlined_graph", None) if forward is not None else None
    tensors = [*module.parameters(), *module.buffers()]
    with zipfile.ZipFile(path) as archive:
        frozen = [entry for entry in archive.infolist() if "/constants/" in entry.filename]
        size = sum(entry.file_size for entry in frozen)
        constants = (StoredWeights(dtype="constants", tensors=len(frozen), bytes=size),) if frozen else ()
        return FileDescription(
            producer="PyTorch",
            versions=tuple(_archive_versions(archive)),
            inputs=tuple(_plain(f"{argument.name}: {argument.type}") for argument in arguments),
            outputs=tuple(_plain(str(value.type)) for value in (forward.schema.returns if forward is not None else ())),
            operators=_counted(node.kind() for node in graph.nodes()) if graph is not None else {},
            weights=(*_torch_weights(tensors), *constants),
            metadata=_archive_texts(archive),
            notes=("TorchScript declares no dtypes and no shapes",),
        )


def _torch_weights(tensors: Iterable[Any]) -> tuple[StoredWeights, ...]:
    rows = ((str(tensor.dtype).removeprefix("torch."), tensor.numel() * tensor.element_size()) for tensor in tensors)
    return _summed_bytes(rows)


def _archive_versions(archive: zipfile.ZipFile) -> Iterable[str]:
    """Yield the versions in a zip of torch: of the archive, and of its operators."""
    for name in ("archive_version", "version", ".data/version"):
        for entry in archive.infolist():
            if entry.filename.partition("/")[2] == name and entry.file_size < _MOST_TEXT:
                yield f"{name.removeprefix('.data/').replace('_', ' ')} {_text_of(archive.read(entry).strip())}"


def _archive_texts(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the extra files of a zip of torch."""
    extra = [entry for entry in archive.infolist() if entry.filename.partition("/")[2].startswith("extra/")]
    return {
        _plain(entry.filename.partition("/extra/")[2]): _text_of(archive.read(entry))
        for entry in extra
        if entry.file_size <= _MOST_TEXT
    }


def _describe_keras(path: Path) -> FileDescription:
    check_keras(path)
    model = load_checked_keras(path)
    signature, note = _signature(lambda: signature_of_keras(model, path))
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("metadata.json"))
    saved = document if isinstance(document, dict) else {}
    tensors = [(str(weight.dtype), math.prod(weight.shape)) for weight in model.weights]
    return FileDescription(
        producer=_plain(f"Keras {saved.get('keras_version', '')}"),
        inputs=_texts(signature, "inputs"),
        outputs=_texts(signature, "outputs"),
        operators=_counted(type(layer).__name__ for layer in model.layers),
        weights=_summed(tensors),
        metadata={"saved on": _plain(str(saved["date_saved"]))} if "date_saved" in saved else {},
        notes=note,
    )


_READERS: Mapping[Format, Callable[[Path], FileDescription]] = {
    Format.ONNX: _describe_onnx, Format.TFLITE: _describe_tflite, Format.SAVED_MODEL: _describe_saved_model,
    Format.PT2: _describe_pt2, Format.TORCHSCRIPT: _describe_torchscript, Format.KERAS: _describe_keras,
}  # fmt: skip


def _signature(read: Callable[[], Signature]) -> tuple[Signature | None, tuple[str, ...]]:
    """Return a signature, or why there is none that can be told."""
    try:
        return read(), ()
    except TransloadError as error:
        return None, (_plain(error.what),)


def _texts(signature: Signature | None, side: str) -> tuple[str, ...]:
    """Return the inputs or the outputs of a signature, none where it is not known."""
    return () if signature is None else tuple(map(str, getattr(signature, side)))


def _counted(names: Iterable[str]) -> dict[str, int]:
    return _most(Counter(names))


def _most(counts: Counter[str]) -> dict[str, int]:
    return {_plain(name): count for name, count in counts.most_common(_MOST_OPERATORS)}


def _summed(tensors: Iterable[tuple[str, int]]) -> tuple[StoredWeights, ...]:
    """Sum up tensors that are a dtype and a number of elements."""
    bits = {"int4": 4, "uint4": 4, "bfloat16": 16, "bool": 8}
    rows = []
    for dtype, elements in tensors:
        digits = "".join(letter for letter in dtype if letter.isdigit())
        width = bits.get(dtype) or (8 if dtype.startswith("float8") else int(digits or 0))
        rows.append((dtype, math.ceil(elements * width / 8)))
    return _summed_bytes(rows)


def _summed_bytes(tensors: Iterable[tuple[str, int]]) -> tuple[StoredWeights, ...]:
    sizes: dict[str, list[int]] = {}
    for dtype, count in tensors:
        sizes.setdefault(dtype, []).append(count)
    rows = [StoredWeights(dtype=dtype, tensors=len(counts), bytes=sum(counts)) for dtype, counts in sizes.items()]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.dtype)))


def _plain(text: str) -> str:
    """Return a text of the file without what cannot be printed."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_TEXT]).strip()
