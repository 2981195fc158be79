"""Which metric judges a model: asked for, the recipe's own, or plain for the shapes of labels and outputs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transload.models.dataset import TEST, Dataset, write_dataset
from transload.models.errors import BadRequest
from transload.models.signature import Array, Signature, TensorSpec
from transload.pipeline.drift.answer_shards import write_series
from transload.pipeline.drift.recorded_answers import ANSWERS
from transload.pipeline.options.request import GateSection
from transload.pipeline.plan.loaded_model import ModelDescription
from transload.pipeline.plan.metric_choice import TaskChoice, check_answers, choose_metric

Shape = tuple[int | str, ...]


def choose(
    folder: Path,
    labels: Array | None,
    shape: Shape,
    *,
    dtype: str = "float32",
    recipe: str | None = None,
    rules: dict[str, Any] | None = None,
    **asked: Any,
) -> TaskChoice:
    write_dataset(folder / TEST, Dataset({"x": np.zeros((4, 2), np.float32)}, labels))
    signature = Signature(
        (TensorSpec("x", "float32", ("batch", 2)),),
        (TensorSpec("ids", "int64", ("batch", 2)), TensorSpec("y", dtype, shape)),
    )
    validate = SimpleNamespace(**{"metric": None, "allowed_loss": None, **asked})
    request = SimpleNamespace(validate_=validate, root=None, gate=GateSection(**(rules or {})))
    model = ModelDescription("net", signature, metric=recipe, allowed_loss=0.02 if recipe else None)
    context: Any = SimpleNamespace(request=request)
    data: Any = SimpleNamespace(folder=folder)
    return choose_metric(context, model, data)


INTS, FLOATS = np.array([0, 1, 2, 1]), np.array([0.5, 1.5, -2.0, 3.25])
PIXELS = np.zeros((4, 8, 9), np.int64)
PLAIN: list[tuple[Array, Shape, str | None]] = [
    (INTS, ("batch", 3), "accuracy"),
    (INTS.astype(np.float32), ("batch", 3), "accuracy"),
    (INTS[:, np.newaxis], ("batch", 3), "accuracy"),
    (INTS, ("batch", 2), None),  # a label is none of the classes
    (INTS % 2, ("batch", 1), "accuracy"),
    (FLOATS, ("batch", 1), "mae"),
    (FLOATS, ("batch", 3), None),
    (np.eye(4, dtype=np.int64), ("batch", 4), "map"),
    (PIXELS, ("batch", 5, 8, 9), "miou"),
    (PIXELS, ("batch", 5, "height", "width"), "miou"),
    (PIXELS, ("batch", 8, 9, 5), "miou"),
    (PIXELS, ("batch", 5, 7, 9), None),
    (PIXELS[:, 0], ("batch", "tokens", 50), "accuracy"),
]


@pytest.mark.parametrize(("labels", "shape", "name"), PLAIN)
def test_the_plain_metric_goes_by_shapes_and_says_so(
    tmp_path: Path, labels: Array, shape: Shape, name: str | None
) -> None:
    choice = choose(tmp_path, labels, shape)
    assert (choice.metric and (choice.metric.name, choice.metric.output, choice.metric.requested)) == (
        (name, "y", False) if name else None
    )
    dims = ", ".join(["samples", *map(str, labels.shape[1:])])
    unused = f"the labels of the shape [{dims}] are not used: name one with --metric"
    open_end = f"the metric is {name} of y, by its shape; it is reported and judges nothing without --allowed-loss"
    assert choice.note == (open_end if name else unused)


def test_no_labels_and_no_metric_is_nothing_to_speak_of(tmp_path: Path) -> None:
    assert choose(tmp_path, None, ("batch", 3)) == TaskChoice()


def test_a_recipe_keeps_its_own_metric_unless_another_is_asked_for(tmp_path: Path) -> None:
    assert choose(tmp_path, INTS, ("batch", 3), recipe="accuracy") == TaskChoice(allowed_loss=0.02)
    other = choose(tmp_path, INTS, ("batch", 3), recipe="accuracy", metric="f1")
    assert other.metric is not None
    assert (other.metric.name, other.allowed_loss) == ("f1", None)  # its loss is not of this metric


REFUSALS: list[tuple[Array | None, dict[str, Any], str]] = [
    (None, {"metric": "f1"}, "the metric f1 needs labels, and the data has none"),
    (None, {"allowed_loss": 0.1}, "an allowed loss needs a metric, and the data has no labels"),
    (np.array([0, np.nan, 1, np.inf]), {"metric": "f1"}, "2 of 4 labels are NaN or infinite"),
    (np.array([0, np.nan, 1, 2]), {}, "1 of 4 labels are NaN or infinite"),
    (np.array(["a", "b", "c", "d"]), {"metric": "f1"}, "the labels are text, and no numbers"),
    (FLOATS, {"metric": "f1"}, "f1 needs labels that are whole numbers, and these are float64"),
    (
        np.zeros((4, 7)), {"metric": "mae"},
        "labels of the shape [samples, 7] go with no output for mae: ids=int64[batch,2], y=float32[batch,3]",
    ),
    (
        INTS, {"metric": "accuracy", "allowed_loss": 2.0},
        "accuracy is a share between 0 and 1, and its allowed loss cannot be 2",
    ),
    (FLOATS, {"allowed_loss": 0.1}, "no metric is plain for labels of the shape [samples]"),
    (INTS, {"metric": "own.py"}, "the metric own.py names no function"),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "asked", "words"), REFUSALS)
def test_what_cannot_be_measured_is_refused_in_a_sentence(
    tmp_path: Path, labels: Array | None, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        choose(tmp_path, labels, ("batch", 3), **asked)
    assert caught.value.what == words


@pytest.mark.parametrize("rule", ["metric_loss", "metric_min", "metric_max"])
@pytest.mark.parametrize("recipe", [None, "accuracy"])
def test_a_rule_on_the_metric_needs_labels(rule: str, recipe: str | None, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        choose(tmp_path, None, ("batch", 3), recipe=recipe, rules={rule: 0.5})
    assert caught.value.what == f"gate.{rule} judges a metric, and the data has no labels"
    assert choose(tmp_path, INTS, ("batch", 3), recipe="accuracy", rules={rule: 0.5}).allowed_loss == 0.02


def checked(folder: Path, labels: Array, answers: Array, **asked: Any) -> TaskChoice:
    """The choice after the reference has answered."""
    choice = choose(folder, labels, ("batch", answers.shape[1]), **asked)
    reference = folder / "reference"
    reference.mkdir()
    write_series(reference / ANSWERS, [{"y": answers[:3]}, {"y": answers[3:]}])
    outputs = (TensorSpec("y", "float32", ("batch", answers.shape[1])),)
    model = ModelDescription("net", Signature((TensorSpec("x", "float32", ("batch", 2)),), outputs))
    stored: list[Any] = [SimpleNamespace(folder=folder), SimpleNamespace(folder=reference)]
    context: Any = None  # of no use to a metric that has a name
    return check_answers(context, choice, model, *stored)


def test_a_metric_that_the_answers_do_not_allow_is_refused_before_any_copy_is_asked(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        checked(tmp_path, INTS, np.zeros((4, 3), np.float32), metric="top5")
    assert caught.value.what == "the 5 largest of 3 classes always hold the label"


def test_a_metric_that_the_answers_allow_stays(tmp_path: Path) -> None:
    choice = checked(tmp_path, INTS, np.zeros((4, 3), np.float32), metric="f1")
    assert choice.metric is not None
    assert choice.metric.name == "f1"
