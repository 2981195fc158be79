"""Padding and cutting of whole tensors. The padding of convolutions and pools lies with them."""

from __future__ import annotations

from collections.abc import Sequence

from ....onnx_graph.semantics.slice_and_pad import pad_arguments
from ...operator_context import CodegenContext
from ...safe_names import scalar
from ...values import Expression, SizeTerm
from ...writers import HELD, OutputCode, writes


@writes("Pad", since=2, T=HELD)
def pad(op: CodegenContext) -> OutputCode:
    """Write Pad: before and after each of the axes named, or of all; negative pads cut."""
    x, padding = op.value(0), pad_arguments(op)
    mode = padding.mode
    low: list[SizeTerm] = [0] * x.rank
    high: list[SizeTerm] = [0] * x.rank
    for axis, (before, after) in zip(padding.axes, padding.widths, strict=True):
        low[axis], high[axis] = before, after  # type: ignore[index]  # this back-end reads no computed axes
    if all(part == 0 for part in (*low, *high)):
        return x
    if mode == "constant":
        widths = f"[{', '.join(f'{low[at]}, {high[at]}' for at in _inner_first(low, high))}]"
        return _with_number(op, x, widths, padding.number)
    if _torch_mirrors(x, low, high, mode):
        widths = f"[{', '.join(f'{low[at]}, {high[at]}' for at in reversed(range(2, x.rank)))}]"
        return f'F.pad({x}, {widths}, mode="{"replicate" if mode == "edge" else mode}")'
    both = ", ".join(map(str, (*low, *high)))
    return f'surrounded({x}, ({both}), "{mode}")'


def _inner_first(low: Sequence[SizeTerm], high: Sequence[SizeTerm]) -> list[int]:
    first = next(at for at in range(len(low)) if (low[at], high[at]) != (0, 0))
    return list(reversed(range(first, len(low))))


def _with_number(op: CodegenContext, x: Expression, widths: str, number: Expression | None) -> OutputCode:
    if number is None or number.scalar is not None:
        literal = "0" if number is None or number.array is None else scalar(number.array.reshape(()).item(), x.dtype)
        return f"F.pad({x}, {widths})" if literal in ("0", "0.0", "False") else f"F.pad({x}, {widths}, value={literal})"
    inside = op.let(f"F.pad(torch.ones_like({x}, dtype=torch.bool), {widths})", "inside")
    return f"torch.where({inside}, F.pad({x}, {widths}), {number})"


def _torch_mirrors(x: Expression, low: Sequence[SizeTerm], high: Sequence[SizeTerm], mode: str) -> bool:
    """Return whether F.pad computes it: images of floats, reflected once."""
    if mode == "wrap" or x.dtype not in ("float32", "float64") or x.rank not in (3, 4, 5):
        return False
    if any((low[at], high[at]) != (0, 0) for at in (0, 1)):
        return False
    rows = zip(low[2:], high[2:], x.shape[2:], strict=True)
    return all(
        isinstance(a, int)
        and isinstance(b, int)
        and min(a, b) >= 0
        and (mode == "edge" or (size is not None and max(a, b) < size))
        and size != 0
        for a, b, size in rows
    )
