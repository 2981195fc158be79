"""The ONNX backend node tests, as onnx's own generator makes them, and the two views of them.

A: as they are, with every operand an input of the graph. B: closer to what exporters write: axes, shapes, pads and
weights are initializers, by the fixed table below; operators that PyTorch's exporters can emit; dtypes that TensorFlow
computes in; and only cases that ONNX Runtime answers rightly, so that the case itself is not in doubt.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]

# What torch.onnx (dynamo and TorchScript) and onnxscript's function library name in their sources, without random,
# sequence and optional operators; control flow is emitted by both.
EMITTED = frozenset(
    re.findall(
        r"\w+",
        """
        Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
        BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike
        Ceil Celu Clip Col2Im Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DFT
        DepthToSpace DequantizeLinear Det Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor
        GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
        GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Identity If
        InstanceNormalization IsInf IsNaN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax
        Loop MatMul Max MaxPool MaxRoiPool Min Mish Mod Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression
        NonZero Not OneHot Or PRelu Pad Pow QuantizeLinear RMSNormalization RNN Range Reciprocal ReduceL1
        ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Resize
        RoiAlign Round STFT Scan Scatter ScatterElements ScatterND Selu Shape Sigmoid Sign Sin Sinh Size Slice
        Softmax SoftmaxCrossEntropyLoss Softplus Split Sqrt Squeeze Sub Tan Tanh Tile TopK Transpose Trilu
        Unique Unsqueeze Upsample Where Xor
        """,
    )
)

# By operator: the inputs that exporters write as constants.
_INITIALIZERS: Mapping[str, Sequence[int]] = {
    "AffineGrid": (1,), "BatchNormalization": (1, 2, 3, 4), "Clip": (1, 2), "Col2Im": (1, 2), "ConstantOfShape": (0,),
    "Conv": (1, 2), "ConvTranspose": (1, 2), "CumSum": (1,), "DFT": (1, 2), "DequantizeLinear": (1, 2),
    "Dropout": (1, 2), "Expand": (1,), "GRU": (1, 2, 3), "Gemm": (1, 2), "GroupNormalization": (1, 2),
    "InstanceNormalization": (1, 2), "LSTM": (1, 2, 3, 7), "LayerNormalization": (1, 2), "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1, 2), "PRelu": (1,), "Pad": (1, 2, 3), "QuantizeLinear": (1, 2), "RMSNormalization": (1,),
    "RNN": (1, 2, 3), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSumExp": (1,), "ReduceMax": (1,),
    "ReduceMean": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "ReduceSum": (1,), "Reshape": (1,),
    "Resize": (1, 2, 3), "STFT": (1, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,),
    "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip

_OF_TENSORFLOW = frozenset(
    re.findall(r"\w+", "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool")
)
# Their answers are drawn, and agree with nothing.
_RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)


@dataclass(frozen=True)
class Case:
    """One node test: a model, what it is fed and what it should answer, both in the graph's order."""

    name: str
    model: onnx.ModelProto
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    expanded: bool

    @property
    def op_type(self) -> str:
        """The operator that the case is of; of an expanded one the first of its body."""
        return str(self.model.graph.node[0].op_type)

    @property
    def feeds(self) -> dict[str, Array]:
        """What the graph's inputs are fed, by name."""
        return {value.name: each for value, each in zip(self.model.graph.input, self.inputs, strict=True)}


@cache
def cases() -> dict[str, Case]:
    """Every case in scope, by name: tensors only, and nothing drawn at random."""
    from onnx.backend.test.loader import load_node_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generator overflows on purpose
        loaded = load_node_model_tests()
    found = {}
    for each in loaded:
        if each.model is None or each.data_sets is None:
            continue
        ((given, expected),) = each.data_sets
        inputs, outputs = [_array(value) for value in given], [_array(value) for value in expected]
        if not _in_scope(each, inputs, outputs):
            continue
        found[each.name] = Case(each.name, each.model, tuple(inputs), tuple(outputs), "_expanded" in each.name)
    return found


def _in_scope(each: Any, inputs: Sequence[object], outputs: Sequence[object]) -> bool:
    values = [*each.model.graph.input, *each.model.graph.output]
    tensors = all(value.type.HasField("tensor_type") for value in values)
    arrays = all(
        isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OUS" for value in (*inputs, *outputs)
    )
    return tensors and arrays and not any(node.op_type in _RANDOM for node in each.model.graph.node)


def _array(value: Any) -> Any:
    """Tensors of dtypes that numpy lacks come as protobuf."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _is_tensor(value: object) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OUS"


def in_view_b(case: Case) -> bool:
    """Whether a plain case belongs to view B, but for ONNX Runtime's word."""
    dtypes = {each.dtype.name for each in (*case.inputs, *case.outputs)}
    return not case.expanded and case.op_type in EMITTED and dtypes <= _OF_TENSORFLOW


def with_initializers(case: Case) -> Case:
    """The case as exporters write it: operands of the table become initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    fixed: set[str] = set()
    if len(model.graph.node) == 1:
        node = model.graph.node[0]
        fixed = {node.input[at] for at in _INITIALIZERS.get(node.op_type, ()) if at < len(node.input)}
    kept = [(value, each) for value, each in zip(model.graph.input, case.inputs, strict=True)]
    del model.graph.input[:]
    for value, each in kept:
        if value.name in fixed:
            model.graph.initializer.append(numpy_helper.from_array(each, value.name))
        else:
            model.graph.input.append(value)
    inputs = tuple(each for value, each in kept if value.name not in fixed)
    return Case(case.name, model, inputs, case.outputs, case.expanded)


def difference(got: Sequence[Array], want: Sequence[Array]) -> str | None:
    """What is wrong with an answer, or None: rtol 1e-3, atol 1e-5, integers and bools exact, shape and dtype exact.
    In 16 bits two units of the last place, 2 ** -9 and 2 ** -6: the reference rounds there after every step."""
    if len(got) != len(want):
        return f"{len(got)} outputs, expected {len(want)}"
    for at, (have, expected) in enumerate(zip(got, want, strict=True)):
        if have.shape != expected.shape:
            return f"output {at} has the shape {have.shape}, expected {expected.shape}"
        if have.dtype != expected.dtype:
            return f"output {at} is {have.dtype}, expected {expected.dtype}"
        if expected.dtype.kind in "iub" and expected.dtype.name in _OF_TENSORFLOW:
            if not np.array_equal(have, expected):
                return f"output {at} differs at {int((have != expected).sum())} of {expected.size} places"
            continue
        a, b = have.astype(np.float64), expected.astype(np.float64)
        rtol = {"bfloat16": 2**-6, "float16": 2**-9}.get(expected.dtype.name, 1e-3)
        if not np.allclose(a, b, rtol=rtol, atol=1e-5, equal_nan=True):
            with np.errstate(all="ignore"):
                return f"output {at} differs by up to {np.nanmax(np.abs(a - b)):.3g}"
    return None
