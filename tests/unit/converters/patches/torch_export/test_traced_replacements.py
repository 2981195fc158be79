"""What torch's older exporter lacks, in words that it has: the same answers, at another size than the traced one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from transload.converters.patches.torch_export.traced_replacements import swap_traced_functions
from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter

Function = Callable[[torch.Tensor], torch.Tensor]
NORM = torch.nn.RMSNorm(4).requires_grad_(False)
WORDS: dict[str, Function] = {
    "mT": lambda x: x.mT + 1,
    "mH": lambda x: x.adjoint() * x.mH,
    "argwhere": lambda x: torch.argwhere(x > 0),
    "channel_shuffle": lambda x: torch.nn.functional.channel_shuffle(x.transpose(1, 2), 2),
    "count_nonzero": lambda x: torch.count_nonzero(x.relu(), 1) + torch.count_nonzero(x.relu()),
    "diff": lambda x: x.diff(n=2, dim=1),
    "diff of more": lambda x: torch.diff(x, dim=-1, prepend=x[..., :1], append=x[..., 2:]),
    "diff of flags": lambda x: torch.diff(x > 0, dim=1),
    "trunc": lambda x: torch.trunc(x * 3) + x.fix(),
    "frac": lambda x: (x * 3).frac(),
    "float_power": lambda x: torch.float_power(x, 2).float(),
    "isclose": lambda x: torch.isclose(x, x + x * 1e-4 * (x > 0), rtol=1e-5),
    "isin": lambda x: torch.isin(x.round(), torch.tensor([0.0, 1.0])),
    "isneginf": lambda x: torch.isneginf(x.log()) | torch.isposinf(-x.log()),
    "msort": lambda x: torch.msort(x),  # noqa: PLW0108  (looked up while it is replaced)
    "nanmean": lambda x: x.log().nanmean(1),
    "nanmean of all": lambda x: x.log().nanmean() + x.log().nansum((1, 2), keepdim=True),
    "rms_norm": NORM,
    "rot90": lambda x: torch.cat([torch.rot90(x, k, (1, 2)).flatten(1) for k in range(-1, 4)], 1),
    "stable": lambda x: x.round().sort(dim=1, stable=True).indices + torch.argsort(x.round(), dim=1, stable=True),
    "take_along_dim": lambda x: torch.take_along_dim(x, x[:1].argsort(1), 1),
    "take_along_dim of all": lambda x: x.take_along_dim(x.flatten().argsort()),
    "linspace": lambda x: x.sum((1, 2))[:, None] + torch.linspace(0, x.shape[1] + 24, 8).long(),
    "linspace of numbers": lambda x: torch.bucketize(torch.linspace(-1, 1, 29), torch.tensor([-0.5, 0, 0.5])) + x.sum(),
    "linspace of sizes": lambda x: (torch.linspace(0, x.shape[1] * 9, x.shape[1] * 3) * 8).long() + x.sum(),
    "unflatten": lambda x: x.unflatten(2, (2, -1)).sum(-1),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_older_exporter_has_a_word_for_it(name: str, tmp_path: Path) -> None:
    function = WORDS[name]

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    mend_older_exporter()
    path = tmp_path / "model.onnx"
    own = torch.sort, torch.Tensor.mT
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter is deprecated, and its tracer warns of sizes
        with swap_traced_functions():
            torch.onnx.export(
                Model(), (torch.randn(3, 5, 4),), str(path), dynamo=False, opset_version=18, input_names=["x"],
                dynamic_axes={"x": {0: "batch", 1: "length"}},
            )  # fmt: skip
    assert (torch.sort, torch.Tensor.mT) == own
    x = torch.randn(2, 7, 4).round(decimals=1)
    (got,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(got, function(x).numpy(), rtol=1e-5, atol=1e-6)
