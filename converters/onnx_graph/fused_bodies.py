"""Bodies of ONNX Runtime's fused operators (com.microsoft) in standard ones: a back-end converts what they are made of.

onnx does not define them. ONNX Runtime's kernels for CPUs are the specification, which the tests compare with. Numbers
of 16 bits are widened to float32 where the kernels sum them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...models.signature import Array
from .function_bodies import instance
from .graph import Graph, GraphValue, Node, attribute_value
from .lazy_onnx import onnx
from .node_reader import NodeReader
from .operator_registry import MICROSOFT

_OPSET = 24
_FLOAT, _INT32 = 1, 6  # of onnx.TensorProto
_LOWEST = -3e38  # below all scores; the lowest float32 itself is rounded beyond it where it is written as text
_UNFUSED = "export without this fusion"
_CHECK = "check the model"


def fused_body(node: Node, inputs: Sequence[GraphValue | None]) -> Graph | None:
    """Return the body of a fused operator, for its present inputs and its outputs; None where `node` is none.

    Raises Refused where the node has attributes, inputs or outputs that the body leaves out.
    """
    write = BODIES.get(node.op_type)
    if write is None or not (node.domain == MICROSOFT or node.op_type == _WITHOUT_DOMAIN):
        return None
    op = BodyWriter(node, inputs)
    results = write(op)
    op.check_written(results)
    formal = [op.formal(at) for at in range(len(inputs))]
    opsets = [onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid(MICROSOFT, 1)]
    function = onnx.helper.make_function(MICROSOFT, node.op_type, formal, results, op.nodes, opsets)
    return instance(function, node, inputs, {})


class BodyWriter(NodeReader[GraphValue, int]):
    """Reads a fused node, and writes the nodes of its body: `add("Mul", x, y)` returns the name of the product."""

    sequence_type = type("NoSequence", (), {})  # no fused operator takes one

    def __init__(self, node: Node, inputs: Sequence[GraphValue | None]) -> None:
        super().__init__(node, inputs)
        self.nodes: list[onnx.NodeProto] = []

    def sizes(self, at: int, name: str) -> tuple[int, ...]:
        """Return known sizes."""
        return self.integers(at, name)

    def known(self, array: Array) -> GraphValue:
        """Refuse: a body writes constants as nodes."""
        raise NotImplementedError(array)

    def check_written(self, results: Sequence[str]) -> None:
        """Refuse what the body does not read, and outputs that it lacks: those are empty in `results`."""
        outputs: list[Any] = [name or None for name in results]
        self.check_all_read(outputs)

    @staticmethod
    def formal(at: int) -> str:
        """Return the name of an input inside the body."""
        return f"input.{at}"

    def input(self, at: int) -> str:
        """Return the name of an input that must be there."""
        self.value(at)
        return self.formal(at)

    def optional_name(self, at: int) -> str:
        """Return the name of an input, empty where the model leaves it out."""
        return "" if self.optional(at) is None else self.formal(at)

    def add(self, op_type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Write a node of one output."""
        return self.add_node(op_type, inputs, 1, domain, **attributes)[0]

    def add_node(
        self, op_type: str, inputs: Sequence[str], outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Write a node of several outputs; return their names."""
        names = [f"{op_type}.{len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(onnx.helper.make_node(op_type, inputs, names, domain=domain, **attributes))
        return names

    def integers_of(self, *numbers: int) -> str:
        """Write a vector of integers."""
        return self.add("Constant", value_ints=list(numbers))

    def like(self, number: float, name: str) -> str:
        """Write a number in the dtype of a value."""
        return self.add("CastLike", self.add("Constant", value_float=float(number)), name)

    def turned(self, name: str, rank: int) -> str:
        """Transpose the last two axes of a value."""
        return self.add("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])

    def length(self, name: str, axis: int) -> str:
        """Write the size of an axis as a scalar."""
        return self.add("Squeeze", self.add("Shape", name, start=axis, end=axis + 1))

    def counted(self, length: str) -> str:
        """Write the integers from 0 to below `length`."""
        zero, one = (self.add("Constant", value_int=number) for number in (0, 1))
        return self.add("Range", zero, length, one)

    def widened(self, name: str, at: int = 0) -> str:
        """Cast to float32 where the input `at` has 16 bits."""
        return self.add("Cast", name, to=_FLOAT) if self._is_narrow(at) else name

    def narrowed(self, name: str, at: int = 0) -> str:
        """Cast back to the dtype of the input `at`."""
        return self.add("CastLike", name, self.formal(at)) if self._is_narrow(at) else name

    def _is_narrow(self, at: int) -> bool:
        return self.value(at).dtype in ("float16", "bfloat16")

    def carried(self, *names: str) -> dict[str, Any]:
        """Return those of the attributes that the node has, for a node of the body."""
        self._attributes_read.update(names)
        return {name: attribute_value(self.node.attributes[name]) for name in names if self.has(name)}


_Write = Callable[[BodyWriter], Sequence[str]]


def _gelu(op: BodyWriter) -> Sequence[str]:
    total, bias = op.input(0), op.optional_name(1)
    total = op.add("Add", total, bias) if bias else total
    return [op.add("Gelu", total, approximate="tanh" if op.op_type == "FastGelu" else "none")]


def _quick_gelu(op: BodyWriter) -> Sequence[str]:
    return [op.add("Swish", op.input(0), alpha=op.real("alpha", 1.702))]


def _matmul(op: BodyWriter) -> Sequence[str]:
    """Write alpha A B, matrices transposed where the attributes say so; vectors are never transposed."""
    if op.flag("transBatchA") or op.flag("transBatchB"):
        op.refuse("its attributes transBatchA and transBatchB are not carried", fix=_UNFUSED)
    ranks = [op.value(at).rank for at in (0, 1)]
    if min(ranks) < 2:
        op.refuse("it multiplies a vector", fix=_UNFUSED)
    turns = [op.flag("transA"), op.flag("transB")]
    sides = [op.turned(op.input(at), rank) if turns[at] else op.input(at) for at, rank in enumerate(ranks)]
    product, alpha = op.add("MatMul", *sides), op.real("alpha", 1.0)
    return [product if alpha == 1 else op.add("Mul", product, op.like(alpha, product))]


def _gemm(op: BodyWriter) -> Sequence[str]:
    numbers = [op.real(name, 0.0) for name in ("activation_alpha", "activation_beta")]
    op.ignore("activation_gamma", because="none of the activations that are taken has a third number")
    inputs = [op.input(0), op.input(1), op.optional_name(2)]
    product = op.add("Gemm", *inputs, **op.carried("alpha", "beta", "transA", "transB"))
    return [_activated(op, product, op.text("activation"), numbers)]


def _conv(op: BodyWriter) -> Sequence[str]:
    """Write Conv, an addend, and an activation of the sum."""
    windows = op.carried("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    total, addend = op.add("Conv", op.input(0), op.input(1), op.optional_name(2), **windows), op.optional_name(3)
    total = op.add("Add", total, addend) if addend else total
    return [_activated(op, total, op.text("activation"), op.floats("activation_params", ()))]


def _activated(op: BodyWriter, name: str, activation: str, numbers: Sequence[float]) -> str:
    """Write an activation by its name in ONNX; LeakyRelu and Clip have numbers."""
    wanted = {"Relu": 0, "Sigmoid": 0, "Tanh": 0, "Softplus": 0, "LeakyRelu": 1, "Clip": 2}.get(activation)
    if wanted is None or len(numbers) < wanted:
        op.refuse(f"its attribute activation is {activation!r}, which is not carried", fix=_UNFUSED)
    if activation == "LeakyRelu":
        return op.add(activation, name, alpha=numbers[0])
    return op.add(activation, name, *(op.like(number, name) for number in numbers[:wanted]))


def _root_mean_square(op: BodyWriter) -> Sequence[str]:
    """Write RMSNormalization under its older name; also the factor."""
    if op.integer("stash_type", 1) != 1:
        op.refuse("its attribute stash_type is not 1", fix=_UNFUSED)
    rank = op.value(0).rank
    axes = range(op.integer("axis", -1) % rank, rank)
    normalized, inverse = _by_root_mean_square(op, op.widened(op.input(0)), [*axes], op.real("epsilon", 1e-5))
    scale = op.input(1)
    return [op.add("Mul", op.add("CastLike", normalized, scale), scale), inverse]


def _by_root_mean_square(op: BodyWriter, wide: str, axes: Sequence[int], epsilon: float) -> tuple[str, str]:
    """Write a value over the root of the mean of its squares, and the inverse of that root."""
    mean = op.add("ReduceMean", op.add("Mul", wide, wide), op.integers_of(*axes), keepdims=1)
    inverse = op.add("Reciprocal", op.add("Sqrt", op.add("Add", mean, op.like(epsilon, mean))))
    return op.add("Mul", wide, inverse), inverse


def _skip_norm(op: BodyWriter) -> Sequence[str]:
    """Write LayerNormalization of a sum of two and a bias; the sum is the fourth output."""
    scale, shift, total = op.input(2), op.optional_name(3), _sum(op, op.optional_name(4))
    return [*_layer_norm(op, total, scale, shift), total]


def _layer_norm(op: BodyWriter, total: str, scale: str, shift: str) -> list[str]:
    return op.add_node("LayerNormalization", [total, scale, shift], 3, axis=-1, epsilon=op.real("epsilon", 1e-12))


def _skip_root_mean_square(op: BodyWriter) -> Sequence[str]:
    """Write RMSNormalization of such a sum, which is the fourth output."""
    scale, total = op.widened(op.input(2), 2), _sum(op, op.optional_name(3))
    normalized, inverse = _by_root_mean_square(op, op.widened(total), [-1], op.real("epsilon", 1e-12))
    return [op.narrowed(op.add("Mul", normalized, scale)), "", inverse, total]


def _sum(op: BodyWriter, bias: str) -> str:
    total = op.add("Add", op.input(0), op.input(1))
    return op.add("Add", total, bias) if bias else total


def _embed(op: BodyWriter) -> Sequence[str]:
    """Write the norm of embedded words, places and segments; also how many words the mask counts, and the sum."""
    op.ignore("mask_index_type", because="it only says whether somebody reads the second output")
    words, places = op.input(0), op.optional_name(8)
    places = places or op.add("Unsqueeze", op.counted(op.length(words, 1)), op.integers_of(0))
    total = op.add("Add", op.add("Gather", op.input(2), words), op.add("Gather", op.input(3), places))
    segments, of_segments, mask = op.optional_name(1), op.optional_name(4), op.optional_name(7)
    if segments and of_segments:
        total = op.add("Add", total, op.add("Gather", of_segments, segments))
    if mask:
        seen = op.add("Cast", op.add("Equal", mask, op.like(1, mask)), to=_INT32)
        count = op.add("ReduceSum", seen, op.integers_of(1), keepdims=0)
    else:
        zero = onnx.numpy_helper.from_array(np.zeros(1, np.int32))
        count = op.add("ConstantOfShape", op.add("Shape", words, start=0, end=1), value=zero)
    return [_layer_norm(op, total, op.input(5), op.input(6))[0], count, total]


def _rotary(op: BodyWriter) -> Sequence[str]:
    """Write RotaryEmbedding; a single position is the first one's, and the others follow."""
    if op.flag("is_packed_batching") or op.real("scale", 1.0) != 1:
        op.refuse("packed batches and a scale are not carried", fix=_UNFUSED)
    value, positions = op.value(0), op.input(1)
    width, count = op.integer("rotary_embedding_dim", 0), op.integer("num_heads", 0)
    if value.rank == 3 and not count:
        half, features = op.value(2).shape[1], value.shape[2]
        if half is None or features is None or width:
            op.refuse("it does not say how many heads there are", fix="give it the attribute num_heads")
        count = features // (2 * half)
    if op.value(1).rank == 1:
        following = op.counted(op.length(op.input(0), value.rank - 2))
        positions = op.add("Add", op.add("Unsqueeze", positions, op.integers_of(1)), following)
        batch = op.add("Shape", op.input(0), start=0, end=1)
        positions = op.add("Expand", positions, op.add("Concat", batch, op.integers_of(1), axis=0))
    turns: dict[str, Any] = {"interleaved": int(op.flag("interleaved")), "rotary_embedding_dim": width}
    turns |= {"num_heads": count} if count else {}
    return [op.add("RotaryEmbedding", op.input(0), op.input(2), op.input(3), positions, **turns)]


def _multi_head(op: BodyWriter) -> Sequence[str]:
    """Write attention of projections (batch, sequence, heads * features); keys, values may lie by heads."""
    keys, features, bias = op.optional(1), op.optional(2), op.optional_name(3)
    if op.value(0).rank != 3 or keys is None or features is None or keys.rank == 5:
        op.refuse("queries, keys and values in one tensor are not carried", fix=_UNFUSED)
    values = [op.value(0), keys, features]
    names = [op.formal(at) for at in range(3)]
    if bias:  # the parts for the three lie behind each other; an input of 4 axes was projected before
        widths = [value.shape[-1] for value in values]
        if any(value.rank != 3 for value in values) or None in widths:
            op.refuse("it adds a bias to keys whose width is not known", fix=_UNFUSED)
        parts = op.add_node("Split", [bias, op.integers_of(*(int(width or 0) for width in widths))], 3, axis=0)
        names = [op.add("Add", name, part) for name, part in zip(names, parts, strict=True)]
    ranks = [value.rank for value in values]
    heads = [_heads(op, name) if rank == 3 else name for name, rank in zip(names, ranks, strict=True)]
    return _attend(
        op, heads, (op.optional_name(6), op.optional_name(7)), values[0].shape[2], mask=4, added=op.optional_name(5)
    )


def _self_attention(op: BodyWriter) -> Sequence[str]:
    """Write attention of an input with itself, of which one product gives queries, keys and values."""
    projected, bias = op.add("MatMul", op.input(0), op.input(1)), op.optional_name(2)
    projected = op.add("Add", projected, bias) if bias else projected
    return _attend_projected(op, projected, op.optional_name(4), mask=3, added=op.optional_name(5))


def _quantized_self_attention(op: BodyWriter) -> Sequence[str]:
    """Write such an attention of quantised numbers."""
    factors = [op.input(at) for at in (0, 1, 3, 4)]
    inputs = [*factors, op.optional_name(6), op.optional_name(7), op.optional_name(2)]
    return _attend_projected(
        op, op.add("MatMulIntegerToFloat", *inputs, domain=MICROSOFT), op.optional_name(8), mask=5, added=""
    )


def _attend_projected(op: BodyWriter, projected: str, past: str, *, mask: int, added: str) -> Sequence[str]:
    """Write attention with queries, keys and values that stand beside each other along the last axis."""
    if op.flag("do_rotary") or op.flag("past_present_share_buffer"):
        op.refuse("rotary positions and a shared buffer are not carried", fix=_UNFUSED)
    op.ignore("rotary_embedding_dim", because="nothing is turned")
    width = op.value(1).shape[1]
    if width is None:
        op.refuse("the width of its weights is not known", fix="fix it when exporting")
    widths = op.ints("qkv_hidden_sizes", (width // 3,) * 3)
    heads = [_heads(op, part) for part in op.add_node("Split", [projected, op.integers_of(*widths)], 3, axis=-1)]
    halves = [op.add("Gather", past, op.add("Constant", value_int=at), axis=0) for at in (0, 1)] if past else ["", ""]
    answer, *present, _ = _attend(op, heads, (halves[0], halves[1]), widths[0], mask=mask, added=added)
    rows = [op.add("Unsqueeze", kept, op.integers_of(0)) for kept in present]
    return [answer, op.add("Concat", *rows, axis=0)]


def _heads(op: BodyWriter, name: str) -> str:
    """Write (batch, sequence, heads * features) as (batch, heads, sequence, features)."""
    split = op.add("Reshape", name, op.integers_of(0, 0, op.integer("num_heads"), -1))
    return op.add("Transpose", split, perm=[0, 2, 1, 3])


def _attend(
    op: BodyWriter, heads: Sequence[str], past: tuple[str, str], width: int | None, *, mask: int, added: str
) -> list[str]:
    """Write the result, the keys and the values with those of the past, and the weights.

    `heads` are queries, keys and values by heads, and `width` that of the queries of all heads. Masks add a large
    negative number, so that a query without a key gets a mean.
    """
    narrow = 3 if op.op_type == "QAttention" else 0  # the input whose dtype the answers have
    queries, keys, values = heads
    if bool(past[0]) != bool(past[1]):
        op.refuse("only one of past_key and past_value is given", fix=_CHECK)
    if past[0]:
        keys, values = op.add("Concat", past[0], keys, axis=2), op.add("Concat", past[1], values, axis=2)
    if width is None:
        op.refuse("the width of its queries is not known", fix="fix it when exporting")
    scale = op.real("scale", 0.0) or (width // op.integer("num_heads")) ** -0.5
    wide = op.widened(queries, narrow)
    scores = op.add("Mul", wide, op.like(scale, wide))
    scores = op.add("MatMul", scores, op.turned(op.widened(keys, narrow), 4))
    scores = op.add("Add", scores, op.add("CastLike", added, scores)) if added else scores
    scores = _hidden(op, scores, keys, mask) if op.optional_name(mask) else scores
    op.ignore("mask_filter_value", because="it speaks of a mask, and where there is one it was read")
    if op.flag("unidirectional"):
        scores = _causal(op, scores, queries, keys, past[0])
    weights = op.add("Softmax", scores, axis=-1)
    answer = op.add("Transpose", op.add("MatMul", weights, op.widened(values, narrow)), perm=[0, 2, 1, 3])
    answer = op.add("Reshape", answer, op.integers_of(0, 0, -1))
    return [op.narrowed(answer, narrow), keys, values, op.narrowed(weights, narrow)]


def _hidden(op: BodyWriter, scores: str, keys: str, at: int) -> str:
    """Write scores with a mask: by (batch, keys) or (batch, queries, keys), or (batch,) of lengths."""
    mask, name = op.value(at), op.input(at)
    if mask.rank == 1:
        batch = op.value(0).shape[0]
        if not isinstance(batch, int) or mask.shape[0] != batch:
            op.refuse(
                "its mask of one axis may hold starts and ends, which are not carried", fix="give it a mask by keys"
            )
        lengths = op.add("Unsqueeze", name, op.integers_of(1, 2, 3))
        seen = op.add("Less", op.add("CastLike", op.counted(op.length(keys, 2)), name), lengths)
    elif mask.rank in (2, 3):
        seen = op.add("Greater", name, op.like(0, name))
        seen = op.add("Unsqueeze", seen, op.integers_of(*range(1, 5 - mask.rank)))
    else:
        op.refuse(f"its mask has {mask.rank} axes", fix=_UNFUSED)
    low = op.like(op.real("mask_filter_value", -10000.0), scores)
    return op.add("Add", scores, op.add("Where", seen, op.like(0, scores), low))


def _causal(op: BodyWriter, scores: str, queries: str, keys: str, past: str) -> str:
    """Write scores that hide the keys behind each query, which stands behind those of the past."""
    places = op.counted(op.length(queries, 2))
    places = op.add("Add", places, op.length(past, 2)) if past else places
    seen = op.add("LessOrEqual", op.counted(op.length(keys, 2)), op.add("Unsqueeze", places, op.integers_of(1)))
    return op.add("Where", seen, scores, op.like(_LOWEST, scores))


_WITHOUT_DOMAIN = "SimplifiedLayerNormalization"  # ONNX Runtime writes it among the standard operators, too
BODIES: Mapping[str, _Write] = {
    "Attention": _self_attention,
    "BiasGelu": _gelu,
    "EmbedLayerNormalization": _embed,
    "FastGelu": _gelu,
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "Gelu": _gelu,
    "MultiHeadAttention": _multi_head,
    "QAttention": _quantized_self_attention,
    "QuickGelu": _quick_gelu,
    "RotaryEmbedding": _rotary,
    "SimplifiedLayerNormalization": _root_mean_square,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_root_mean_square,
}
