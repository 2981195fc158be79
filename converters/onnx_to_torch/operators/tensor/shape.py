"""Shapes read and changed. Sizes are whole numbers of the module's Python code, so that dynamic axes stay dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....onnx_graph.semantics.axis_lists import squeezed_axes, unsqueezed_axes
from ...values import Expression, SizeTerm, SymbolicSize, as_tuple, express_size_terms
from ...writers import HELD, CodegenContext, OutputCode, writes


@writes("Shape", since=1, T=HELD)
def shape(op: CodegenContext) -> OutputCode:
    """Write Shape: the sizes of the axes start .. end - 1, cut as Python does; before opset 15 of all axes."""
    value = op.value(0)
    return op.sized(value.sizes()[op.integer("start", 0) : op.integer("end", value.rank)])


@writes("Size", since=1, T=HELD)
def size(op: CodegenContext) -> OutputCode:
    """Write Size: the number of elements."""
    return op.sized(express_size_terms([op.writer.product(op.value(0).sizes())]))


@writes("Reshape", since=5, T=HELD)
def reshape_to(op: CodegenContext) -> OutputCode:
    """Write Reshape: 0 keeps the size of that axis (unless allowzero), -1 takes what is left."""
    value, wanted, literal_zero = op.value(0), op.sizes(1, "shape"), op.flag("allowzero")
    target = [value.size(at) if part == 0 and not literal_zero else part for at, part in enumerate(wanted)]
    return reshaped(value, _resolved(value, target))


def _resolved(value: Expression, target: list[SizeTerm]) -> list[SizeTerm]:
    """Return the target with the size that -1 stands for, where known sizes tell it; equal ones cancel."""
    if target.count(-1) != 1:
        return target
    gap = target.index(-1)
    have, rest = value.sizes(), list[SizeTerm]()
    for part in target[:gap] + target[gap + 1 :]:
        same = next((at for at, size in enumerate(have) if same_symbol(size, part)), None)
        if same is None:
            rest.append(part)
        else:
            del have[same]
    known = [part for part in (*have, *rest) if isinstance(part, int)]
    divisor = prod(part for part in rest if isinstance(part, int))
    if len(known) == len(have) + len(rest) and divisor > 0:
        return [*target[:gap], prod(known) // divisor // divisor, *target[gap + 1 :]]
    return target


def same_symbol(a: SizeTerm, b: SizeTerm) -> bool:
    """Return whether two sizes are one, known only when the module runs."""
    return isinstance(a, SymbolicSize) and isinstance(b, SymbolicSize) and bool(a.trial.node.expr == b.trial.node.expr)


def reshaped(value: Expression, target: Sequence[SizeTerm]) -> OutputCode:
    """Return the value in another shape. A computed size may stand for 0 or -1, of which PyTorch takes the latter."""
    computed = sum(isinstance(part, SymbolicSize) for part in target)
    if -1 not in target and computed == 1 and 0 not in target:
        sizes = value.sizes()
        alone = [size for size in sizes if isinstance(size, SymbolicSize)]
        if len(alone) == 1 and not any(same_symbol(alone[0], part) for part in target):
            at_least = value.writer.at_least
            target = [-1 if isinstance(part, SymbolicSize) and at_least(part, 0) else part for part in target]
    return f"{value}.reshape({', '.join(map(str, target))})" if target else f"{value}.reshape(())"


@writes("Flatten", since=1, T=HELD)
def flatten(op: CodegenContext) -> OutputCode:
    """Write Flatten: a matrix of the axes before `axis`, and the others."""
    value, axis = op.value(0), op.integer("axis", 1)
    axis += value.rank if axis < 0 else 0
    if axis == 1 and value.rank > 1:
        return f"torch.flatten({value}, 1)"
    have = value.sizes()
    return f"{value}.reshape({op.writer.product(have[:axis])}, {op.writer.product(have[axis:])})"


@writes("Squeeze", since=1, T=HELD)
def squeeze(op: CodegenContext) -> OutputCode:
    """Write Squeeze: without the axes named, or without every axis of size 1."""
    value, dropped = op.value(0), squeezed_axes(op)
    if not dropped:
        return value
    left = [size for axis, size in enumerate(value.sizes()) if axis not in dropped]
    if any(value.shape[axis] is None for axis in dropped):  # squeeze() would let another size pass, reshape() does not
        return reshaped(value, left)
    return f"{value}.squeeze({dropped[0] if len(dropped) == 1 else tuple(dropped)})"


@writes("Unsqueeze", since=1, T=HELD)
def unsqueeze(op: CodegenContext) -> OutputCode:
    """Write Unsqueeze: with axes of size 1 at these places of the output."""
    value, added = op.value(0), unsqueezed_axes(op)
    return f"{value}{''.join(f'.unsqueeze({axis})' for axis in added)}" if added else value


@writes("Transpose", since=1, T=HELD)
def transpose(op: CodegenContext) -> OutputCode:
    """Write Transpose."""
    value = op.value(0)
    order = [op.placed(axis, value.rank) for axis in op.ints("perm", range(value.rank)[::-1])]
    if order == sorted(order):
        return value
    moved = [at for at, axis in enumerate(order) if at != axis]
    if len(moved) == 2:
        return f"{value}.transpose({moved[0]}, {moved[1]})"
    return f"{value}.permute({', '.join(map(str, order))})"


@writes("Expand", since=8, T=HELD)
def expand(op: CodegenContext) -> OutputCode:
    """Write Expand: broadcast to a shape; an axis of the value that is not 1 wins over a 1 in the shape."""
    value, wanted = op.value(0), op.sizes(1, "shape")
    rank = max(value.rank, len(wanted))
    have: list[SizeTerm] = [*[1] * (rank - value.rank), *value.sizes()]
    padded: list[SizeTerm] = [*[1] * (rank - len(wanted)), *wanted]
    target = [_broadcast(a, b) for a, b in zip(have, padded, strict=True)]
    known = [size for size in target if size is not None]
    if len(known) < rank:
        return f"expanded({value}, {as_tuple(wanted)})"
    if rank == value.rank and all(a == b or same_symbol(a, b) for a, b in zip(have, known, strict=True)):
        return value
    return f"{value}.expand({', '.join(map(str, target))})"


def _broadcast(a: SizeTerm, b: SizeTerm) -> SizeTerm | None:
    """Return the size of an axis under broadcasting; None where it depends on whether one side happens to be 1."""
    if b == 1 or same_symbol(a, b):
        return a
    if a == 1:
        return b
    return a if isinstance(a, int) else b if isinstance(b, int) else None


@writes("Tile", since=6, T=HELD)
def tile(op: CodegenContext) -> OutputCode:
    """Write Tile."""
    value, repeats = op.value(0), op.sizes(1, "repeats")
    if all(count == 1 for count in repeats):
        return value
    return f"{value}.repeat({', '.join(map(str, repeats))})"


@writes("DepthToSpace", since=1, until=28)
def depth_to_space(op: CodegenContext) -> OutputCode:
    """Write DepthToSpace: blocks of channels spread over the image."""
    x, block = op.value(0), op.integer("blocksize")
    if op.word("mode", "DCR", ("DCR", "CRD")) == "CRD":
        return f"F.pixel_shuffle({x}, {block})"
    n, c, h, w = x.sizes()
    depth = op.writer.combine("//", c, block**2)
    split = op.let(f"{x}.reshape({n}, {block}, {block}, {depth}, {h}, {w})", "blocks")
    target = [n, depth, op.writer.combine("*", h, block), op.writer.combine("*", w, block)]
    return f"{split}.permute(0, 3, 4, 1, 5, 2).reshape({', '.join(map(str, target))})"


@writes("SpaceToDepth", since=1, until=28)
def space_to_depth(op: CodegenContext) -> OutputCode:
    """Write SpaceToDepth: blocks of the image piled into channels, block by block."""
    x, block = op.value(0), op.integer("blocksize")
    n, c, h, w = x.sizes()
    high, wide = op.writer.combine("//", h, block), op.writer.combine("//", w, block)
    split = op.let(f"{x}.reshape({n}, {c}, {high}, {block}, {wide}, {block})", "blocks")
    return f"{split}.permute(0, 3, 5, 1, 2, 4).reshape({n}, {op.writer.combine('*', c, block**2)}, {high}, {wide})"
