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

Model = Callable[[Array], Array]


class FakeSession:
    """A model that is a function of its input."""

    device = "cpu"

    def __init__(self, signature: Signature, model: Model) -> None:
        self.signature, self.model = signature, model

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        with np.errstate(all="ignore"):
            return {"y": np.asarray(self.model(feeds["x"]))}

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
        model: Model, copy: Model, precision: str = "fp32", work: Callable[..., Mapping[str, Any]] = jobs.verify
    ) -> Mapping[str, Any]:
        monkeypatch.setattr(reference, "open_for", lambda *_: FakeSession(signature, model))
        monkeypatch.setattr(jobs, "open_for", lambda *_: FakeSession(signature, copy))
        reference.answer(Job(inputs, tmp_path, {"runtime": "torch", "stress": True}))
        write_artifact(tmp_path, Target(Format.ONNX), signature)
        return work(Job(inputs, tmp_path, {"runtime": "onnxruntime", "precision": precision}))

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


def test_a_copy_that_loses_nan_is_degraded_and_not_wrong(verdict: Callable[..., Mapping[str, Any]]) -> None:
    found = verdict(lambda x: x * 2, lambda x: np.nan_to_num(x * 2, posinf=np.inf, neginf=-np.inf))
    assert found["status"] == "degraded"
    assert found["reason"] == (
        "agrees to the last bit at batches 1, 2, 5, 65; "
        "with x NaN in one place: 1 elements are NaN or infinite on one side only; "
        "where no sample is so, say which values come: x=... in LOW..HIGH"
    )
    facts = verdict(lambda x: x * 2, lambda x: np.nan_to_num(x * 2, posinf=np.inf, neginf=-np.inf), work=jobs.validate)
    assert [row["batch"] for row in facts["rows"] if row.get("lost")] == [2]
    assert {row["verdict"] for row in facts["rows"]} == {"pass"}
    right = verdict(lambda x: x * 2, lambda x: x * 2)
    assert right["status"] == "verified"
    assert "NaN" not in right["reason"]


def test_a_copy_that_raises_an_error_to_nan_says_so(verdict: Callable[..., Mapping[str, Any]]) -> None:
    def raises(x: Array) -> Array:
        if np.isnan(x).any():
            raise SessionLost("no number", fix="")
        return x * 2

    found = verdict(lambda x: x * 2, raises)
    assert found["status"] == "degraded"
    assert "; with x NaN in one place: no number; where no sample is so" in found["reason"]


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
