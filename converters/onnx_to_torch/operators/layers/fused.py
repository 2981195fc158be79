"""The fused operators of ONNX Runtime's optimiser (com.microsoft): products and activations."""

from __future__ import annotations

from ...operator_context import CodegenContext
from ...safe_names import number
from ...writers import FLOATS, MICROSOFT, OutputCode, writes


@writes("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT, T=FLOATS)
def gelu(op: CodegenContext) -> OutputCode:
    """Write Gelu, of a sum if there is a bias: exact by erf, or by tanh."""
    x, bias = op.value(0), op.optional(1)
    approximation = ', approximate="tanh"' if op.op_type == "FastGelu" else ""
    return f"F.gelu({x if bias is None else f'{x} + {bias}'}{approximation})"


@writes("QuickGelu", domain=MICROSOFT, T=FLOATS)
def quick_gelu(op: CodegenContext) -> OutputCode:
    """Write x sigmoid(alpha x)."""
    x = op.value(0)
    return f"{x} * torch.sigmoid({op.literal('alpha', 1.702, x.dtype)} * {x})"


@writes("FusedMatMul", domain=MICROSOFT, T=FLOATS)
def fused_matmul(op: CodegenContext) -> OutputCode:
    """Write alpha A B, with either matrix transposed where the attributes say so."""
    if op.flag("transBatchA") or op.flag("transBatchB"):
        op.refuse("its attributes transBatchA and transBatchB are not carried", fix="export without this fusion")
    left, right, alpha = op.value(0), op.value(1), op.real("alpha", 1.0)
    if left.rank < 2 or right.rank < 2:
        op.refuse("it multiplies a vector", fix="export without this fusion")
    a = f"{left}.transpose(-2, -1)" if op.flag("transA") else f"{left}"
    b = f"{right}.transpose(-2, -1)" if op.flag("transB") else f"{right}"
    product = f"torch.matmul({a}, {b})"
    return product if alpha == 1 else f"{number(alpha, left.dtype)} * {product}"
