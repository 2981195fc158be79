"""Right copies of models that multiply what is rounded in them, and wrong copies of the same models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.models.artifact import write_artifact
from transload.models.dataset import Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Array, Signature, TensorSpec, parse_input
from transload.pipeline.drift import jobs, reference
from transload.serving.runtimes.torch_callable import TorchSession

WIDTH = 16
Function = Callable[[torch.Tensor], Any]
Verdict = Callable[..., tuple[str, str]]
RNG = np.random.default_rng(0)
WEIGHT = torch.from_numpy((1 + 0.3 * RNG.normal(size=WIDTH)).astype(np.float32))
WRONG_WEIGHT = WEIGHT * torch.where(torch.arange(WIDTH) == 3, 1.02, 1.0)
SAMPLES = RNG.normal(size=(200, WIDTH)).astype(np.float32)
MATRIX = torch.from_numpy(RNG.normal(size=(WIDTH, WIDTH)).astype(np.float32))


class Model(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.fixture
def verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    (tmp_path / "model.onnx").touch()
    inputs = dict.fromkeys(("model", "artifact", "data", "reference"), tmp_path)

    def check(
        source: Function,
        copy: Function,
        x: Array,
        *,
        stress: bool = False,
        precision: str = "fp32",
        order: Callable[[Sequence[TensorSpec]], Iterable[TensorSpec]] = tuple,
        work: Callable[[Job], Any] = jobs.validate,
    ) -> Any:
        torch.manual_seed(0)
        outputs = source(torch.from_numpy(x[:2]))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        specs = tuple(
            TensorSpec(f"y{at}", str(array.dtype).removeprefix("torch."), ("batch", *array.shape[1:]))
            for at, array in enumerate(outputs)
        )
        dims = ",".join(map(str, x.shape[1:]))
        signature = Signature((parse_input(f"x=float32[batch,{dims}]"),), specs)
        write_dataset(tmp_path / "test.npz", Dataset({"x": x}))

        def opener(function: Function, signature: Signature = signature) -> Callable[..., TorchSession]:
            return lambda *_: TorchSession("torch", signature, Model(function), torch.device("cpu"))

        monkeypatch.setattr(reference, "open_for", opener(source))
        monkeypatch.setattr(jobs, "open_for", opener(copy, replace(signature, outputs=tuple(order(specs)))))
        reference.answer(Job(inputs, tmp_path, {"runtime": "torch", "stress": stress, "random": stress}))
        write_artifact(tmp_path, Target(Format.ONNX), signature)
        facts = work(Job(inputs, tmp_path, {"runtime": "onnxruntime", "precision": precision}))
        if work is jobs.verify:
            return facts["status"], facts["reason"]
        verdicts = {str(row["verdict"]) for row in facts["rows"]}
        worst = next(word for word in ("fail", "inconclusive", "pass") if word in verdicts)
        notes = {row["lost"]: None for row in facts["rows"] if row.get("lost")}
        return worst, "; ".join([*filter(None, (facts["reason"], facts.get("silence"), facts.get("note"))), *notes])

    return check


def layer_norm(x: torch.Tensor, epsilon: float = 1e-5, weight: torch.Tensor = WEIGHT) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (WIDTH,), weight, None, epsilon)


def two_passes(x: torch.Tensor, epsilon: float = 1e-5, weight: torch.Tensor = WEIGHT) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + epsilon) * weight


def other_order(x: torch.Tensor, epsilon: float = 1e-5, weight: torch.Tensor = WEIGHT) -> torch.Tensor:
    centred = x - x.flip(-1).cumsum(-1)[..., -1:] / WIDTH
    return centred * torch.rsqrt((centred * centred).flip(-1).cumsum(-1)[..., -1:] / WIDTH + epsilon) * weight


def wide_sums(x: torch.Tensor, epsilon: float = 1e-5, weight: torch.Tensor = WEIGHT) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x.double(), (WIDTH,), weight.double(), None, epsilon).float()


def offset(share: int, mean: float, spread: float) -> Array:
    """Samples of which one in `share` lies around `mean`; the first fifty only where all do."""
    x = SAMPLES.copy()
    x[50 * (share > 1) :: share] = (mean + spread * x[50 * (share > 1) :: share]).astype(np.float32)
    return x


ILL_CONDITIONED = {
    "all far from 0": offset(1, 1e4, 0.03),
    "some far from 0": offset(10, 1e4, 0.03),
    "some less far from 0": offset(10, 1e3, 1),
    "some constant": offset(10, 1234.567, 0),
}


@pytest.mark.parametrize("copy", [two_passes, other_order, wide_sums])
@pytest.mark.parametrize("data", ILL_CONDITIONED)
def test_a_norm_of_nearly_equal_numbers_may_be_summed_in_another_order(
    data: str, copy: Function, verdict: Verdict
) -> None:
    assert verdict(layer_norm, copy, ILL_CONDITIONED[data])[0] == "pass"


@pytest.mark.parametrize("copy", [two_passes, other_order, wide_sums])
def test_a_norm_after_a_large_bias_may_be_summed_in_another_order(copy: Function, verdict: Verdict) -> None:
    shifted = verdict(lambda x: layer_norm(x * 1e-2 + 1e3), lambda x: copy(x * 1e-2 + 1e3), SAMPLES)
    assert shifted[0] == "pass"


@pytest.mark.parametrize("copy", [two_passes, other_order, wide_sums])
@pytest.mark.parametrize("data", ILL_CONDITIONED)
def test_a_norm_with_another_epsilon_or_weight_is_wrong(data: str, copy: Any, verdict: Verdict) -> None:
    x = ILL_CONDITIONED[data]
    assert verdict(layer_norm, lambda x: copy(x, epsilon=1e-3), x)[0] == "fail"
    if data.startswith("some"):  # in samples far from 0 alone it is less than what rounding makes
        assert verdict(layer_norm, lambda x: copy(x, weight=WRONG_WEIGHT), x)[0] == "fail"


def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.softmax(-1), x * 2


def test_outputs_of_a_users_copy_are_known_by_name(verdict: Verdict) -> None:
    words = "the outputs come in the order y1, y0, the reference's in y0, y1"
    exchanged: Function = lambda x: both(x)[::-1]  # noqa: E731
    assert verdict(both, exchanged, SAMPLES, order=reversed) == ("pass", words)
    wrong, reason = verdict(both, both, SAMPLES, order=reversed)
    assert (wrong, "exchanged" in reason) == ("fail", True)
    assert verdict(both, exchanged, SAMPLES)[0] == "fail"
    assert verdict(both, exchanged, SAMPLES, order=reversed, work=jobs.verify) == ("wrong", f"at batch 1: {words}")


SCORES: dict[str, Function] = {
    "relu": torch.relu,
    "relu of sums": lambda x: torch.relu(x @ MATRIX),
    "relu6": lambda x: torch.nn.functional.relu6(x * 3),
    "round": torch.round,
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "where": lambda x: torch.where(x > 0, x, 0),
}
COUNT = 12


def first_of_equal(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.sort(scores, dim=-1, descending=True, stable=True)
    return values[..., :COUNT], indices[..., :COUNT]


def last_of_equal(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.sort(scores.flip(-1), dim=-1, descending=True, stable=True)
    return values[..., :COUNT], WIDTH - 1 - indices[..., :COUNT]


def one_moved(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.topk(scores, COUNT)
    return values, torch.where(indices == 3, 5, indices)


@pytest.mark.parametrize("scores", SCORES)
def test_equal_scores_have_any_order_and_others_have_one(scores: str, verdict: Verdict) -> None:
    score, x = SCORES[scores], SAMPLES[:64]

    def source(x: torch.Tensor) -> Any:
        return tuple(torch.topk(score(x), COUNT))

    for copy in (first_of_equal, last_of_equal):
        assert verdict(source, lambda x, copy=copy: copy(score(x)), x, stress=True)[0] == "pass"
    assert verdict(source, lambda x: one_moved(score(x)), x, stress=True)[0] == "fail"


def quantized(x: torch.Tensor, least: int = -128) -> torch.Tensor:
    return torch.fake_quantize_per_tensor_affine(x, 0.05, 0, least, 127)


def quantized_by_channel(x: torch.Tensor) -> torch.Tensor:
    return torch.fake_quantize_per_channel_affine(x, torch.full((WIDTH,), 0.05), torch.zeros(WIDTH).int(), 1, -128, 127)


def with_nan_as(number: float, x: torch.Tensor) -> torch.Tensor:
    return x.nan_to_num(number, 3e4, -3e4)


def to_integers(x: torch.Tensor) -> torch.Tensor:
    return (x * 10).long()


# The model, a copy that makes something else of NaN, and a wrong copy.
UNDEFINED: dict[str, tuple[Function, Function, Function]] = {
    "quantizer": (quantized, lambda x: quantized(with_nan_as(1e9, x)), lambda x: quantized(x, -20)),
    "quantizer kept out": (
        lambda x: quantized(x) @ MATRIX,
        lambda x: torch.where(x.isnan(), x, quantized(x)) @ MATRIX,
        lambda x: quantized(x) @ MATRIX.T,
    ),
    "quantizer by channel": (
        lambda x: torch.relu(quantized_by_channel(x) @ MATRIX),
        lambda x: torch.relu(quantized(with_nan_as(0, x)) @ MATRIX),
        lambda x: torch.relu(quantized_by_channel(x) @ MATRIX) + 0.1,
    ),
    "cast": (
        lambda x: to_integers(x).float() * 0.1,
        lambda x: to_integers(with_nan_as(0, x)).float() * 0.1,
        lambda x: to_integers(x + 0.01).float() * 0.1,
    ),
    "index": (
        lambda x: MATRIX[to_integers(x).clamp(0, 15)],
        lambda x: MATRIX[to_integers(with_nan_as(0.5, x)).clamp(0, 15)],
        lambda x: MATRIX[to_integers(x).clamp(1, 15)],
    ),
    "argmax": (
        lambda x: MATRIX[x.argmax(-1)],
        lambda x: MATRIX[with_nan_as(-1e9, x).argmax(-1)],
        lambda x: MATRIX[with_nan_as(-1e9, x)[:, 1:].argmax(-1)],
    ),
    "guard": (
        lambda x: quantized(with_nan_as(0, x)),
        lambda x: quantized(with_nan_as(0.0, x)),
        lambda x: quantized(with_nan_as(1, x)),
    ),
}


@pytest.mark.parametrize("kind", UNDEFINED)
def test_nan_has_any_integer_and_numbers_have_one(kind: str, verdict: Verdict) -> None:
    source, right, wrong = UNDEFINED[kind]
    assert verdict(source, right, SAMPLES[:64], stress=True)[0] == "pass"
    assert verdict(source, wrong, SAMPLES[:64], stress=True)[0] == "fail"
