"""The folder of a model in MLflow: flavours, signature, example, and what runs it without transload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import Artifact, write_artifact
from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.extras.tracking.golden_answers import GoldenAnswers
from transload.pipeline.extras.tracking.model_folder import ModelIdentity, why_not_logged, write_model_folder

yaml = pytest.importorskip("yaml", reason="PyYAML, which mlflow brings, is not installed")
SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 2)),), (TensorSpec("y", "int64", ("batch",)),))
GOLDEN = GoldenAnswers(
    {"x": np.zeros((3, 2), "float32")}, {"y": np.arange(3)}, {"x": np.array([[0.5, 1.0]], "float32")}
)
IDENTITY = ModelIdentity(model_id="m-1", run_id="r", mlflow="3.17.2")
FLAVORS = {
    Format.ONNX: ("onnx", "mlflow.onnx"),
    Format.SAVED_MODEL: ("tensorflow", "mlflow_artifact"),
    Format.TFLITE: (None, "mlflow_artifact"),
    Format.TORCHSCRIPT: ("pytorch", "mlflow_artifact"),
    Format.PT2: ("pytorch", "mlflow_artifact"),
}


def artifact(folder: Path, form: Format, flex: tuple[str, ...] = ()) -> Artifact:
    folder.mkdir()
    (folder / form.spec.payload).write_text("payload")
    (folder / "SHA256SUMS").write_text("")
    return write_artifact(folder, Target(form), SIGNATURE, flex)


def written(tmp_path: Path, form: Format) -> tuple[Path, dict[str, Any]]:
    out = tmp_path / "model"
    requirements = ["numpy==2"]
    write_model_folder(out, artifact(tmp_path / "a", form), IDENTITY, golden=GOLDEN, requirements=requirements)
    return out, yaml.safe_load((out / "MLmodel").read_text())


@pytest.mark.parametrize("form", FLAVORS)
def test_each_format_has_its_flavour_and_a_loader(form: Format, tmp_path: Path) -> None:
    out, document = written(tmp_path, form)
    own, loader = FLAVORS[form]
    assert [*document["flavors"]] == [*([own] if own else []), "python_function"]
    assert document["flavors"]["python_function"]["loader_module"] == loader
    assert (out / "code" / f"{loader}.py").is_file() == (form is not Format.ONNX)
    assert (out / "requirements.txt").read_text() == "mlflow==3.17.2\nnumpy==2\n"
    assert not (out / "SHA256SUMS").exists()


def test_signature_and_example_are_those_of_the_artifact(tmp_path: Path) -> None:
    out, document = written(tmp_path, Format.ONNX)
    assert json.loads(document["signature"]["inputs"]) == [
        {"type": "tensor", "name": "x", "tensor-spec": {"dtype": "float32", "shape": [-1, 2]}}
    ]
    assert json.loads((out / "input_example.json").read_text()) == {"x": [[0.5, 1.0]]}
    with np.load(out / "golden.npz") as arrays:
        np.testing.assert_array_equal(arrays["input_0"], GOLDEN.inputs["x"])
        np.testing.assert_array_equal(arrays["output_0"], GOLDEN.outputs["y"])


def test_torchscript_has_the_name_that_mlflow_looks_for_and_the_record_says_so(tmp_path: Path) -> None:
    out, _ = written(tmp_path, Format.TORCHSCRIPT)
    assert json.loads((out / "artifact.json").read_text())["file"] == "model.pth"
    assert (out / "model.pth").read_text() == "payload"


def test_what_mlflow_cannot_call_is_no_model(tmp_path: Path) -> None:
    flex = artifact(tmp_path / "a", Format.TFLITE, ("FlexErf",))
    assert why_not_logged(flex) == "it needs TensorFlow's Flex delegate, which the interpreter of LiteRT does not bring"
    assert why_not_logged(artifact(tmp_path / "b", Format.TFLITE)) is None
