"""The mutation benchmark's catalogue: each mistake has a source, a model, and answers that differ from the truth."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

RESULTS = Path(__file__).resolve().parents[3] / "benchmarks"
pytestmark = pytest.mark.usefixtures("mutations_on_path")


@pytest.fixture(scope="module")
def models(mutations_on_path: None) -> ModuleType:
    return importlib.import_module("benchmark_models")


@pytest.fixture(scope="module")
def mutants(mutations_on_path: None) -> ModuleType:
    return importlib.import_module("mutants")


@pytest.fixture(scope="module")
def kinds(mutations_on_path: None) -> ModuleType:
    return importlib.import_module("kinds")


def test_the_benchmark_is_as_large_as_it_says(models: ModuleType, mutants: ModuleType, kinds: ModuleType) -> None:
    right = importlib.import_module("right")
    assert len({model.family for model in models.MODELS}) >= 12
    assert len(kinds.KINDS) >= 40
    assert 4 * len(models.MODELS) + len(right.plans()) >= 50
    assert {form for mutant in mutants.MUTANTS for form in mutant.formats} == {
        "onnx", "torchscript", "saved-model", "tflite",
    }  # fmt: skip


def test_names_are_unique_and_known(models: ModuleType, mutants: ModuleType, kinds: ModuleType) -> None:
    right = importlib.import_module("right")
    copies = importlib.import_module("file_mutants").FILE_COPIES
    names = [mutant.name(form) for mutant in mutants.MUTANTS for form in mutant.formats]
    names += [name for name, *_ in right.plans()] + [copy.name for copy in copies]
    assert len(names) == len(set(names))
    assert len(kinds.KINDS) == len(kinds.BY_NAME)
    assert {mutant.model for mutant in mutants.MUTANTS} <= set(models.by_name())
    assert {model for _, model, _, _ in right.plans()} <= set(models.by_name())
    assert {copy.model for copy in copies} <= set(models.by_name())
    named = {mutant.kind for mutant in mutants.MUTANTS} | {copy.kind for copy in copies if copy.kind}
    assert named == set(kinds.BY_NAME)


def test_each_kind_names_the_thread_that_it_comes_from(kinds: ModuleType) -> None:
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", kind.thread) for kind in kinds.KINDS)


def test_inputs_follow_their_declaration(models: ModuleType) -> None:
    from transload.models.signature import parse_input

    for model in models.ALL_MODELS:
        bounds: dict[str, tuple[int, int | None]] = {}
        for one_input in model.inputs:
            spec = parse_input(one_input.text)
            assert (spec.name, spec.dtype) == (one_input.name, one_input.dtype)
            bounds |= {axis: (ends.low, ends.high) for axis, ends in spec.bounds}
        for call in model.calls():
            for one_input in model.inputs:
                array = call.feeds[one_input.name]
                assert array.dtype.name == one_input.dtype
                assert len(array) == len(call.feeds[model.inputs[0].name])
                for axis, size in zip(one_input.dims, array.shape, strict=True):
                    low, high = bounds.get(axis.partition("=")[0], (0, None))
                    assert low <= size <= (high or 1000)
                if one_input.values and array.size:
                    assert one_input.values[0] <= array.min()
                    assert array.max() <= one_input.values[1]


def test_the_models_are_right_by_their_own_truth(models: ModuleType) -> None:
    truth, runtimes = importlib.import_module("truth"), importlib.import_module("runtimes")
    for model in models.ALL_MODELS:
        measured = truth.Truth(model).measure(runtimes.ModuleRun(model.build()))
        assert measured.shown_by == "never", model.name


def test_each_kind_of_declarations_has_six_models_and_three_variants_of_most(mutants: ModuleType) -> None:
    catalogue = importlib.import_module("declared_mutants").DECLARED
    for kind, models in catalogue.items():
        assert len(models) >= 6, kind
        assert sum(len(variants) >= 3 for variants in models.values()) >= 6, kind


@pytest.mark.parametrize(
    ("kind", "model"),
    [("unlike-columns", "money-risk"), ("imputation", "mean-imputer"), ("mask-shapes", "masked-mean"),
     ("beyond-data", "tiers-data"), ("axis-pairs", "masked-tags"), ("open-axes", "attention-open"),
     ("file-constants", "tails")],
)  # fmt: skip
def test_faults_are_shown_by_inputs_of_the_declaration(
    models: ModuleType, mutants: ModuleType, kind: str, model: str
) -> None:
    truth, runtimes = importlib.import_module("truth"), importlib.import_module("runtimes")
    measure = truth.Truth(models.by_name()[model]).measure
    faulty = [mutant for mutant in mutants.DECLARED_MUTANTS if (mutant.kind, mutant.model) == (kind, model)]
    assert faulty
    assert measure(runtimes.ModuleRun(models.by_name()[model].build())).shown_by == "never"
    for mutant in faulty:
        module = models.by_name()[model].build()
        mutant.of_module(module)
        assert measure(runtimes.ModuleRun(module)).shown_by != "never", mutant.variant


def test_a_wrong_small_column_is_seen_beside_a_large_one(models: ModuleType) -> None:
    truth, runtimes = importlib.import_module("truth"), importlib.import_module("runtimes")
    model = models.by_name()["money-risk"]
    run = runtimes.ModuleRun(model.build())

    def shifted(by: float) -> Any:
        return lambda feeds: [run(feeds)[0] + np.asarray([0.0, by], np.float32)]

    measure = truth.Truth(model).measure
    assert measure(shifted(1e-4)).shown_by == "random"
    assert measure(shifted(0.0)).shown_by == "never"


def test_mutated_modules_differ_from_the_truth(models: ModuleType, mutants: ModuleType) -> None:
    truth, runtimes = importlib.import_module("truth"), importlib.import_module("runtimes")
    for mutant in mutants.MODULE_MUTANTS:
        model = models.by_name()[mutant.model]
        module = model.build()
        site = mutant.of_module(module)
        assert module.get_submodule(site.module) is not None
        measured = truth.Truth(model).measure(runtimes.ModuleRun(module))
        assert measured.shown_by != "never", mutant.name("torchscript")


@pytest.fixture(scope="module")
def gauges_file(models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gauges as torch's exporter writes them; its optimiser would take an epsilon of 1e-8 for zero."""
    model, path = models.by_name()["gauges"], tmp_path_factory.mktemp("onnx") / "model.onnx"
    batch = torch.export.Dim("batch", min=1, max=512)
    program = torch.onnx.export(
        model.build(), (torch.zeros(3, 6),), dynamo=True, opset_version=20, dynamic_shapes=({0: batch},),
        input_names=["values"], output_names=[f"output_{at}" for at in range(2)], verbose=False, optimize=False,
    )  # fmt: skip
    assert program is not None
    program.save(str(path))
    return path


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_edited_graphs_differ_from_the_truth_and_name_their_place(
    models: ModuleType, mutants: ModuleType, gauges_file: Path, tmp_path: Path
) -> None:
    truth, runtimes = importlib.import_module("truth"), importlib.import_module("runtimes")
    edit = importlib.import_module("onnx_edit")
    model = models.by_name()["gauges"]
    measure = truth.Truth(model).measure
    names = [f"output_{at}" for at in range(2)]
    assert measure(runtimes.open_artifact("onnx", gauges_file, names)).shown_by == "never"
    edits = [mutant for mutant in mutants.GRAPH_MUTANTS if mutant.model == "gauges"]
    assert edits
    for mutant in edits:
        graph = edit.GraphEdit.load(gauges_file, model.build())
        mutant.edit(graph)
        path = tmp_path / "mutant.onnx"
        graph.save(path)
        assert measure(runtimes.open_artifact("onnx", path, names)).shown_by != "never", mutant.kind
        assert all(site.operator and site.source.startswith("nets/tabular.py:") for site in graph.sites)


def test_a_copy_is_wrong_beyond_rounding_only(models: ModuleType) -> None:
    truth, runtimes = importlib.import_module("truth"), importlib.import_module("runtimes")
    model = models.by_name()["vae"]
    run = runtimes.ModuleRun(model.build())

    def scaled(factor: float) -> Any:
        return lambda feeds: [np.asarray(array * np.float32(factor)) for array in run(feeds)]

    measure = truth.Truth(model).measure
    assert measure(scaled(1 + 2e-7)).shown_by == "never"
    assert measure(scaled(1 + 1e-5)).shown_by == "random"
    assert measure(lambda feeds: [*run(feeds)[:2], run(feeds)[2].astype(np.float64)]).excess["random"].times == np.inf


def test_what_is_published_is_of_this_catalogue(mutants: ModuleType) -> None:
    rows = json.loads((RESULTS / "results" / "mutations.json").read_text())["rows"]
    right = importlib.import_module("right")
    known = {mutant.name(form) for mutant in mutants.MUTANTS for form in mutant.formats}
    known |= {copy.name for copy in importlib.import_module("file_mutants").FILE_COPIES if copy.kind}
    of_threads = (*mutants.GRAPH_MUTANTS, *mutants.MODULE_MUTANTS)
    wrong = {row["name"]: row for row in rows if not row["right"]}
    assert set(wrong) <= known
    assert len(wrong) >= 0.95 * sum(len(mutant.formats) for mutant in of_threads)
    assert {row["name"] for row in rows if row["right"] and row["route"] == "edited"} == set()
    assert sum(row["right"] and row["shown_by"] == "never" for row in rows) >= 50
    assert {name for name, *_ in right.plans()} & {row["name"] for row in rows}
    for row in wrong.values():
        excess = row["excess"].get(row["shown_by"])
        assert row["shown_by"] == "never" or excess["times"] is None or excess["times"] > 1, row["name"]
