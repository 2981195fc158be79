"""Constants, and tensors made of nothing but a shape."""

from __future__ import annotations

from math import prod

import numpy as np

from ....onnx_graph.semantics.former_attributes import constant_array
from ...safe_names import scalar
from ...values import as_tuple
from ...writers import HELD, NUMBERS, ORDINARY, CodegenContext, OutputCode, writes

_MOST_KNOWN = 2**16  # elements; more are made when the module runs


@writes("Constant", since=1, folds=False)
def constant(op: CodegenContext) -> OutputCode:
    """Write Constant: a known value."""
    return op.known(constant_array(op))


@writes("ConstantOfShape", since=9, folds=False)
def constant_of_shape(op: CodegenContext) -> OutputCode:
    """Write ConstantOfShape: one number everywhere."""
    shape = op.sizes(0, "shape")
    value = op.tensor_attribute("value") if op.has("value") else np.zeros(1, np.float32)
    if value.dtype.name not in HELD:
        op.refuse(f"it is {value.dtype.name}", fix="use another dtype in the model")
    known = [size for size in shape if isinstance(size, int)]
    if len(known) == len(shape) and prod(known) < _MOST_KNOWN:
        return op.known(np.full(known, value.reshape(()), value.dtype))
    if value.dtype.kind in "iu" and len(shape) == 1 and isinstance(shape[0], int):
        return op.sized([int(value.item())] * shape[0], value.dtype.name)
    literal = scalar(value.reshape(()).item(), value.dtype.name)
    return f"torch.full({as_tuple(shape)}, {literal}, dtype=torch.{value.dtype.name}{op.writer.device})"


@writes("Range", since=11, until=28, T=NUMBERS)
def counted(op: CodegenContext) -> OutputCode:
    """Write Range: start, start + delta, ... before limit; nothing where the limit lies on the other side."""
    start, limit, delta = (op.value(at) for at in range(3))
    parts = [part.size_parts() for part in (start, limit, delta)]
    options = f"dtype=torch.{start.dtype}{op.writer.device}"
    if all(part is not None and len(part) == 1 for part in parts):
        first, last, step = (part[0] for part in parts if part is not None)
        if isinstance(step, int) and step == 1 and isinstance(first, int) and first == 0:
            return f"torch.arange({last}, {options})"
        if isinstance(step, int) and step > 0:
            return f"torch.arange({first}, torch.sym_max({first}, {last}), {step}, {options})"
    return f"counted({start}, {limit}, {delta})"


@writes("EyeLike", since=9, T1=ORDINARY)
def eye_like(op: CodegenContext) -> OutputCode:
    """Write EyeLike: ones on the k-th diagonal."""
    x, k = op.value(0), op.integer("k")
    dtype = op.dtype("dtype") if op.has("dtype") else x.dtype
    if dtype not in ORDINARY:
        op.refuse(f"it makes {dtype}", fix="use another dtype in the model")
    return f"ones_on_diagonal({x}.shape, {k}, torch.{dtype}, {x}.device)"
