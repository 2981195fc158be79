"""Custom autograd functions where a loop is compiled: each is what its forward does, whatever that is given."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, no-any-return"

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from transload.converters.to_pytorch.tracing import scripted, traced


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer's, of loops
        yield


class Spike(torch.autograd.Function):
    """A context with marks, with what backward reads and with what is read again at once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope, bias=None, mode="sharp"):
        ctx.save_for_backward(x)
        ctx.backward_of = lambda grown: grown
        ctx.slope = ctx.kept = slope
        ctx.set_materialize_grads(False)
        if ctx.needs_input_grad[0]:
            x = x * 100
        made = torch.sigmoid(x * ctx.slope)
        if bias is not None:
            made = made + bias
        return made.round() if mode == "sharp" else made

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients


class Power(torch.autograd.Function):
    """Without a context."""

    @staticmethod
    def forward(x, exponent):
        return x**exponent, x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])


class Marked(torch.autograd.Function):
    """One in whose forward there is nothing but marks before its answer."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return -x


def scaled(ctx: Any, x: Tensor) -> Tensor:
    return x if any(ctx.needs_input_grad) else 2 * x


class Needs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return scaled(ctx, x)


another_name = Marked.apply


class Spiking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = 2.5

    def forward(self, x: Tensor) -> Tensor:
        made = []
        for at in range(x.shape[1]):
            powers, twice = Power.apply(x[:, at], 3)
            soft = Spike.apply(powers, self.slope, twice, "soft")
            made.append(Spike.apply(powers, self.slope, None, "sharp") + another_name(soft))
        return torch.stack(made, 1)


class Needing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(x.shape[1]):
            x = Needs.apply(x)
        return x


def test_in_a_loop_that_is_compiled_a_function_is_its_forward() -> None:
    model = Spiking()
    apply = torch.autograd.Function.apply
    made = scripted(model, None, (torch.randn(2, 3),))
    assert torch.autograd.Function.apply == apply
    for shape in ((2, 3), (1, 1), (3, 7)):
        x = torch.randn(shape)
        with torch.no_grad():
            torch.testing.assert_close(made(x), model(x))
    assert "PythonOp" not in str(made.inlined_graph)


def test_one_that_needs_its_context_is_named_by_the_line_that_does() -> None:
    with pytest.raises(RuntimeError, match="no attribute or method 'needs_input_grad'") as caught:
        scripted(Needing(), None, (torch.randn(2, 3),))
    assert "return x if any(ctx.needs_input_grad) else 2 * x" in str(caught.value)


def test_in_a_trace_no_input_needs_a_gradient() -> None:
    class Once(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return Spike.apply(x, 1.5, None, "soft")

    x = torch.randn(2, 3)
    torch.testing.assert_close(traced(Once(), (x,))(x), torch.sigmoid(1.5 * x))
