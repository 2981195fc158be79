"""A dialect that computes in few dtypes: an operator whose inputs have another one is lowered in a wider one that holds
the same numbers, and what it makes is cast back.

Exact, and so done by rule for every operator but those whose answer speaks of the dtype itself: integers are cast back
modulo their width, as the narrow kernel wraps; 16-bit floats are rounded once, where narrow kernels round more often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..onnx_graph.graph import Node
from .lazy_tensorflow import tf
from .values import Value, known, mapped

Wider = Mapping[str, str]  # by dtype, the one that a dialect computes in instead

# Their answers depend on the width of a dtype, or they only hand on what they are given.
OF_THE_DTYPE = frozenset(
    {
        "Bernoulli", "BitCast", "BitShift", "Cast", "CastLike", "ConcatFromSequence", "Constant", "ConstantOfShape",
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "EyeLike", "Identity", "If", "Loop",
        "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RandomNormalLike", "RandomUniformLike",
        "Scan", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
        "SequenceLength", "SequenceMap", "Shape", "Size", "SplitToSequence",
    }
)  # fmt: skip


# Of no elements they make the lowest or the highest integer, which in the wider dtype lies outside the narrow one.
_EXTREMES = frozenset({"ReduceMax", "ReduceMin"})


def carried(node: Node, inputs: Sequence[Value | None], wider: Wider) -> list[Value | None]:
    """The inputs of a node in the dtypes that the dialect computes in; what only carries a name stays as it lies."""
    if node.domain or node.op_type in OF_THE_DTYPE:
        return list(inputs)
    return [
        _cast(value, wider[value.dtype]) if value is not None and value.dtype in wider else value for value in inputs
    ]


def restored(
    node: Node, answers: Sequence[Value | None], made: Sequence[str], narrow: Mapping[str, str], wider: Wider
) -> list[Value | None]:
    """What a node made of carried inputs, in the dtypes that the specification gives it. `made`: the type variable of
    each output; `narrow`: by type variable, the dtype that its inputs had before they were carried."""
    return [
        _cast(_cut(answer, narrow[variable]) if node.op_type in _EXTREMES else answer, narrow[variable])
        if answer is not None and variable in narrow and answer.dtype == wider[narrow[variable]]
        else answer
        for answer, variable in zip(answers, made, strict=True)
    ]


def _cut(value: Value, dtype: str) -> Value:
    """Integers cut to what a dtype holds."""
    narrow = tf.as_dtype(dtype)
    if value.array is not None or not narrow.is_integer:
        return value
    return mapped(
        value, lambda t: tf.minimum(tf.maximum(t, tf.cast(narrow.min, t.dtype)), tf.cast(narrow.max, t.dtype))
    )


def _cast(value: Value, dtype: str) -> Value:
    if value.array is not None:
        return known(value.array.astype(dtype), value.weights)
    return mapped(value, lambda t: tf.cast(t, dtype), non_negative=value.non_negative)
