"""Pools: the largest, the mean or the norm of each window."""

from __future__ import annotations

from ...values import Expression, as_tuple
from ...writers import FLOATS, NUMBERS, CodegenContext, OutputCode, writes
from .window_code import WindowCode, tuple_or_number, unusual_options, window_code

_LOWEST = {"int8": -128, "uint8": 0}


def _options(moved: WindowCode, ceil: bool) -> str:
    options = [tuple_or_number(moved.kernel), f"stride={tuple_or_number(moved.strides)}"]
    options += unusual_options(("padding", moved.even or (0,), 0), ("dilation", moved.dilations, 1))
    return ", ".join([*options, "ceil_mode=True"] if ceil else options)


def _halves(moved: WindowCode) -> bool:
    """Return whether torch takes the padding itself: up to half of a kernel."""
    return moved.even is not None and all(2 * pad <= size for pad, size in zip(moved.even, moved.kernel, strict=True))


@writes("MaxPool", since=1, T=NUMBERS)
def max_pool(op: CodegenContext) -> OutputCode:
    """Write MaxPool: the largest of each window, and its place in the whole tensor."""
    x, ceil = op.value(0), op.flag("ceil_mode")
    moved = window_code(op, x, op.ints("kernel_shape"))
    column_major = op.flag("storage_order")
    indices = op.wants(1)
    if indices and (column_major or not _halves(moved)):
        op.refuse("it asks for indices in column-major order, or with pads that PyTorch does not take")
    narrow = x.dtype in _LOWEST
    source = f"{x}.float()" if narrow else f"{x}"
    if not _halves(moved):
        lowest = "-math.inf" if x.dtype in FLOATS or narrow else str(-(2**31))
        source = f"{op.let(f'F.pad({source}, {moved.widths}, value={lowest})', 'padded')}"
        moved = WindowCode(moved.kernel, moved.strides, moved.dilations, moved.widths, (0,) * moved.rank)
        if ceil:  # the last window must begin inside the input or its pads, which torch then does not know
            op.refuse("it has ceil_mode and pads that PyTorch does not take", fix="pad in the model before the pool")
    call = f"F.max_pool{moved.rank}d({source}, {_options(moved, ceil)}"
    if not indices:
        return f"{call}){f'.to(torch.{x.dtype})' if narrow else ''}"
    largest, places = op.unpack(f"{call}, return_indices=True)", 2)
    return [f"{largest}.to(torch.{x.dtype})" if narrow else largest, f"flat_places({places}, {x})"]


@writes("AveragePool", since=7, T=FLOATS)
def average_pool(op: CodegenContext) -> OutputCode:
    """Write AveragePool; padding counts or does not."""
    x, ceil, count_pads = op.value(0), op.flag("ceil_mode"), op.flag("count_include_pad")
    moved = window_code(op, x, op.ints("kernel_shape"))
    if _halves(moved) and set(moved.dilations) == {1} and not (ceil and moved.padded):
        counted = "" if count_pads or not moved.padded else ", count_include_pad=False"
        return f"F.avg_pool{moved.rank}d({x}, {_options(moved, ceil)}{counted})"
    return f"average_pool({x}, {_shape_of(moved)}, {ceil}, {count_pads})"


def _shape_of(moved: WindowCode) -> str:
    return f"{moved.kernel}, {moved.strides}, {moved.dilations}, {moved.widths}"


@writes("LpPool", since=2, T=FLOATS)
def norm_pool(op: CodegenContext) -> OutputCode:
    """Write LpPool: the p-norm of each window."""
    x, ceil, p = op.value(0), op.flag("ceil_mode"), op.integer("p", 2)
    return f"norm_pool({x}, {_shape_of(window_code(op, x, op.ints('kernel_shape')))}, {ceil}, {p})"


def _everything(x: Expression) -> str:
    return str(tuple(range(2, x.rank)))


@writes("GlobalAveragePool", "GlobalMaxPool", since=1, T=FLOATS)
def global_pool(op: CodegenContext) -> OutputCode:
    """Write the mean or the largest of each channel."""
    x, function = op.value(0), {"GlobalAveragePool": "mean", "GlobalMaxPool": "amax"}[op.op_type]
    return f"{x}.{function}({_everything(x)}, keepdim=True)"


@writes("GlobalLpPool", since=2, T=FLOATS)
def global_norm(op: CodegenContext) -> OutputCode:
    """Write GlobalLpPool: the p-norm of each channel."""
    x, p = op.value(0), op.integer("p", 2)
    return f"({x}.abs() ** {p}).sum({_everything(x)}, keepdim=True) ** {1 / p!r}"


@writes("MaxUnpool", since=9, T1=FLOATS, T2=frozenset({"int64"}))
def max_unpool(op: CodegenContext) -> OutputCode:
    """Write MaxUnpool: zeros, and each value at its place in the flat output that kernel, strides and pads describe.

    Of a larger output_shape the specification's test and ONNX Runtime make two things: it is refused.
    """
    x, places, kernel, writer = op.value(0), op.value(1), op.ints("kernel_shape"), op.writer
    strides, pads = op.ints("strides", [1] * len(kernel)), op.ints("pads", [0] * 2 * len(kernel))
    shape = [x.size(0), x.size(1)]
    for at, (size, stride) in enumerate(zip(kernel, strides, strict=True)):
        more = size - stride - pads[at] - pads[at + len(kernel)]
        shape.append(writer.combine("+", writer.combine("*", x.size(2 + at), stride), more))
    wanted = op.sizes(2, "output_shape") if op.has_input(2) else shape
    if len(wanted) != len(shape) or not all(map(writer.same, wanted, shape)):
        op.refuse(
            "its output_shape is another than its windows describe", fix="leave output_shape out, and pad after it"
        )
    return f"unpooled({x}, {places}, {as_tuple(shape)})"
