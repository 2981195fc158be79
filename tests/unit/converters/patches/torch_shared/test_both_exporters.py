"""What both of torch's exporters have wrong, as in PyTorch: quotients and what is left, of floats where the quotient is
rounded up to a whole number, is infinite or none, and of whole numbers below zero; functions at their ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter

Tensors = tuple[Tensor, ...]
NUMBERS = (0.0, -0.0, 0.1, -0.3, 0.5, 0.9, -1, 1.5, 2, -3, 5.4, 10, -16.7, 1e4, 3e9, -1e20, 1e30, torch.inf, -torch.inf)


class Floats(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        of_two = x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")
        of_numbers = x // 0.1, x % 0.9, torch.div(x, 0.1, rounding_mode="floor"), 0.3 // y, -0.3 % y
        whole = x.clamp(-99, 99).nan_to_num().int()
        return *of_two, *of_numbers, whole // 0.1, whole % y, x.double() // y, x.half() % y.half()


class Integers(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        of_two = x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")
        of_numbers = x // -3, 100 // y, 100 % y, torch.div(x, -3, rounding_mode="floor"), x % 7, x.abs().byte() // 7
        sizes = x.shape[0] // 2, x.shape[0] % 3, (x.shape[0] - 9) // 2, (x.shape[0] - 9) % 4
        return *of_two, *of_numbers, *(x + size for size in sizes)


class Ends(torch.nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensors:
        sums = torch.logaddexp(x, y), torch.logaddexp2(x, y), torch.stack([x, y], 1).logsumexp(1)
        kept = torch.stack([-x.abs() - 100, x], -1).logsumexp((-1, 0), keepdim=True)
        below = torch.nn.functional.softplus(x, 0.1, 5.0)
        return *sums, kept, torch.atan2(x, y), below, x.any(1), (x / 4).all(1), x.int().any(1), (y > 0).any()


def floats(rows: int) -> Tensors:
    few = torch.randint(-60, 60, (rows, len(NUMBERS))) / 10
    every = torch.tensor(NUMBERS).expand(len(NUMBERS), -1)
    return torch.cat([every, few]), torch.cat([every.T, few.flip(0) + 0.05])


def integers(rows: int) -> Tensors:
    return torch.randint(-50, 50, (rows, 9)), torch.randint(1, 9, (rows, 9)) * torch.randint(0, 2, (rows, 9)).mul(
        2
    ).sub(1)


def by_dynamo(model: torch.nn.Module, given: Tensors, path: str) -> None:
    rows = {name: {0: torch.export.Dim.DYNAMIC} for name in "xy"}
    program = torch.export.export(model, given, dynamic_shapes=rows, strict=False)
    made = torch.onnx.export(
        program, dynamo=True, opset_version=20, optimize=False, verbose=False, custom_translation_table=translations()
    )
    assert made is not None
    made.save(path)


def by_the_older(model: torch.nn.Module, given: Tensors, path: str) -> None:
    mend_older_exporter()
    axes = {name: {0: "rows"} for name in "xy"}
    torch.onnx.export(model, given, path, dynamo=False, opset_version=17, input_names=["x", "y"], dynamic_axes=axes)


@pytest.mark.parametrize("export", [by_dynamo, by_the_older])
@pytest.mark.parametrize(("kind", "asked"), [(Floats, floats), (Ends, floats), (Integers, integers)])
def test_numbers_are_as_in_pytorch(
    kind: type[torch.nn.Module],
    asked: Callable[[int], Tensors],
    export: Callable[[torch.nn.Module, Tensors, str], None],
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    model, path = kind().eval(), str(tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters', each about itself
        export(model, asked(4), path)
    session = onnxruntime.InferenceSession(path)
    for rows in (4, 33, 2):
        x, y = asked(rows)
        got = session.run(None, {"x": x.numpy(), "y": y.numpy()})
        for at, (one, want) in enumerate(zip(got, model(x, y), strict=True)):
            assert one.dtype == want.numpy().dtype, at
            np.testing.assert_allclose(one, want.numpy(), rtol=1e-6, atol=1e-7, err_msg=f"output {at}")
