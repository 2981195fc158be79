"""Activations and softmax."""

from __future__ import annotations

from ....onnx_graph.semantics.axis_lists import softmax_axes
from ...operator_context import CodegenContext
from ...safe_names import number
from ...writers import FLOATS, NUMBERS, OutputCode, write_call, writes

_PLAIN = {"HardSwish": "F.hardswish", "Mish": "F.mish", "Softsign": "F.softsign"}


for _name, _function in _PLAIN.items():
    write_call(_name, _function, since=1, dtypes=FLOATS)


@writes("Relu", since=6, T=NUMBERS)
def relu(op: CodegenContext) -> OutputCode:
    """Write Relu: max(x, 0)."""
    return f"torch.relu({op.value(0)})"


@writes("PRelu", since=7, T=NUMBERS)
def prelu(op: CodegenContext) -> OutputCode:
    """Write PRelu: x, or slope x where x is negative."""
    x, slope = op.value(0), op.value(1)
    return f"torch.where({x} < 0, {slope} * {x}, {x})"


@writes("LeakyRelu", "Elu", since=6, T=FLOATS)
@writes("Celu", since=12, until=28, T=FLOATS)
def below_zero(op: CodegenContext) -> OutputCode:
    """Write LeakyRelu, Elu or Celu: x, or below zero alpha x, alpha (exp(x) - 1) or alpha (exp(x / alpha) - 1)."""
    x, function = op.value(0), {"LeakyRelu": "leaky_relu", "Elu": "elu", "Celu": "celu"}[op.op_type]
    return f"F.{function}({x}, {number(op.real('alpha'), x.dtype)})"


@writes("Selu", since=6, T=FLOATS)
def selu(op: CodegenContext) -> OutputCode:
    """Write Selu: gamma x, or gamma alpha (exp(x) - 1) where x is negative."""
    x = op.value(0)
    alpha = op.literal("alpha", 1.67326319217681884765625, x.dtype)
    return f"{op.literal('gamma', 1.05070102214813232421875, x.dtype)} * F.elu({x}, {alpha})"


@writes("ThresholdedRelu", since=1, T=FLOATS)
def thresholded_relu(op: CodegenContext) -> OutputCode:
    """Write ThresholdedRelu: x where it is larger than alpha, and 0 elsewhere."""
    x = op.value(0)
    return f"torch.where({x} > {op.literal('alpha', 1.0, x.dtype)}, {x}, torch.zeros_like({x}))"


@writes("Shrink", since=9, T=NUMBERS)
def shrink(op: CodegenContext) -> OutputCode:
    """Write Shrink: x + bias below -lambd, x - bias above lambd, 0 between."""
    x = op.value(0)
    dtype = x.dtype if x.dtype in FLOATS else "float64"
    bias, edge = op.literal("bias", 0.0, dtype), op.literal("lambd", 0.5, dtype)
    code = f"torch.where({x} < -{edge}, {x} + {bias}, torch.where({x} > {edge}, {x} - {bias}, torch.zeros_like({x})))"
    return code if x.dtype in FLOATS else f"{code}.to(torch.{x.dtype})"


@writes("HardSigmoid", since=6, T=FLOATS)
def hard_sigmoid(op: CodegenContext) -> OutputCode:
    """Write HardSigmoid: alpha x + beta, cut to 0 .. 1."""
    x = op.value(0)
    alpha, beta = op.literal("alpha", 0.2, x.dtype), op.literal("beta", 0.5, x.dtype)
    return f"torch.clamp({alpha} * {x} + {beta}, 0, 1)"


@writes("Softplus", since=1, T=FLOATS)
def softplus(op: CodegenContext) -> OutputCode:
    """Write Softplus: log(1 + exp(x)). Above the threshold exp(-x) is nothing beside 1, in float64 too, and x is
    returned."""
    return f"F.softplus({op.value(0)}, threshold=40)"


@writes("Swish", since=24, T=FLOATS)
def swish(op: CodegenContext) -> OutputCode:
    """Write Swish: x sigmoid(alpha x)."""
    x, alpha = op.value(0), op.literal("alpha", 1.0, op.value(0).dtype)
    return f"F.silu({x})" if alpha == "1.0" else f"{x} * torch.sigmoid({alpha} * {x})"


@writes("Gelu", since=20, T=FLOATS)
def gelu(op: CodegenContext) -> OutputCode:
    """Write Gelu: exact by erf, or by tanh."""
    kind = op.word("approximate", "none", ("none", "tanh"))
    return f'F.gelu({op.value(0)}, approximate="tanh")' if kind == "tanh" else f"F.gelu({op.value(0)})"


def _softmax(name: str, function: str) -> None:
    @writes(name, since=1, T=FLOATS)
    def along_axis(op: CodegenContext) -> OutputCode:
        x, axes = op.value(0), softmax_axes(op)
        if not axes.flattens:
            return f"{function.format(x=x, axis=axes.axis)}"
        return f"{function.format(x=f'{x}.flatten({axes.axis})', axis=-1)}.reshape({x}.shape)"


_softmax("Softmax", "torch.softmax({x}, {axis})")
_softmax("LogSoftmax", "torch.log_softmax({x}, {axis})")
_softmax("Hardmax", "hardmax({x}, {axis})")
