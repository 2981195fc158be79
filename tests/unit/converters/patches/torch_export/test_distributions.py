"""Models that take torch.distributions: by both exporters, and what they need of operators that torch's have not."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Gamma, Normal, StudentT

from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from transload.converters.to_pytorch.pt2_from_source import export
from transload.converters.to_pytorch.tracing import data_questions
from transload.models.errors import Refused
from transload.models.signature import Signature, parse_input


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own
        yield


class Likely(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        size = x.abs() + 0.1
        likely = StudentT(size + 1, x, size).log_prob(x + 1) + Gamma(size, size).log_prob(size)
        return likely + Normal(x, size).log_prob(torch.atanh(x.clamp(-0.9, 0.9)))


class Told(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Normal(x, x.exp(), validate_args=True).log_prob(x)


SIGNATURE = Signature((parse_input("x=float32[batch,4]"),), (parse_input("y=float32[batch,4]"),))


def test_checks_of_arguments_stand_in_no_ones_way() -> None:
    own = Distribution._validate_args
    program = export(Likely(), SIGNATURE)
    assert Distribution._validate_args is own
    x = torch.randn(5, 4)
    torch.testing.assert_close(program.module()(x), Likely()(x))
    assert data_questions(Likely(), SIGNATURE) == {}


def test_checks_that_a_model_asks_for_are_named() -> None:
    with pytest.raises(Refused) as caught:
        export(Told(), SIGNATURE)
    file, line = Told.forward.__code__.co_filename, Told.forward.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"torch.distributions checks its arguments by their data, at {file}:{line} "
        "(`return Normal(x, x.exp(), validate_args=True).log_prob(x)`)\n"
        "  fix: leave validate_args=True out there: it changes no answer"
    )


class Functions(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        near = x.clamp(-0.99, 0.99)
        return torch.lgamma(x), torch.atanh(near), torch.asinh(x), torch.acosh(x.abs() + 1), near.sinh(), near.cosh()


ENDS = [
    0.0,
    1e-30,
    1e-3,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    50.0,
    1e10,
    1e38,
    torch.inf,
    -0.5,
    -1.0,
    -1.5,
    -2.0,
    -7.25,
    torch.nan,
]


@pytest.mark.parametrize("is_dynamo", [True, False])
def test_logs_of_gamma_and_hyperbolic_functions(is_dynamo: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "model.onnx")
    example = torch.randn(3)
    if is_dynamo:
        program = torch.export.export(Functions(), (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
        made = torch.onnx.export(program, dynamo=True, custom_translation_table=translations(), verbose=False)
        assert made is not None
        made.save(path)
    else:
        mend_older_exporter()
        axes = {"x": {0: "n"}}
        torch.onnx.export(
            Functions(), (example,), path, dynamo=False, opset_version=17, input_names=["x"], dynamic_axes=axes
        )
    session = onnxruntime.InferenceSession(path)
    x = torch.cat([torch.tensor(ENDS), torch.logspace(-3, 3, 400), -torch.linspace(0.01, 20, 100)])
    got = session.run(None, {"x": x.numpy()})
    for one, want in zip(got, Functions()(x), strict=True):
        np.testing.assert_allclose(one, want.numpy(), rtol=2e-6, atol=2e-5)
