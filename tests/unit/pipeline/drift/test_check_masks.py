"""Masks that hide all, or nothing: what a model answers to, its copies owe, and the sentence names the mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.probes.feeds import sample_specs
from transload.models.probes.masks import Fill
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift import jobs, reference
from transload.pipeline.drift.recorded_answers import read_record

from .test_check_integers import FakeSession

Feeds = Mapping[str, Array]
Model = Callable[[Feeds], Array]
Verdict = Callable[..., Mapping[str, Any]]


@pytest.fixture
def verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """What is said of a copy of a model. `random`: whether its samples are."""

    def held(
        model: Model, copy: Model, *inputs: str, precision: str = "fp32", random: bool = True
    ) -> Mapping[str, Any]:
        specs = tuple(map(parse_input, inputs))
        signature = Signature(specs, (parse_input("y=float32[any]"),))
        (tmp_path / "model.onnx").touch()
        write_dataset(tmp_path / "test.npz", Dataset(sample_tensors(sample_specs(specs), _SIZES, seed=4)))
        for module, answers in ((reference, model), (jobs, copy)):
            session = FakeSession(signature, answers)
            monkeypatch.setattr(module, "open_for", lambda *_, session=session: session)
        given = dict.fromkeys(("model", "artifact", "data", "reference"), tmp_path)
        reference.answer(Job(given, tmp_path, {"runtime": "torch", "random": random}))
        write_artifact(tmp_path, Target(Format.ONNX), signature)
        return jobs.verify(Job(given, tmp_path, {"runtime": "onnxruntime", "precision": precision}))

    return held


_SIZES = {"batch": 20, "*samples": 20, "heard": 24}


def attended(feeds: Feeds, *, blind: float) -> Array:
    """The mean of what is seen: of nothing `blind` times the mean of all."""
    x, seen = feeds["x"], feeds["mask"].astype(np.float32)
    count = seen.sum(-1, keepdims=True)
    mean = (x * seen).sum(-1, keepdims=True) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, blind * x.mean(-1, keepdims=True)))


def right(feeds: Feeds) -> Array:
    return attended(feeds, blind=0)


def mean(feeds: Feeds) -> Array:
    return attended(feeds, blind=1)


def nothing(feeds: Feeds) -> Array:
    return attended(feeds, blind=np.nan)


X = "x=float32[batch,24]"


@pytest.mark.parametrize("copy", [mean, nothing])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize(
    ("mask", "said"), [("mask=bool[batch,24]", "with mask all false: "), ("mask=int64[batch,24]", "with mask all 0: ")]
)
def test_a_copy_that_is_wrong_of_a_row_that_sees_nothing_is_told_so(
    copy: Model, precision: str, mask: str, said: str, verdict: Verdict
) -> None:
    found = verdict(right, copy, X, mask, precision=precision)
    assert found["status"] == "wrong"
    assert found["reason"].startswith(said)
    assert found["reason"].endswith("; where such a mask never comes, give samples of yours: --data FILE.npz")


def test_the_mask_is_named_and_not_the_size_at_which_it_hides_all(verdict: Verdict) -> None:
    found = verdict(right, mean, "x=float32[batch,heard]", "mask=bool[batch,heard]")
    assert found["reason"].startswith("with mask all false: ")
    assert "say so" not in found["reason"]


def test_a_right_copy_is_verified_and_what_is_no_number_in_the_model_is_not_asked(
    verdict: Verdict, tmp_path: Path
) -> None:
    assert verdict(right, right, X, "mask=bool[batch,24]")["status"] == "verified"
    assert _fills(tmp_path) == ["none", "all", "some none", "some all", "left", "holes", "single", "blank"]
    assert verdict(nothing, mean, X, "mask=bool[batch,24]")["status"] == "verified"
    assert _fills(tmp_path) == ["all", "some all", "left", "holes", "single", "blank"]


def test_where_two_masks_have_no_answer_together_each_is_asked_alone(verdict: Verdict, tmp_path: Path) -> None:
    def model(feeds: Feeds) -> Array:
        hidden = ~(feeds["mask"].any(-1, keepdims=True) | feeds["other"].any(-1, keepdims=True))
        return np.asarray(np.where(hidden, np.nan, right(feeds)))

    found = verdict(model, mean, X, "mask=bool[batch,24]", "other=bool[batch,24]")
    assert found["reason"].startswith("with mask all false: ")
    probes = [each.fills for each in read_record(tmp_path).probes if each.fills.get("mask") != each.fills.get("other")]
    assert {"mask": Fill.NONE} in probes
    assert {"other": Fill.NONE} in probes


def test_a_copy_that_divides_by_a_zero_of_a_blank_sample_is_told_so(verdict: Verdict, tmp_path: Path) -> None:
    def scaled(feeds: Feeds, least: float = 1e-8) -> Array:
        x = feeds["x"].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(x / (np.sqrt((x * x).sum(-1, keepdims=True)) + least), np.float32)

    def without(feeds: Feeds) -> Array:
        return scaled(feeds, least=0)

    found = verdict(scaled, without, "x=float32[batch,5,24]")
    assert found["status"] == "wrong"
    assert found["reason"] == (
        "with x all 0, or 0 in single rows: 312 of 480 elements are NaN or infinite on one side only, "
        "first in output y; where no sample is so, give samples of yours: --data FILE.npz"
    )
    assert verdict(scaled, scaled, X)["status"] == "verified"
    assert verdict(without, scaled, X)["status"] == "verified"  # the model itself has no number there
    assert _fills(tmp_path) == []


def test_of_a_blank_sample_it_is_for_rounding_to_say_what_is_largest(verdict: Verdict, tmp_path: Path) -> None:
    def last(feeds: Feeds) -> Array:
        return np.asarray(23 - feeds["x"][..., ::-1].argmax(-1), np.float32)

    assert verdict(lambda feeds: feeds["x"].argmax(-1).astype(np.float32), last, X)["status"] == "verified"
    assert _fills(tmp_path) == ["blank"]


def test_samples_of_ones_own_are_taken_as_they_are(verdict: Verdict, tmp_path: Path) -> None:
    assert verdict(right, mean, X, "mask=bool[batch,24]", random=False)["status"] == "verified"
    assert _fills(tmp_path) == []


def _fills(folder: Path) -> list[str]:
    probes = read_record(folder).probes
    return [str(fill) for probe in probes if (probe.batch, *probe.sizes) == (2,) for fill in probe.fills.values()]


def test_a_copy_that_loses_the_last_place_of_a_full_row_is_told_so(verdict: Verdict) -> None:
    """Random masks begin with ones and end with zeros: no row of a call at another size sees its last place."""

    def shorter(feeds: Feeds) -> Array:
        full = feeds["mask"].all() & (feeds["mask"].shape[-1] > 64)
        places = np.arange(feeds["x"].shape[-1]) < 64
        return np.asarray(np.where(full, attended({**feeds, "x": feeds["x"] * places}, blind=0), right(feeds)))

    found = verdict(right, shorter, "x=float32[batch,heard]", "mask=int64[batch,heard]")
    assert found["status"] == "wrong"
    assert found["reason"].startswith("at heard=1025, with mask all 1: ")


@pytest.mark.parametrize(
    ("is_lost", "said"),
    [
        (lambda seen: ~seen[:, 0] & seen[:, -1], "padded on the left"),
        (lambda seen: np.abs(np.diff(seen.astype(int), axis=1)).sum(1) > 3, "with holes"),
        (lambda seen: (seen.sum(1) == 1) & ~seen[:, 0], "with one place seen"),
    ],
)
def test_masks_that_are_not_ones_and_then_zeros_are_asked(
    is_lost: Callable[[Array], Array], said: str, verdict: Verdict
) -> None:
    def copy(feeds: Feeds) -> Array:
        return np.asarray(np.where(is_lost(feeds["mask"] > 0)[:, np.newaxis], 0, right(feeds)))

    found = verdict(right, copy, "x=float32[batch,24]", "mask=int64[batch,24]")
    assert (found["status"], said in found["reason"]) == ("wrong", True)
