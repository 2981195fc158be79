"""TensorFlow's operators in a TFLite file: by option alone, named in the record, held against what may be trusted."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from transload.converters.readers.artifact_import import read_checked
from transload.converters.to_saved_model.saved_model_from_onnx import saved_model_from_onnx
from transload.converters.to_tflite import tflite_from_onnx as tflite
from transload.models.artifact import RECORD, read_artifact, write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import BadRequest, Refused, ToolMissing
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, parse_input
from transload.pipeline.workers.interpreters import lacking
from transload.serving.runtimes.runtime_table import RUNTIMES
from transload.serving.runtimes.tflite_session import open_flex_session, open_session

Entry = Callable[[Job], Mapping[str, Any]]
NODE = helper.make_node
DOUBLE = [
    NODE("Cast", ["x"], ["d"], to=onnx.TensorProto.DOUBLE), NODE("MatMul", ["d", "w"], ["h"]),
    NODE("Mul", ["h", "h"], ["m"]), NODE("Cast", ["m"], ["y"], to=onnx.TensorProto.FLOAT),
]  # fmt: skip
ROWS = Signature((parse_input("x=float32[batch,3]"),), (parse_input("y=float32[batch,5]"),))
MEND = "serve this model as SavedModel or ONNX"


def written(folder: Path, nodes: list[onnx.NodeProto], signature: Signature, **constants: Any) -> Path:
    """An ONNX artifact."""
    folder.mkdir()
    inputs, outputs = (
        [
            helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype)), spec.shape)
            for spec in specs
        ]
        for specs in (signature.inputs, signature.outputs)
    )
    kept = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, kept)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), folder / "model.onnx"
    )
    write_artifact(folder, Target(Format.ONNX), signature)
    return folder


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that computes in float64, for which TFLite has few kernels."""
    folder = tmp_path_factory.mktemp("double") / "onnx"
    return written(folder, DOUBLE, ROWS, w=np.linspace(-1, 1, 15).reshape(3, 5))


@pytest.fixture(scope="module")
def flexed(double: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its artifact with TensorFlow's operators."""
    folder = tmp_path_factory.mktemp("flexed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("cwd"))  # a worker's own folder: it lowers into it
        tflite.tflite_fp32(Job({"source": double}, folder, {"flex": True}))
    return folder


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    monkeypatch.chdir(tmp_path)

    def do(entry: Entry, source: Path, **options: Any) -> Mapping[str, Any]:
        (tmp_path / "out").mkdir()
        return entry(Job({"source": source, "data": tmp_path}, tmp_path / "out", options))

    return do


def test_without_the_option_the_operators_are_refused_and_the_option_is_named(step: Any, double: Path) -> None:
    with pytest.raises(Refused) as caught:
        step(tflite.tflite_fp32, double)
    assert (
        caught.value.what == "TFLite has no kernel for MatMul of float64 (MatMul node h), Mul of float64 (Mul node m)"
    )
    assert caught.value.fix == (
        f"{MEND}, or convert it with --flex (its runtime then needs TensorFlow's Flex delegate)"
    )


def test_full_int8_does_not_name_an_option_that_it_has_not(step: Any, double: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path / "calibration.npz", Dataset({"x": np.ones((2, 3), np.float32)}))
    with pytest.raises(Refused) as caught:
        step(tflite.tflite_int8, double)
    assert caught.value.fix == MEND


@pytest.mark.parametrize("entry", [tflite.tflite_fp32, tflite.tflite_fp16, tflite.tflite_int8_dynamic])
def test_with_it_the_facts_and_the_record_name_them(entry: Entry, step: Any, double: Path, tmp_path: Path) -> None:
    assert step(entry, double, flex=True)["flex"] == ["FlexMatMul", "FlexMul"]
    assert json.loads((tmp_path / "out" / RECORD).read_text())["flex"] == ["FlexMatMul", "FlexMul"]
    assert read_artifact(tmp_path / "out").flex == ("FlexMatMul", "FlexMul")


def test_what_tflite_has_kernels_for_stays_its_own(step: Any, tmp_path: Path) -> None:
    """Erf has none; the lowering writes it in others, with the option too."""
    same = Signature(ROWS.inputs, (parse_input("y=float32[batch,3]"),))
    assert (
        step(tflite.tflite_fp32, written(tmp_path / "erf", [NODE("Erf", ["x"], ["y"])], same), flex=True)["flex"] == []
    )
    assert "flex" not in json.loads((tmp_path / "out" / RECORD).read_text())


def test_loops_of_a_saved_model_of_unknown_length_keep_their_lists(step: Any, tmp_path: Path) -> None:
    signature = Signature((parse_input("x=float32[time,batch,5]"),), (parse_input("y=float32[time,1,batch,2]"),))
    weights = np.random.default_rng(1).standard_normal((1, 6, 7)).astype(np.float32)
    nodes = [NODE("GRU", ["x", "w", "r"], ["y"], hidden_size=2)]
    source = written(tmp_path / "gru", nodes, signature, w=weights[..., :5], r=weights[..., 5:])
    (tmp_path / "saved").mkdir()
    saved_model_from_onnx(Job({"source": source}, tmp_path / "saved"))
    found = step(tflite.tflite_fp32, tmp_path / "saved", flex=True)["flex"]
    assert found == ["FlexTensorListReserve", "FlexTensorListSetItem", "FlexTensorListStack"]


def test_litert_says_that_it_has_none(flexed: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        open_session(flexed, "cpu", 1)
    path = flexed / "model.tflite"
    assert caught.value.what == (
        f"LiteRT comes without TensorFlow's Flex delegate, which {path} needs for FlexMatMul, FlexMul"
    )
    assert caught.value.fix == "open it in tflite-flex, or take the model as SavedModel or ONNX"


def test_a_tensorflow_without_it_says_so_and_one_with_it_answers(flexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says which of them have it; a TensorFlow that it is wrong about fails here."""
    import tensorflow as tf

    monkeypatch.delenv("TRANSLOAD_PYTHON_FLEX", raising=False)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    if lacking(RUNTIMES["tflite-flex"]) is None:
        got = open_flex_session(flexed, "cpu", 1).run({"x": x})["y"]
        np.testing.assert_allclose(got, np.square(x @ np.linspace(-1, 1, 15).reshape(3, 5)), rtol=1e-6)
        return
    with pytest.raises(ToolMissing) as caught:
        open_flex_session(flexed, "cpu", 1)
    assert caught.value.what == (
        f"TensorFlow {tf.__version__} comes without the Flex delegate, which {flexed / 'model.tflite'} needs for "
        "FlexMatMul, FlexMul"
    )
    assert caught.value.fix == ("name a Python that has TensorFlow 2.18 in TRANSLOAD_PYTHON_FLEX (docs/design/flex.md)")


# What the delegate runs is not the operator's name but what its options say, twice: a name and a NodeDef.
SAID = b"\x12\x03Mul"  # the NodeDef's operator
DISGUISES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "in the NodeDef": (lambda flat: flat.replace(SAID, b"\x12\x03Sly"), "FlexMul, which runs Sly, which may do more"),
    "in the name": (
        lambda flat: re.sub(rb"\x03Mul\x00(?=.\x12\x03Mul)", b"\x03Sly\x00", flat), "FlexMul, which runs Sly, which may"
    ),
    "in the label": (lambda flat: flat.replace(b"FlexMul", b"FlexSly"), "FlexSly, which may do more than compute"),
    "nowhere": (lambda flat: flat.replace(SAID, b"\xff\xff\xff\xff\xff"), "has options of FlexMul that cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("where", DISGUISES)
def test_an_operator_that_is_not_on_the_list_is_refused_wherever_it_is_named(
    where: str, flexed: Path, tmp_path: Path
) -> None:
    harm, words = DISGUISES[where]
    folder = tmp_path / "given"
    shutil.copytree(flexed, folder)
    flat = (folder / "model.tflite").read_bytes()
    (folder / "model.tflite").write_bytes(harm(flat))
    assert harm(flat) != flat, "the file is as it was"
    with pytest.raises(BadRequest, match=words) as caught:
        read_checked(folder)
    assert caught.value.fix == "where you trust whoever made it, give --trust"


def test_a_file_that_reads_files_is_refused_but_for_trust(tmp_path: Path) -> None:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def serve(x: Any) -> dict[str, Any]:
        text = tf.raw_ops.ReadFile(filename="/etc/hostname")
        return {"y": x + tf.cast(tf.raw_ops.StringLength(input=text), tf.float32)}

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(tmp_path / "saved_model"), signatures={"serving_default": serve})
    same = Signature(ROWS.inputs, (parse_input("y=float32[batch,3]"),))
    write_artifact(tmp_path, Target(Format.SAVED_MODEL), same)
    (tmp_path / "out").mkdir()
    tflite.tflite_fp32(Job({"source": tmp_path}, tmp_path / "out", {"flex": True}))
    with pytest.raises(BadRequest, match="holds the operator FlexReadFile, which reads files"):
        read_checked(tmp_path / "out")
    assert "FlexReadFile" in read_checked(tmp_path / "out", trust=True).flex


@pytest.mark.parametrize(("said", "words"), [([], "none"), (["FlexMul"], "FlexMul")])
def test_a_record_that_says_other_operators_is_refused(
    said: list[str], words: str, flexed: Path, tmp_path: Path
) -> None:
    """It decides which interpreter opens the file."""
    folder = tmp_path / "given"
    shutil.copytree(flexed, folder)
    (folder / RECORD).write_text(json.dumps({**json.loads((folder / RECORD).read_text()), "flex": said}))
    with pytest.raises(BadRequest) as caught:
        read_checked(folder)
    assert caught.value.what == (
        f"{folder / 'model.tflite'} needs TensorFlow's Flex delegate for FlexMatMul, FlexMul, its record says {words}"
    )
