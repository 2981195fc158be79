"""Products of matrices."""

from __future__ import annotations

from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INTEGERS, SUMMABLE, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, add_bias, broadcast, computed, map_elements, pack_sizes, product, reshape


@lowers("Gemm", since=7, T=SUMMABLE)
def gemm(op: OperatorContext) -> Value:
    """Lower Gemm: alpha A B + beta C, A and B transposed where the attributes say so."""
    alpha, beta, bias = op.real("alpha", 1.0), op.real("beta", 1.0), op.optional(2)
    trans_a, trans_b = op.flag("transA"), op.flag("transB")
    right = op.value(1)
    if right.dtype in INTEGERS and not (alpha.is_integer() and beta.is_integer()):
        op.refuse(f"its factors alpha {alpha} and beta {beta} are no integers, and its matrices are")
    if right.array is not None and trans_b:  # a weight is turned once, now
        result = _multiply(op, op.tensor(0), op.weights.hold(right.array, (1, 0)), transpose_a=trans_a)
    else:
        result = _multiply(op, op.tensor(0), right.tensor(), transpose_a=trans_a, transpose_b=trans_b)
    if alpha != 1:
        result = result * tf.cast(alpha, result.dtype)
    if bias is not None:
        result = _add(result, bias if beta == 1 else map_elements(bias, lambda t: t * tf.cast(beta, t.dtype)))
    return computed(result).with_sizes_of(op.value(0), [(0, 1 if trans_a else 0)])


def _add(product: TfTensor, addend: Value) -> TfTensor:
    """Add; a vector as wide as the product becomes a bias, which runtimes fuse."""
    width = product.shape[-1]
    if addend.rank == 1 and width is not None and addend.shape[0] == width and addend.dtype in FLOATS:
        return add_bias(product, addend)
    return broadcast(tf.add, computed(product), addend).tensor()


def _multiply(op: OperatorContext, a: TfTensor, b: TfTensor, **turned: bool) -> TfTensor:
    """Multiply matrices; unsigned integers as signed ones, which wrap in the same way."""
    signed = {"uint32": "int32", "uint64": "int64"}.get(a.dtype.name)
    if signed is None:
        return op.kernels.matmul(a, b, **turned)
    return tf.cast(op.kernels.matmul(tf.cast(a, signed), tf.cast(b, signed), **turned), a.dtype)


@lowers("MatMul", since=1, T=SUMMABLE)
def matmul(op: OperatorContext) -> Value:
    """Lower MatMul as numpy.matmul; many rows against one matrix become one product where a runtime has a kernel."""
    left, right = op.value(0), op.value(1)
    if left.rank == 1 or right.rank == 1:
        return _multiply_vectors(op, left, right)
    if right.rank == 2 and left.rank > 2 and left.shape[-1] is not None and op.kernels.flattens_rows:
        rows = [left.size(axis) for axis in range(left.rank - 1)]
        flat = _multiply(op, reshape(left.tensor(), [product(rows), left.shape[-1]]), right.tensor())
        result = computed(reshape(flat, [*rows, right.size(1)]))
    else:
        result = computed(_multiply(op, left.tensor(), right.tensor()))
    if right.rank == 2:
        return result.with_sizes_of(left, [(axis, axis) for axis in range(left.rank - 1)])
    return result.with_sizes_of(left, [(result.rank - 2, left.rank - 2)]).with_sizes_of(
        right, [(result.rank - 1, right.rank - 1)]
    )


def _multiply_vectors(op: OperatorContext, left: Value, right: Value) -> Value:
    """Multiply with a vector: a row on the left or a column on the right, whose axis leaves the result."""
    a = tf.expand_dims(left.tensor(), 0) if left.rank == 1 else left.tensor()
    b = tf.expand_dims(right.tensor(), -1) if right.rank == 1 else right.tensor()
    result = _multiply(op, a, b)
    result = tf.squeeze(result, -1) if right.rank == 1 else result
    return computed(tf.squeeze(result, -1 if right.rank == 1 else -2) if left.rank == 1 else result)


@lowers("Det", since=11, T=FLOATS)
def determinant(op: OperatorContext) -> Value:
    """Lower Det: the determinants of the innermost matrices; of 16-bit numbers in float32."""
    value = op.value(0)
    before = [value.size(axis) for axis in range(value.rank - 2)]
    wide = value.tensor() if value.dtype == "float64" else tf.cast(value.tensor(), tf.float32)
    flat = tf.reshape(wide, pack_sizes([product(before), value.size(value.rank - 2), value.size(value.rank - 1)]))
    return computed(tf.cast(tf.reshape(op.kernels.determinant(flat), pack_sizes(before)), value.dtype))
