"""Elements by their indices, of which negative ones count from the end; the largest elements; parts of matrices."""

from __future__ import annotations

from ....onnx_graph.semantics.former_attributes import top_k_arguments
from ...values import Expression
from ...writers import HELD, INDICES, NUMBERS, ORDINARY, CodegenContext, OutputCode, write_as, writes


@writes("Gather", since=1, T=HELD, Tind=INDICES)
def gather(op: CodegenContext) -> OutputCode:
    """Write Gather: slices along an axis, in the shape of the indices."""
    value, indices = op.value(0), op.value(1)
    axis = op.axis("axis", 0, rank=value.rank)
    places = indices.size_parts()
    before = ":, " * axis
    if places is not None and not indices.rank:
        (place,) = places  # torch.export makes a constant of a size between brackets
        return f"{value}[{before}{place}]" if isinstance(place, int) else f"{value}.select({axis}, {place})"
    wide = _wide(indices)
    if not indices.rank and indices.array is None:  # torch.export does so with a tensor without axes, too
        return f"{value}[{before}{wide}.reshape(1)].squeeze({axis})"
    return f"{value}[{before}{wide}]"


def _wide(indices: Expression) -> str:
    """Return indices in int64: of others torch's exporter writes a GatherND that ONNX has not."""
    return f"{indices}" if indices.dtype == "int64" else f"{indices}.long()"


def _wrapped(indices: Expression, size: object) -> str:
    """Return indices counted from the start."""
    if indices.array is not None and (indices.array >= 0).all():
        return _wide(indices)
    return f"wrapped({indices}, {size})"


@writes("GatherElements", since=11, T=HELD, Tind=INDICES)
def gather_elements(op: CodegenContext) -> OutputCode:
    """Write GatherElements: one element for each index, at its own place on the other axes."""
    value, indices = op.value(0), op.value(1)
    axis = op.axis("axis", 0, rank=value.rank)
    return f"torch.gather({value}, {axis}, {_wrapped(indices, value.size(axis))})"


@writes("GatherND", since=11, T=HELD)
def gather_nd(op: CodegenContext) -> OutputCode:
    """Write GatherND: slices at the places that the last axis of the indices names."""
    return f"gather_places({op.value(0)}, {op.value(1)}, {op.integer('batch_dims', 0)})"


_REDUCTIONS = {"none": "", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@writes("ScatterElements", "Scatter", since=9, T=HELD, Tind=INDICES)
def scatter_elements(op: CodegenContext) -> OutputCode:
    """Write ScatterElements: the first input with one update for each index."""
    x, indices, updates = op.value(0), op.value(1), op.value(2)
    axis = op.axis("axis", 0, rank=x.rank)
    reduction = _REDUCTIONS[op.word("reduction", "none", tuple(_REDUCTIONS))]
    places = _wrapped(indices, x.size(axis))
    if not reduction:
        return f"{x}.scatter({axis}, {places}, {updates})"
    return f'{x}.scatter_reduce({axis}, {places}, {updates}, "{reduction}")'


@writes("ScatterND", since=11)
def scatter_nd(op: CodegenContext) -> OutputCode:
    """Write ScatterND: the first input with updates for the slices that the last axis of the indices names."""
    x, indices, updates = op.value(0), op.value(1), op.value(2)
    reduction = _REDUCTIONS[op.word("reduction", "none", tuple(_REDUCTIONS))]
    if reduction in ("", "sum"):
        accumulate = ", accumulate=True" if reduction else ""
        return f"{x}.index_put({indices}.unbind(-1), {updates}{accumulate})"
    return f'scatter_places({x}, {indices}, {updates}, "{reduction}")'


@writes("OneHot", since=9, until=28)
def one_hot(op: CodegenContext) -> OutputCode:
    """Write OneHot: a new axis on which one place is `on` and the others are `off`."""
    indices, off_on = op.value(0), op.value(2)
    (depth,) = (
        op.sizes(1, "depth") if op.value(1).dtype in INDICES else (op.writer.number(f"int({op.value(1)})", "depth"),)
    )
    axis = op.axis("axis", -1, rank=indices.rank + 1)
    return f"one_hot({indices}, {depth}, {off_on}, {axis})"


write_as("ReverseSequence", "reversed_sequences({0}, {1}, {batch_axis}, {time_axis})", since=10, until=28, T=HELD)
write_as("NonZero", "torch.nonzero({0}).transpose(0, 1)", since=9, T=ORDINARY)


@writes("Compress", since=9, until=28, T=HELD)
def compress(op: CodegenContext) -> OutputCode:
    """Write Compress: the slices for which the condition holds; without an axis those of the flat tensor."""
    x, condition = op.value(0), op.value(1)
    places = f"torch.nonzero({condition}).flatten()"
    if not op.has("axis"):
        return f"{x}.flatten()[{places}]"
    return f"{x}.index_select({op.axis('axis', rank=x.rank)}, {places})"


@writes("TopK", since=1, T=NUMBERS)
def top_k(op: CodegenContext) -> OutputCode:
    """Write TopK: sorted, and of equals the first."""
    x, choice = op.value(0), top_k_arguments(op)
    return op.unpack(f"largest_first({x}, {choice.count}, {choice.axis}, {choice.largest})", 2)


@writes("ArgMax", "ArgMin", since=1, T=NUMBERS)
def arg_extreme(op: CodegenContext) -> OutputCode:
    """Write ArgMax or ArgMin: the first of equals, or the last."""
    x, keep = op.value(0), op.flag("keepdims", True)
    axis, largest = op.axis("axis", 0, rank=x.rank), op.node.op_type == "ArgMax"
    if op.flag("select_last_index"):
        return f"last_extreme({x}, {axis}, {keep}, {largest})"
    return f"{x}.{'argmax' if largest else 'argmin'}({axis}, {keep})"


@writes("Trilu", since=14, T=HELD)
def triangle(op: CodegenContext) -> OutputCode:
    """Write Trilu: the upper or lower triangle of matrices, the rest zero."""
    x, upper = op.value(0), op.flag("upper", True)
    (k,) = op.sizes(1, "diagonal") if op.has_input(1) else (0,)
    return f"torch.{'triu' if upper else 'tril'}({x}, {k})" if k != 0 else f"torch.{'triu' if upper else 'tril'}({x})"


@writes("CumSum", since=11, T=NUMBERS)
def cumulated(op: CodegenContext) -> OutputCode:
    """Write CumSum."""
    x = op.value(0)
    (axis,) = op.integers(1, "axis")
    exclusive, backwards, axis = op.flag("exclusive"), op.flag("reverse"), op.placed(axis, x.rank)
    if not exclusive and not backwards:
        return f"torch.cumsum({x}, {axis}, dtype=torch.{x.dtype})"
    return f"running_sum({x}, {axis}, {exclusive}, {backwards})"


@writes("Unique", since=11, until=28, T=ORDINARY)
def unique(op: CodegenContext) -> OutputCode:
    """Write Unique: distinct elements, or slices along an axis, sorted or in order of first occurrence.

    Further outputs: where each first occurs, which of them each element is, and how often each occurs.
    """
    x, in_order = op.value(0), not op.flag("sorted", True)
    axis = op.axis("axis", rank=x.rank) if op.has("axis") else None
    if not in_order and not any(op.wants(at) for at in (1, 2, 3)):
        return f"torch.unique({x})" if axis is None else f"torch.unique({x}, dim={axis})"
    return op.unpack(f"distinct({x}, {axis}, {in_order})", 4)
