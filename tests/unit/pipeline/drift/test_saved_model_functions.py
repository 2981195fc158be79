"""Signatures of a SavedModel beside `serving_default`, and `__call__`: asked where they take and give the same."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.drift import jobs
from transload.pipeline.drift.drift_records import CheckEvidence
from transload.pipeline.drift.reference import answer
from transload.pipeline.result.check_table import read_check_rows
from transload.pipeline.show.exercise_view import exercises

SIGNATURE = Signature(
    (TensorSpec("x", "float32", ("batch", 4)), TensorSpec("a", "float32", ("batch", 4))),
    (TensorSpec("y", "float32", ("batch", 4)),),
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Mapping[str, Any]]:
    """Check a folder with these signatures beside `serving_default`, and this `__call__`."""
    import tensorflow as tf

    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tf.Variable(2.0)

    def folder_of(root: Path, functions: Mapping[str, Any], call: Any = None) -> Path:
        module = Module()
        specs = [tf.TensorSpec([None, 4], name=name) for name in ("x", "a")]

        def compiled(function: Any) -> Any:
            return tf.function(lambda x, a: function(module.scale, x, a), input_signature=specs)

        signatures = {name: compiled(function) for name, function in functions.items()}
        if call is not None:
            module.__call__ = compiled(call)
        folder = root / "artifact"
        folder.mkdir()
        tf.saved_model.save(module, str(folder / Format.SAVED_MODEL.spec.payload), signatures=signatures)
        write_artifact(folder, Target(Format.SAVED_MODEL), SIGNATURE)
        return folder

    def check(work: Any, further: Mapping[str, Any], call: Any = None) -> Mapping[str, Any]:
        root = tmp_path_factory.mktemp("checked")
        rng = np.random.default_rng(8)
        samples = {name: rng.normal(size=(20, 4)).astype(np.float32) for name in ("x", "a")}
        for name in ("data", "reference"):
            (root / name).mkdir()
        write_dataset(root / "data" / "test.npz", Dataset(samples, None))
        artifact = folder_of(root, {"serving_default": _served, **further}, call)
        inputs, options = {"data": root / "data"}, {"runtime": "tensorflow"}
        answer(Job({"model": artifact, **inputs}, root / "reference", options))
        return work(Job({"artifact": artifact, "reference": root / "reference", **inputs}, root, options))

    return check


def _served(scale: Any, x: Any, a: Any) -> dict[str, Any]:
    return {"y": scale * x - a}


def _same(scale: Any, x: Any, a: Any) -> dict[str, Any]:
    return {"y": x * scale - a}


def _swapped(scale: Any, x: Any, a: Any) -> dict[str, Any]:
    return {"y": scale * a - x}


def _unnamed(scale: Any, x: Any, a: Any) -> Any:
    return scale * a - x


def _embedding(scale: Any, x: Any, a: Any) -> dict[str, Any]:
    return {"embedding": scale * (x + a)}


@pytest.mark.parametrize(("name", "call"), [("predict", None), ("__call__", _swapped), ("__call__", _unnamed)])
def test_a_function_that_takes_and_gives_the_same_and_answers_otherwise_fails(checked, name, call) -> None:
    facts = checked(jobs.validate, {} if call else {name: _swapped}, call)
    assert facts["reason"].startswith(
        f"{name}, which takes and gives what serving_default does, at batch 20: output y "
    )
    assert checked(jobs.verify, {} if call else {name: _swapped}, call)["status"] == "wrong"


def test_functions_that_answer_the_same_pass_and_others_are_named_as_not_asked(checked) -> None:
    facts = checked(jobs.validate, {"predict": _same, "embed": _embedding}, _same)
    assert facts.get("reason") is None
    assert _not_asked(facts) == ["embed"]
    facts = checked(jobs.verify, {"embed": _embedding}, _embedding)
    assert facts["status"] == "verified"
    assert _not_asked(facts) == ["__call__", "embed"]


def test_a_folder_with_serving_default_alone_says_nothing(checked) -> None:
    facts = checked(jobs.validate, {})
    assert (facts.get("reason"), _not_asked(facts)) == (None, [])


def _not_asked(facts: Mapping[str, Any]) -> list[str]:
    """The functions that the row of what was asked leaves out, and that its sentence names."""
    (row,) = read_check_rows(CheckEvidence.from_json(facts["evidence"]), "saved-model").exercised
    (exercise,) = exercises([row])
    assert all(f"the function {name}" in exercise.sentence for name in row.functions_not_asked)
    return list(row.functions_not_asked)
