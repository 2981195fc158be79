"""What is known, and what is made of nothing but a shape."""

from __future__ import annotations

from math import prod

import numpy as np

from ....onnx_graph.semantics.selection_arguments import constant_array
from ...operator_context import Op
from ...safe_names import scalar
from ...values import Size, listed
from ...writers import HELD, NUMBERS, ORDINARY, Written, writes

_MOST_KNOWN = 2**16  # elements; more are made when the module runs


@writes("Constant", since=1, folds=False)
def constant(op: Op) -> Written:
    """The array that the node holds."""
    return op.known(constant_array(op))


@writes("ConstantOfShape", since=9, folds=False)
def constant_of_shape(op: Op) -> Written:
    """One number everywhere."""
    shape = op.sizes(0, "shape")
    value = op.tensor_attribute("value") if op.has("value") else np.zeros(1, np.float32)
    if value.dtype.name not in HELD:
        op.refuse(f"it is {value.dtype.name}", fix="use another dtype in the model")
    known = [each for each in shape if isinstance(each, int)]
    if len(known) == len(shape) and prod(known) < _MOST_KNOWN:
        return op.known(np.full(known, value.reshape(()), value.dtype))
    if value.dtype.kind in "iu" and len(shape) == 1 and isinstance(shape[0], int):
        return op.sized([int(value.item())] * shape[0], value.dtype.name)
    literal = scalar(value.reshape(()).item(), value.dtype.name)
    return f"torch.full({_tuple(shape)}, {literal}, dtype=torch.{value.dtype.name}{op.page.device})"


def _tuple(parts: tuple[int | Size, ...]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else listed(parts) if parts else "()"


@writes("Range", since=11, until=28, T=NUMBERS)
def counted(op: Op) -> Written:
    """start, start + delta, ... before limit; nothing where the limit lies on the other side."""
    start, limit, delta = (op.value(at) for at in range(3))
    parts = [each.size_parts() for each in (start, limit, delta)]
    made = f"dtype=torch.{start.dtype}{op.page.device}"
    if all(each is not None and len(each) == 1 for each in parts):
        first, last, step = (each[0] for each in parts if each is not None)
        if isinstance(step, int) and step == 1 and isinstance(first, int) and first == 0:
            return f"torch.arange({last}, {made})"
        if isinstance(step, int) and step > 0:
            return f"torch.arange({first}, torch.sym_max({first}, {last}), {step}, {made})"
    return f"counted({start}, {limit}, {delta})"


@writes("EyeLike", since=9, T1=ORDINARY)
def eye_like(op: Op) -> Written:
    """Ones on the k-th diagonal of a matrix of this shape."""
    x, k = op.value(0), op.integer("k")
    dtype = op.dtype("dtype") if op.has("dtype") else x.dtype
    if dtype not in ORDINARY:
        op.refuse(f"it makes {dtype}", fix="use another dtype in the model")
    return f"ones_on_diagonal({x}.shape, {k}, torch.{dtype}, {x}.device)"
