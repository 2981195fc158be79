"""Edits of files in the mutation benchmark: wrong ones are shown, right ones are not, and places are compared."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("mutations_on_path")


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_the_models_of_float16_overflow_there_alone(mutations_on_path: None) -> None:
    models, runtimes, truth = load("benchmark_models"), load("runtimes"), load("truth")
    assert {model.name for model in models.HALF_MODELS} == set(load("file_mutants").OVERFLOWS)
    for model in models.HALF_MODELS:
        measure = truth.Truth(model, "fp16").measure
        assert measure(runtimes.ModuleRun(model.build())).shown_by == "never", model.name
        assert measure(runtimes.ModuleRun(model.build(), half=True)).shown_by == "random", model.name


def test_each_kind_of_files_has_six_models_and_as_many_right_copies(mutations_on_path: None) -> None:
    copies = load("file_mutants").FILE_COPIES
    for kind in ("half-overflow", "int8-scale", "other-functions"):
        wrong = [copy for copy in copies if copy.kind == kind]
        forms = {copy.form for copy in wrong}
        assert len({copy.model for copy in wrong}) >= 6
        assert len(wrong) >= 18
        right = [copy for copy in copies if not copy.kind and copy.form in forms]
        assert len(right) >= 18


@pytest.fixture(scope="module")
def classifier(mutations_on_path: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A model, and what its copies are made from."""
    model, path = load("benchmark_models").by_name()["evidence"], tmp_path_factory.mktemp("own") / "model.onnx"
    load("exports").export(model.build(), model, path)
    return model, load("edits_files").Base(model.build(), path, load("build").samples(model))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_an_operator_in_float16_is_wrong_and_layers_are_not(classifier: tuple[Any, Any], tmp_path: Path) -> None:
    files, runtimes, (model, base) = load("edits_files"), load("runtimes"), classifier
    measure = load("truth").Truth(model, "fp16").measure

    def shown(edit: Any, name: str) -> tuple[str, Any]:
        path = tmp_path / f"{name}.onnx"
        sites = edit(base, path)
        return measure(runtimes.open_artifact("onnx:fp16", path, ["output"]), ("random",)).shown_by, sites

    assert shown(files.all_in_half("Exp"), "all")[0] == "random"
    by, (site,) = shown(files.operators_in_half("Exp", at=0), "exp")
    assert (by, site.op_type) == ("random", "Exp")
    assert shown(files.operators_in_half("Gemm"), "layers")[0] == "never"
    assert shown(files.weights_in_half, "weights")[0] == "never"


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_wrong_scales_of_a_layer_are_wrong_beside_a_right_quantisation(
    classifier: tuple[Any, Any], tmp_path: Path
) -> None:
    files, runtimes, (model, base) = load("edits_files"), load("runtimes"), classifier
    path = tmp_path / "right.onnx"
    assert files.quantised_by_onnxruntime(per_channel=True)(base, path) == ()
    like = runtimes.open_artifact("onnx:int8", path, ["output"])
    measure = load("truth").Truth(model, "int8", like).measure
    assert measure(like, ("random",)).shown_by == "never"
    quantised = files.Base(base.module, path, base.samples)
    for number, edit in enumerate((files.weight_scale(2.0), files.zero_point(48), files.input_scale(0.4))):
        wrong = tmp_path / f"{number}.onnx"
        assert [site.op_type for site in edit(quantised, wrong)][1:] == ["DequantizeLinear"]
        assert measure(runtimes.open_artifact("onnx:int8", wrong, ["output"]), ("random",)).shown_by == "random"


@pytest.mark.parametrize(
    ("form", "place", "expected"),
    [
        ("onnx", ("relu", "", "", ("Conv (node_conv2d)",)), True),
        ("onnx", ("conv2d", "part", "nets.py:7", ("Relu (node_relu)",)), False),
        ("saved-model", ("conv2d", "part", "", ()), True),
        ("saved-model", ("conv2d", "", "vision.py:7 (`x`)", ()), True),
        ("saved-model", ("relu", "part", "vision.py:7", ()), False),
        ("saved-model", ("conv2d", "whole", "vision.py:8", ()), False),
        ("tflite:int8", ("linear", "", "", ("CONV_2D (node_conv2d)",)), True),
    ],
)
def test_a_place_is_compared_with_the_sites(
    mutations_on_path: None, form: str, place: tuple[str, str, str, tuple[str, ...]], expected: bool
) -> None:
    located, site = load("located"), load("onnx_edit").Site("node_conv2d", "Conv", "part", "nets/vision.py:7")
    named = SimpleNamespace(**dict(zip(("operator", "module", "line", "nodes"), place, strict=True)))
    assert located.names_operator(named, form, [site]) is expected


def test_samples_stand_alone(classifier: tuple[Any, Any]) -> None:
    _, base = classifier
    assert {array.shape for feeds in base.samples for array in feeds.values()} == {(1, 16)}
    assert np.isfinite(np.concatenate([feeds["x"] for feeds in base.samples])).all()
