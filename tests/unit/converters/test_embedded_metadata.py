"""A text in a model's own file, and what was there before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.embedded_metadata import EXTRA_FILE, KEY, embed
from transload.converters.to_tflite.flatbuffer import model_of, packed
from transload.converters.write_converted import source_provenance, write_converted
from transload.models.artifact import read_artifact, write_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format, Precision, Target
from transload.models.job import Job
from transload.models.provenance import ConversionStep, Provenance
from transload.models.signature import Signature, TensorSpec
from transload.models.sources import CodeRef, Source, public_name, write_source

X = TensorSpec("x", "float32", ("batch", 4))
SIGNATURE = Signature((X,), (TensorSpec("y", "float32", ("batch", 4)),))


def write_doubling(path: Path) -> None:
    """Write an ONNX model that multiplies by two."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    two = numpy_helper.from_array(np.full(4, 2, np.float32), "two")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "two"], ["y"])], "double", [x], [y], [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(model, {"author": "somebody", KEY: "a former text"})
    onnx.save(model, path)


def tflite_metadata(path: Path) -> dict[str, bytes]:
    """Return a TFLite file's metadata, read by the schema."""
    model = model_of(path.read_bytes())
    entries = [model.Metadata(at) for at in range(model.MetadataLength())]
    return {entry.Name().decode(): model.Buffers(entry.Buffer()).DataAsNumpy().tobytes() for entry in entries}


def test_an_onnx_file_holds_the_text_once_beside_what_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write_doubling(path)
    assert embed(path, Format.ONNX, "ä long text: " + "x" * 300)
    model = onnx.load(path)
    onnx.checker.check_model(model)
    assert [(entry.key, entry.value) for entry in model.metadata_props] == [
        ("author", "somebody"),
        (KEY, "ä long text: " + "x" * 300),
    ]
    assert len(model.graph.node) == len(model.graph.initializer) == 1
    assert list(tmp_path.iterdir()) == [path]


def write_identity(path: Path, *, metadata: dict[str, bytes] | None = None) -> np.ndarray:
    """Write a TFLite file that adds weights to its input; return the weights."""
    from ai_edge_litert import schema_py_generated as schema

    weights = np.arange(4, dtype=np.float32)
    model = schema.ModelT()
    model.version, model.description, model.metadata = 3, b"made by a test", []
    model.buffers = [schema.BufferT() for _ in range(2)]
    model.buffers[1].data = weights.view(np.uint8)
    for key, content in (metadata or {}).items():
        entry, buffer = schema.MetadataT(), schema.BufferT()
        entry.name, entry.buffer, buffer.data = key, len(model.buffers), np.frombuffer(content, np.uint8)
        model.metadata.append(entry)
        model.buffers.append(buffer)
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.ADD
    model.operatorCodes = [code]
    graph = schema.SubGraphT()
    graph.tensors = []
    for name, buffer in ((b"x", 0), (b"weights", 1), (b"y", 0)):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, [4], schema.TensorType.FLOAT32, buffer
        graph.tensors.append(tensor)
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0, 1], [2]
    operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.AddOptions, schema.AddOptionsT()
    graph.inputs, graph.outputs, graph.operators = [0], [2], [operator]
    model.subgraphs = [graph]
    path.write_bytes(packed(model))
    return weights


@pytest.mark.parametrize("former", [{}, {"min_runtime_version": b"1.5.0"}, {KEY: b"former", "other": b"1"}])
def test_a_tflite_file_with_the_text_runs_as_before(former: dict[str, bytes], tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    path = tmp_path / "model.tflite"
    weights = write_identity(path, metadata=former)
    assert embed(path, Format.TFLITE, "the text")
    assert tflite_metadata(path) == {**former, KEY: b"the text"}
    model = model_of(path.read_bytes())
    assert (model.Version(), model.Description()) == (3, b"made by a test")
    interpreter = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones(4, np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(2).tolist() == (1 + weights).tolist()
    assert list(tmp_path.iterdir()) == [path]


def test_weights_stay_where_a_processor_can_load_them(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    weights = write_identity(path)
    before = path.read_bytes().index(weights.tobytes())
    embed(path, Format.TFLITE, "x" * 1001)
    assert (path.read_bytes().index(weights.tobytes()) - before) % 64 == 0


def test_a_saved_model_has_the_text_in_its_extra_assets(tmp_path: Path) -> None:
    assert embed(tmp_path, Format.SAVED_MODEL, "the text")
    assert (tmp_path / EXTRA_FILE).read_text() == "the text"


def test_other_formats_hold_no_text(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK")
    assert not embed(tmp_path / "model.pt", Format.TORCHSCRIPT, "the text")
    assert (tmp_path / "model.pt").read_bytes() == b"PK"


def test_a_step_adds_itself_to_what_is_known(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    known = Provenance(model="net.py:Net", sha256="0" * 64, transload="0.0.9", steps=(ConversionStep(target="pt2"),))
    (source / Format.PT2.spec.payload).touch()
    write_artifact(source, Target(Format.PT2), SIGNATURE, provenance=known)
    write_doubling(out / Format.ONNX.spec.payload)
    toolchain = {"onnx": "1.2", "interpreter": "/home/somebody/bin/python"}
    target = Target(Format.ONNX, Precision.FP16)
    write_converted(Job({"source": source}, out, toolchain=toolchain), target, SIGNATURE)
    recorded = read_artifact(out).provenance
    assert recorded is not None
    assert recorded.steps == (
        ConversionStep(target="pt2"),
        ConversionStep(target="onnx:fp16", made_with={"onnx": "1.2"}),
    )
    props = {entry.key: entry.value for entry in onnx.load(out / Format.ONNX.spec.payload).metadata_props}
    assert json.loads(props[KEY]) == {"target": "onnx:fp16", "signature": SIGNATURE.to_json(), **recorded.to_json()}


def test_nothing_is_made_up_where_nothing_is_known(tmp_path: Path) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    for folder in (source, out):
        folder.mkdir()
        (folder / Format.PT2.spec.payload).touch()
    write_artifact(source, Target(Format.PT2), SIGNATURE)
    assert write_converted(Job({"source": source}, out), Target(Format.PT2), SIGNATURE).provenance is None


def test_a_source_names_its_code_and_no_folder_of_somebody(tmp_path: Path) -> None:
    write_source(tmp_path, Source(CodeRef("/home/somebody/net.py:Net"), SIGNATURE, "1" * 64))
    assert source_provenance(tmp_path) == Provenance(model="net.py:Net", sha256="1" * 64)
    assert public_name(CodeRef("hf:/home/somebody/bert")) == "hf:bert"
    assert public_name(CodeRef("models/net.py:Net")) == "models/net.py:Net"
    assert public_name(CodeRef("zoo:digits-cnn")) == "zoo:digits-cnn"


@pytest.mark.parametrize("known", [{"model": 3, "sha256": ""}, {"model": "a\n# b", "sha256": ""}, [], {"model": "a"}])
def test_a_record_with_other_provenance_is_refused(known: object, tmp_path: Path) -> None:
    (tmp_path / Format.PT2.spec.payload).touch()
    write_artifact(tmp_path, Target(Format.PT2), SIGNATURE)
    record = json.loads((tmp_path / "artifact.json").read_text())
    (tmp_path / "artifact.json").write_text(json.dumps({**record, "provenance": known}))
    with pytest.raises(BadRequest):
        read_artifact(tmp_path)
