"""Complex numbers that torch's dynamo exporter has no ONNX of: the operator and the model's line are named."""

from __future__ import annotations

import warnings

import pytest
import torch

from transload.converters.torch_operators.complexes import complex_refused


class Rotated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.turned(x).real

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(1j * x)


class Unknown(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


def failed(model: torch.nn.Module) -> tuple[Exception, torch.export.ExportedProgram]:
    program = torch.export.export(model, (torch.randn(2, 3),))
    with warnings.catch_warnings(), pytest.raises(Exception, match="Failed to convert") as caught:
        warnings.simplefilter("ignore")
        torch.onnx.export(program, dynamo=True, opset_version=20, verbose=False)
    return caught.value, program


def test_complex_numbers_are_called_so_with_operator_and_line() -> None:
    refused = complex_refused(*failed(Rotated()))
    assert refused is not None
    assert refused.what.startswith(
        "torch's exporter has no ONNX of aten.mul.Scalar of complex numbers, at test_complexes"
    )
    assert refused.what.endswith("(`return self.turned(x).real`) or in what it calls")


def test_what_lacks_for_other_reasons_is_not() -> None:
    assert complex_refused(*failed(Unknown())) is None
