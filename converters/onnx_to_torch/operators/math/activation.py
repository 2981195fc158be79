"""Activations and softmax."""

from __future__ import annotations

from ....onnx_graph.semantics.axis_lists import softmax_axes
from ...safe_names import number
from ...writers import FLOATS, MICROSOFT, NUMBERS, CodegenContext, OutputCode, write_as, writes

for _name, _since, _code in (
    ("Elu", 6, "F.elu({0}, {alpha})"),
    ("HardSigmoid", 6, "torch.clamp({alpha} * {0} + {beta}, 0, 1)"),
    ("HardSwish", 1, "F.hardswish({0})"),
    ("LeakyRelu", 6, "F.leaky_relu({0}, {alpha})"),
    ("Mish", 1, "F.mish({0})"),
    ("Selu", 6, "{gamma} * F.elu({0}, {alpha})"),
    ("Softplus", 1, "F.softplus({0}, threshold=40)"),  # above it exp(-x) is nothing beside 1, in float64 too
    ("Softsign", 1, "F.softsign({0})"),
    ("ThresholdedRelu", 1, "torch.where({0} > {alpha}, {0}, torch.zeros_like({0}))"),
):
    write_as(_name, _code, since=_since, T=FLOATS)

write_as("Celu", "F.celu({0}, {alpha})", since=12, until=28, T=FLOATS)
write_as("Relu", "torch.relu({0})", since=6, T=NUMBERS)
write_as("PRelu", "torch.where({0} < 0, {1} * {0}, {0})", since=7, T=NUMBERS)


@writes("Shrink", since=9, T=NUMBERS)
def shrink(op: CodegenContext) -> OutputCode:
    """Write Shrink: x + bias below -lambd, x - bias above lambd, 0 between."""
    x = op.value(0)
    dtype = x.dtype if x.dtype in FLOATS else "float64"
    bias, edge = op.literal("bias", dtype), op.literal("lambd", dtype)
    code = f"torch.where({x} < -{edge}, {x} + {bias}, torch.where({x} > {edge}, {x} - {bias}, torch.zeros_like({x})))"
    return code if x.dtype in FLOATS else f"{code}.to(torch.{x.dtype})"


@writes("Swish", since=24, T=FLOATS)
def swish(op: CodegenContext) -> OutputCode:
    """Write Swish: x sigmoid(alpha x)."""
    x, alpha = op.value(0), op.literal("alpha", op.value(0).dtype)
    return f"F.silu({x})" if alpha == "1.0" else f"{x} * torch.sigmoid({alpha} * {x})"


@writes("Gelu", since=20, T=FLOATS)
@writes("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT, T=FLOATS)
def gelu(op: CodegenContext) -> OutputCode:
    """Write Gelu, in ONNX Runtime's domain of a sum if there is a bias: exact by erf, or by tanh."""
    x, bias = op.value(0), op.optional(1) if op.domain else None
    tanh = op.op_type == "FastGelu" if op.domain else op.word("approximate", "none", ("none", "tanh")) == "tanh"
    approximation = ', approximate="tanh"' if tanh else ""
    return f"F.gelu({x if bias is None else f'{x} + {bias}'}{approximation})"


@writes("QuickGelu", domain=MICROSOFT, T=FLOATS)
def quick_gelu(op: CodegenContext) -> OutputCode:
    """Write x sigmoid(alpha x)."""
    x = op.value(0)
    return f"{x} * torch.sigmoid({number(op.real('alpha', 1.702), x.dtype)} * {x})"


@writes("Softmax", "LogSoftmax", "Hardmax", since=1, T=FLOATS)
def softmax(op: CodegenContext) -> OutputCode:
    """Write a softmax along one axis, or along all from an axis on as if they were one."""
    x, axes = op.value(0), softmax_axes(op)
    function = {"Softmax": "torch.softmax", "LogSoftmax": "torch.log_softmax", "Hardmax": "hardmax"}[op.op_type]
    if not axes.flattens:
        return f"{function}({x}, {axes.axis})"
    return f"{function}({x}.flatten({axes.axis}), -1).reshape({x}.shape)"
