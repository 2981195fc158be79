"""What files say of themselves, in their own words, and what is not read."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from transload.converters.conversion_records import StoredWeights
from transload.converters.readers.describe_file import describe_file
from transload.converters.readers.reader_records import FileDescription, FileOptions
from transload.models.errors import BadRequest
from transload.models.formats import Format
from transload.models.job import Job
from transload.models.store import digest_of


def describe(path: Path, form: Format) -> FileDescription:
    options = FileOptions(path=str(path), sha256=digest_of(path), format=form)
    return FileDescription.from_json(describe_file(Job({}, path.parent, options.to_json())))


def test_an_onnx_file_with_what_no_signature_has(tmp_path: Path) -> None:
    """Text inputs, operators of others and inputs without a shape are told, though `convert` refuses them."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", None, 3])
    text = helper.make_tensor_value_info("text", TensorProto.STRING, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, [])
    weights = [numpy_helper.from_array(np.zeros((2, 3), dtype), str(dtype)) for dtype in (np.float32, np.int8)]
    names = ["x", "text", *(tensor.name for tensor in weights)]
    node = helper.make_node("Anything", names, ["y"], domain="com.example")
    graph = helper.make_graph([node, node], "odd", [x, text], [y], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 2)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    model.producer_name, model.producer_version = "some\none", "3"
    helper.set_model_props(model, {"author": "A. N.\x07Other"})
    onnx.save(model, tmp_path / "odd.onnx")
    assert describe(tmp_path / "odd.onnx", Format.ONNX) == FileDescription(
        producer="some one 3",
        versions=("IR 9", "opset 18", "opset 2 of com.example"),
        inputs=("x=float32[batch,?,3]", "text=string[of any rank]"),
        outputs=("y=float16[]",),
        operators={"Anything": 2},
        weights=(StoredWeights(dtype="float32", tensors=1, bytes=24), StoredWeights(dtype="int8", tensors=1, bytes=6)),
        metadata={"author": "A. N. Other"},
    )


def test_a_torchscript_file_names_its_arguments(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole
        module = torch.jit.script(torch.nn.Linear(3, 2))
        torch.jit.save(module, str(tmp_path / "m.pt"), _extra_files={"note.txt": "from a friend"})
    description = describe(tmp_path / "m.pt", Format.TORCHSCRIPT)
    assert description.inputs == ("input: Tensor",)
    assert description.weights == (StoredWeights(dtype="float32", tensors=2, bytes=32),)
    assert description.metadata == {"note.txt": "from a friend"}


@pytest.mark.parametrize("form", [Format.ONNX, Format.TFLITE, Format.TORCHSCRIPT, Format.PT2, Format.KERAS])
@pytest.mark.parametrize("content", [b"x", b"\x00\x00\x00\x10TFL3" + bytes(30), b"PK\x03\x04 and no more"])
def test_a_file_that_is_none_is_refused_in_a_sentence(form: Format, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BadRequest):
        describe(tmp_path / "file", form)
