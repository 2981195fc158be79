"""Wider dtypes for a dialect that computes in few: inputs are cast to a wider dtype, and results are cast back.

The wider dtype holds the same numbers, so this is exact, and is done by rule for every operator except those whose
result depends on the dtype itself. Integers are cast back modulo their width, as the narrow kernel wraps. 16-bit floats
are rounded once, where narrow kernels round more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..onnx_graph.graph import Node
from .lazy_tensorflow import tf
from .values import Value, known, map_elements

Wider = Mapping[str, str]  # by dtype, the one that a dialect computes in instead of it

# Their results depend on the width of a dtype, or they only hand on their inputs.
OF_THE_DTYPE = frozenset(
    {
        "Bernoulli", "BitCast", "BitShift", "Cast", "CastLike", "ConcatFromSequence", "Constant", "ConstantOfShape",
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "EyeLike", "Identity", "If", "Loop",
        "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RandomNormalLike", "RandomUniformLike",
        "Scan", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "Shape", "Size", "SplitToSequence",
    }
)  # fmt: skip


# They reduce no elements to the lowest or the highest integer, which in the wider dtype lies outside the narrow one.
_EXTREMES = frozenset({"ReduceMax", "ReduceMin"})


def promote_inputs(node: Node, inputs: Sequence[Value | None], wider: Wider) -> list[Value | None]:
    """Return the inputs of a node in the dtypes that the dialect computes in; others stay as they are."""
    if node.domain or node.op_type in OF_THE_DTYPE:
        return list(inputs)
    return [
        _cast(value, wider[value.dtype]) if value is not None and value.dtype in wider else value for value in inputs
    ]


def demote_results(
    node: Node, results: Sequence[Value | None], variables: Sequence[str], narrow: Mapping[str, str], wider: Wider
) -> list[Value | None]:
    """Return the results of a node with promoted inputs in the dtypes of the specification.

    `variables`: the type variable of each output; `narrow`: by type variable, the dtype of its inputs before promotion.
    """
    return [
        _cast(_clamp(result, narrow[variable]) if node.op_type in _EXTREMES else result, narrow[variable])
        if result is not None and variable in narrow and result.dtype == wider[narrow[variable]]
        else result
        for result, variable in zip(results, variables, strict=True)
    ]


def _clamp(value: Value, dtype: str) -> Value:
    """Clamp integers to the range of a dtype."""
    narrow = tf.as_dtype(dtype)
    if value.array is not None or not narrow.is_integer:
        return value
    return map_elements(
        value, lambda t: tf.minimum(tf.maximum(t, tf.cast(narrow.min, t.dtype)), tf.cast(narrow.max, t.dtype))
    )


def _cast(value: Value, dtype: str) -> Value:
    if value.array is not None:
        return known(value.array.astype(dtype), value.weights)
    return map_elements(value, lambda t: tf.cast(t, dtype), non_negative=value.non_negative)
