"""Complex numbers inside a model through torch's dynamo exporter: as in PyTorch; of what has no ONNX the operator and
the model's line are named."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from transload.converters.patches.torch_export.open_sizes import keeping_sizes
from transload.converters.patches.torch_onnx_dynamo.complex_numbers import (
    complex_refused,
    register_complex_translations,
)


class Turned(torch.nn.Module):
    """Positions as in Llama's first code, a filter over frequencies, a state space's kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(5, 4), torch.randn(5, 4)))
        self.register_buffer("filter", torch.randn(3, 8, 2, dtype=torch.cfloat))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:2], 4, 2))
        turned = torch.view_as_real(pairs * self.turns[None]).flatten(2)  # type: ignore[index]
        mixed = torch.einsum("bfi,fio->bfo", torch.fft.rfft(x, dim=1), self.filter)
        kernel = torch.exp((-0.5 + 1j * torch.arange(4)) * x[..., :4].abs())
        chosen = torch.where(x[..., :4] > 0, pairs, 2j * pairs.unsqueeze(-1).squeeze(-1))
        summed = torch.einsum("btd->bd", pairs), torch.cumsum(kernel, -1)
        low = torch.zeros(x.shape[0], 5, 4, dtype=torch.cfloat)
        low[:, 1:4] = torch.cat([pairs[:, :2], torch.zeros_like(pairs[:, 2:3])], 1)
        parts = kernel.real, chosen.imag, low.imag, *(each.imag for each in summed)
        return turned, torch.fft.irfft(mixed, n=5, dim=1), *parts


def test_complex_numbers_inside_a_model_are_as_in_pytorch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    register_complex_translations()
    model, path = Turned().eval(), tmp_path / "model.onnx"
    rows = {0: torch.export.Dim.DYNAMIC}
    with keeping_sizes():
        program = torch.export.export(model, (torch.randn(3, 5, 8),), dynamic_shapes=(rows,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's, about itself
        made = torch.onnx.export(program, dynamo=True, opset_version=20, optimize=False, verbose=False)
    assert made is not None
    made.save(path)
    session = onnxruntime.InferenceSession(path)
    for batch in (2, 1):
        x = torch.randn(batch, 5, 8)
        for at, (got, want) in enumerate(zip(session.run(None, {"x": x.numpy()}), model(x), strict=True)):
            np.testing.assert_allclose(got, want, atol=1e-5, err_msg=f"output {at}")


class Rotated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.turned(x).real

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.tan(1j * x)
        return made


class Unknown(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.special.bessel_j0(x)
        return made


def failed(model: torch.nn.Module) -> tuple[Exception, torch.export.ExportedProgram]:
    register_complex_translations()
    program = torch.export.export(model, (torch.randn(2, 3),))
    with warnings.catch_warnings(), pytest.raises(Exception, match="Failed to convert") as caught:
        warnings.simplefilter("ignore")
        torch.onnx.export(program, dynamo=True, opset_version=20, verbose=False)
    return caught.value, program


def test_complex_numbers_are_called_so_with_operator_and_line() -> None:
    refused = complex_refused(*failed(Rotated()))
    assert refused is not None
    assert refused.what.startswith(
        "torch's exporter has no ONNX of aten.tan.default of complex numbers, at test_complex_numbers"
    )
    assert refused.what.endswith("(`return self.turned(x).real`) or in what it calls")


def test_what_lacks_for_other_reasons_is_not() -> None:
    assert complex_refused(*failed(Unknown())) is None
