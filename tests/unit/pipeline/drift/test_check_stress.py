"""Floats that no sample holds: what they show of a copy, and what they do not hold against it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.errors import SessionLost
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.probes.feeds import sample_specs
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift import jobs, reference

Model = Callable[[Array], Any]


class FakeSession:
    """A model that is a function of its input."""

    device = "cpu"

    def __init__(self, signature: Signature, model: Model) -> None:
        self.signature, self.model = signature, model

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        with np.errstate(all="ignore"):
            answer = self.model(feeds["x"])
        return answer if isinstance(answer, Mapping) else {"y": np.asarray(answer)}

    def close(self) -> None:
        pass


@pytest.fixture
def verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    signature = Signature((parse_input("x=float32[batch,8]"),), (parse_input("y=float32[any]"),))
    (tmp_path / "model.onnx").touch()
    samples = sample_tensors(sample_specs(signature.inputs), {"batch": 20, "*samples": 20}, seed=4)
    write_dataset(tmp_path / "test.npz", Dataset(samples))
    inputs = dict.fromkeys(("model", "artifact", "data", "reference"), tmp_path)

    def check(
        model: Model,
        copy: Model,
        precision: str = "fp32",
        work: Callable[..., Mapping[str, Any]] = jobs.verify,
        samples_with: float = 0.0,
        **options: Any,
    ) -> Mapping[str, Any]:
        if samples_with:
            samples["x"][-1, 3] = samples_with
            write_dataset(tmp_path / "test.npz", Dataset(samples))
        monkeypatch.setattr(reference, "open_for", lambda *_: FakeSession(signature, model))
        monkeypatch.setattr(jobs, "open_for", lambda *_: FakeSession(signature, copy))
        reference.answer(Job(inputs, tmp_path, {"runtime": "torch", "stress": True}))
        write_artifact(tmp_path, Target(Format.ONNX), signature)
        return work(Job(inputs, tmp_path, {"runtime": "onnxruntime", "precision": precision, **options}))

    return check


def relu6(x: Array) -> Array:
    return np.clip(x, 0, 6)


def softplus(x: Array) -> Array:
    return np.logaddexp(x, 0)


def normalized(x: Array, epsilon: float = 1e-5) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon))


WRONG: list[tuple[str, Model, Model]] = [
    ("1000 times as large", relu6, lambda x: np.maximum(x, 0)),
    ("1000 times as large", softplus, lambda x: np.where(x > 10, 10, softplus(x))),
    ("from -100 to 100", lambda x: (x < 1) * x, lambda x: (x <= 1) * x),
    ("10000 times as small", normalized, lambda x: normalized(x, 1e-6)),
    ("1000 times as large", lambda x: x * 2, lambda x: np.clip(x, -200, 200) * 2),
    ("rounded to whole numbers, halves and eighths", lambda x: np.where(x == 2, 5, x), lambda x: x),
]


@pytest.mark.parametrize(("words", "model", "copy"), WRONG)
def test_what_only_stress_shows_is_wrong(
    words: str, model: Model, copy: Model, verdict: Callable[..., Mapping[str, Any]]
) -> None:
    found = verdict(model, copy)
    assert found["status"] == "wrong"
    assert verdict(model, model)["status"] == "verified"
    assert verdict(model, copy, "int8")["status"] == "verified", "a reduced precision does not owe it"
    assert words in found["reason"]


def test_a_copy_that_loses_nan_is_verified_with_a_note(verdict: Callable[..., Mapping[str, Any]]) -> None:
    found = verdict(lambda x: x * 2, lambda x: np.nan_to_num(x * 2, posinf=np.inf, neginf=-np.inf))
    assert found["status"] == "verified"
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 65; "
        "with x NaN in one place: answers numbers where the model answers NaN (1 element)"
    )
    facts = verdict(lambda x: x * 2, lambda x: np.nan_to_num(x * 2, posinf=np.inf, neginf=-np.inf), work=jobs.validate)
    assert [row["batch"] for row in facts["rows"] if row.get("lost")] == [2]
    assert {row["verdict"] for row in facts["rows"]} == {"pass"}
    right = verdict(lambda x: x * 2, lambda x: x * 2)
    assert right["status"] == "verified"
    assert "NaN" not in right["reason"]


NOTES: list[tuple[str, Model, Model]] = [
    ("answers numbers where the model answers NaN", lambda x: x * 2, lambda x: np.where(np.isnan(x), 0, x * 2)),
    ("answers infinity where the model answers NaN", lambda x: x * 2, lambda x: np.where(np.isnan(x), np.inf, x * 2)),
    ("answers numbers where the model answers infinity", lambda x: x * 2, lambda x: np.where(np.isinf(x), 9, x * 2)),
    ("NaN or the other infinity where the model answers", lambda x: x, lambda x: np.where(np.isinf(x), -x, x)),
]


@pytest.mark.parametrize(("words", "model", "copy"), NOTES)
def test_the_note_says_what_stands_in_the_place_of_what(
    words: str, model: Model, copy: Model, verdict: Callable[..., Mapping[str, Any]]
) -> None:
    found = verdict(model, copy)
    assert found["status"] == "verified"
    assert words in found["reason"]
    assert verdict(model, copy, require_non_finite=True)["status"] == "wrong"
    assert verdict(model, model, require_non_finite=True)["status"] == "verified"


MEANS = np.linspace(-2, 3, 8, dtype=np.float32)
HEAD = np.random.default_rng(3).normal(size=(8, 3)).astype(np.float32)


def impute(x: Array, means: Array = MEANS) -> Array:
    return np.asarray(np.where(np.isnan(x), means, x) @ HEAD)


def mean_of_known(x: Array) -> Array:
    known = ~np.isnan(x)
    total = np.where(known, x, 0).sum(-1, keepdims=True)
    return np.asarray(total / np.maximum(known.sum(-1, keepdims=True), 1).astype(np.float32))


OWED: list[tuple[str, Model, Model]] = [
    ("learned means, zeros", impute, lambda x: impute(x, MEANS * 0)),
    ("learned means, one column else", impute, lambda x: impute(x, MEANS + (np.arange(8) == 1))),
    ("learned means, NaN", impute, lambda x: x @ HEAD),
    ("learned means, infinity", impute, lambda x: impute(x, MEANS + np.float32(np.inf))),
    ("mask", mean_of_known, lambda x: x.mean(-1, keepdims=True)),
    ("mask, other count", mean_of_known, lambda x: np.nan_to_num(x).mean(-1, keepdims=True)),
    ("maximum that ignores NaN", lambda x: np.fmax(x, 0), lambda x: np.maximum(x, 0)),
    ("comparison", lambda x: np.where(x > 0, x, 0), lambda x: np.maximum(x, 0)),
    ("clamp after NaN", lambda x: np.clip(np.nan_to_num(x, nan=5), -3, 3), lambda x: np.clip(np.nan_to_num(x), -3, 3)),
    ("clipped infinity", lambda x: np.clip(x, -3, 3), lambda x: np.where(np.isinf(x), 0, np.clip(x, -3, 3))),
    ("clipped infinity, passed on", lambda x: np.clip(x, -3, 3), lambda x: np.where(np.isinf(x), x, np.clip(x, -3, 3))),
    ("beside NaN", lambda x: x * 2, lambda x: x * 2 + 0 * x.sum(-1, keepdims=True)),
    ("class", lambda x: np.argmax(impute(x), -1) + 0.5, lambda x: np.argmax(np.nan_to_num(x) @ HEAD, -1) + 0.5),
]


@pytest.mark.parametrize(("model", "copy"), [case[1:] for case in OWED], ids=[case[0] for case in OWED])
def test_a_finite_answer_to_nan_or_infinity_is_owed(
    model: Model, copy: Model, verdict: Callable[..., Mapping[str, Any]]
) -> None:
    found = verdict(model, copy)
    assert found["status"] == "wrong"
    assert "with x " in found["reason"]
    assert ", where the model answers numbers, as to x[0, " in found["reason"]
    rounded: Model = lambda x: np.asarray(model(x) * np.float32(1 + 2e-7))  # noqa: E731
    right = verdict(model, rounded)
    assert right["status"] == "verified"
    assert "NaN" not in right["reason"], "what a right copy answers needs no note"


def test_integers_beside_nan_may_differ(verdict: Callable[..., Mapping[str, Any]]) -> None:
    """Each runtime sorts and compares NaN in its own way; a model that replaces NaN owes its classes."""

    def both(x: Array, order: Array) -> Mapping[str, Array]:
        return {"y": x, "class": order}

    found = verdict(lambda x: both(x, x.argmax(-1)), lambda x: both(x, np.where(np.isnan(x), -9, x).argmax(-1)))
    assert found["status"] == "verified"
    assert "integers beside NaN or infinities differ" in found["reason"]
    clean = lambda x: np.nan_to_num(x, nan=90, posinf=3, neginf=-3)  # noqa: E731
    found = verdict(
        lambda x: both(clean(x), clean(x).argmax(-1)), lambda x: both(clean(x), np.fmin(clean(x), 4).argmin(-1))
    )
    assert found["status"] == "wrong"


def test_sorting_that_puts_nan_elsewhere_is_a_note(verdict: Callable[..., Mapping[str, Any]]) -> None:
    def ordered(x: Array, nan: float) -> Array:
        places = np.argsort(np.where(np.isnan(x), nan, x), axis=-1)[..., -4:]
        return np.asarray(np.take_along_axis(x, places, -1))

    found = verdict(lambda x: ordered(x, np.inf), lambda x: ordered(x, -np.inf))
    assert found["status"] == "verified"
    assert "answers numbers where the model answers NaN" in found["reason"]
    assert (
        verdict(lambda x: ordered(x, np.inf), lambda x: ordered(x, -np.inf), require_non_finite=True)["status"]
        == "wrong"
    )
    finite = lambda x: ordered(x, np.inf) + np.where(np.isnan(x).any(-1, keepdims=True), 1, 0)  # noqa: E731
    assert verdict(lambda x: ordered(x, np.inf), finite)["status"] == "wrong", "its NaN stand where the model's do"


def test_samples_that_hold_nan_make_it_a_failure(verdict: Callable[..., Mapping[str, Any]]) -> None:
    found = verdict(lambda x: x * 2, lambda x: np.where(np.isinf(x), 0, x * 2), samples_with=np.inf)
    assert found["status"] == "wrong"


def test_a_copy_that_raises_an_error_to_nan_says_so(verdict: Callable[..., Mapping[str, Any]]) -> None:
    def raises(x: Array) -> Array:
        if np.isnan(x).any():
            raise SessionLost("no number", fix="")
        return x * 2

    found = verdict(lambda x: x * 2, raises)
    assert found["status"] == "verified"
    assert "; with x NaN in one place: no number" in found["reason"]
    assert verdict(lambda x: x * 2, raises, require_non_finite=True)["status"] == "wrong"
    assert verdict(lambda x: np.nan_to_num(x) * 2, raises)["status"] == "wrong", "the model answers numbers"


def test_what_the_model_refuses_or_answers_with_nothing_finite_is_not_asked(
    verdict: Callable[..., Mapping[str, Any]],
) -> None:
    def picky(x: Array) -> Array:
        if not np.isfinite(x).all() or abs(x).max() > 50:
            raise SessionLost("out of range", fix="")
        return x * 2

    assert verdict(picky, lambda x: np.clip(x, -50, 50) * 2)["status"] == "verified"
    spread = lambda x: x + np.sum(x)  # noqa: E731
    assert "NaN" not in verdict(spread, lambda x: np.nan_to_num(spread(x)))["reason"]


def test_rounding_that_stress_multiplies_is_no_fault(verdict: Callable[..., Mapping[str, Any]]) -> None:
    """exp(x) - 1 beside 0, a sine of large numbers, and a class of equal scores."""
    step = np.float32(0.7)
    assert verdict(np.expm1, lambda x: np.exp(x) - np.float32(1))["status"] == "verified"
    assert verdict(lambda x: np.sin(x * step * 3), lambda x: np.sin(x * (step * 3)))["status"] == "verified"
    scores = lambda x, by: np.argmax(x @ np.full((8, 4), by, np.float32) * (1 / by), -1)  # noqa: E731
    assert verdict(lambda x: np.argmax(x, -1) + scores(x, 3.0) * 0, lambda x: np.argmax(x, -1))["status"] == "verified"
