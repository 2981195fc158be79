"""Elements of integer outputs that rounding decides are found by rounding at random."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from transload.models.signature import Array, Signature, TensorSpec
from transload.pipeline.drift.rounding_ties import find_ties, settle
from transload.serving.runtimes.torch_callable import TorchSession

SIGNATURE = Signature(
    (TensorSpec("x", "float32", ("batch", 3)),),
    (TensorSpec("best", "int64", ("batch",)), TensorSpec("y", "float32", ("batch", 3))),
)


class Best(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 1.7 + 0.3
        return y.argmax(-1), y


def test_nearly_equal_scores_are_ties_and_no_others() -> None:
    session = TorchSession("torch", SIGNATURE, Best(), torch.device("cpu"))
    x = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    x[::4, 1] = x[::4, 0] = x[::4].max(axis=1) + 1
    x[1::4, 1] = np.nextafter(x[1::4, 0], np.float32(np.inf))
    tied = np.zeros(64, bool)
    tied[::4] = True
    answers = session.run({"x": x})
    tie_marks = find_ties(session, {"x": x}, answers)["best"]
    assert tie_marks[tied].all()
    apart = np.sort(x, axis=1)[:, 2] - np.sort(x, axis=1)[:, 1] > 1e-4
    assert not tie_marks[apart].any()


def test_answers_where_rounding_decides_are_taken_as_equal() -> None:
    reference: Mapping[str, Array] = {"best": np.array([0, 1, 2]), "y": np.ones(3)}
    candidate: Mapping[str, Array] = {"best": np.array([1, 1, 0]), "y": np.zeros(3)}
    settled, ties = settle(candidate, reference, {"best": np.array([True, True, False])})
    assert (settled["best"].tolist(), ties) == ([0, 1, 0], 1)
    assert settled["y"] is candidate["y"]
    assert settle(candidate, reference, {})[1] == 0
