"""The kinds of mistakes, each with a thread of a converter's or runtime's tracker where it was met."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Group(StrEnum):
    """What a kind's mistakes have in common."""

    GROSS = "gross"
    DRIFT = "small drift"
    RANGE = "some sizes, batches or ids"
    VALUES = "rare values"
    TIES = "ties and rare classes"
    DTYPE = "narrowed dtype"
    DECLARED = "declared, and rarely asked"
    FILES = "reduced precision, and other functions"


@dataclass(frozen=True)
class Kind:
    """A kind of mistake."""

    name: str
    group: Group
    thread: str  # owner/repo#number
    summary: str


def _kinds(group: Group, *rows: tuple[str, str, str]) -> tuple[Kind, ...]:
    return tuple(Kind(name, group, thread, summary) for name, thread, summary in rows)


KINDS = (
    *_kinds(
        Group.GROSS,
        ("padding-mirrored", "PINTO0309/onnx2tf#450", "a padding that is wider on one side is put on the other"),
        ("softmax-axis", "onnx/onnx-mlir#832", "the axis of a softmax is another opset's default"),
        ("softmax-flattened", "apache/tvm#20183", "a softmax over the flattened axes, as before opset 13"),
        ("norm-statistics-stale", "pytorch/pytorch#52758", "a batch norm with the statistics of a fresh layer"),
        ("norm-fold-bias", "Tencent/ncnn#1339", "a batch norm folded without scaling the convolution's bias"),
        ("lstm-gate-order", "CrispStrobe/CrispASR#106", "gates in PyTorch's order where ONNX has another"),
        ("lstm-backward-order", "microsoft/onnxruntime#4187", "the backward direction's answers are not turned round"),
        ("gru-reset", "microsoft/onnxscript#2852", "the reset gate is applied before the linear layer"),
        ("operands-swapped", "apple/coremltools#576", "the inputs of an operator change places"),
        ("bias-lost", "open-mmlab/mmdetection#2924", "a bias is lost when layers are fused"),
        ("nhwc-flatten", "tensorflow/tensorflow#30044", "pixels before channels where the model has channels first"),
        ("transposed-square", "PINTO0309/onnx2tf#327", "a transpose is lost where both sizes are equal"),
        ("batch-baked", "deepinsight/insightface#1593", "a reshape holds the batch size of the example"),
        ("length-baked", "pytorch/pytorch#12906", "a length of the example is a constant"),
        ("dilation-ignored", "tensorflow/tensorflow#55799", "a dilated convolution runs without its dilation"),
        ("groups-exchanged", "alibaba/TinyNeuralNetwork#197", "groups of a convolution see each other's channels"),
        ("shuffle-order", "PINTO0309/onnx2tf#92", "depth to space in DCR order for CRD"),
        ("reflection-as-zeros", "apache/tvm#4029", "a reflected border is padded with zeros"),
        ("flip-lost", "ROCm/AMDMIGraphX#847", "a slice with a negative step loses it"),
        ("resize-coordinates", "NVIDIA/TensorRT#273", "another rule for the coordinates of a resize"),
        ("transposed-conv-shift", "PINTO0309/onnx2tf#56", "a transposed convolution is cut at the wrong side"),
        ("leaky-slope", "microsoft/onnxconverter-common#117", "the default slope of a leaky relu"),
        ("softplus-beta", "pytorch/pytorch#64811", "the beta of a softplus is ignored"),
        ("hard-sigmoid-slope", "MicrosoftDocs/windows-ai-docs#187", "0.2 for 1/6 as the slope of a hard sigmoid"),
        ("causal-mask-shifted", "onnx/onnx#8068", "a causal mask is aligned one position late"),
        ("rank-order", "tensorflow/tensorflow#34973", "top-k does not keep its order"),
        ("padding-counted", "sonos/tract#2654", "the padding counts into an average"),
        ("group-norm-groups", "NVIDIA/TensorRT#4756", "a group norm runs with other groups"),
    ),
    *_kinds(
        Group.DRIFT,
        ("batch-norm-epsilon", "gzuidhof/nn-transfer#3", "Keras's epsilon, 1e-3, for PyTorch's, 1e-5"),
        ("layer-norm-epsilon", "microsoft/onnxruntime#3768", "a fused layer norm uses its default epsilon"),
        ("instance-norm-epsilon", "PINTO0309/onnx2tf#376", "an instance norm with another epsilon"),
        ("gelu-tanh", "ROCm/AMDMIGraphX#2805", "the GELU of tanh for the exact one"),
        ("gelu-sigmoid", "ROCm/AMDMIGraphX#2542", "x sigmoid(1.702 x) for the exact GELU"),
        ("half-inside", "pytorch/pytorch#66707", "values between two layers are rounded to float16"),
        ("half-weights", "openvinotoolkit/openvino#20700", "weights are kept in float16 unless one says no"),
        ("bfloat-weights", "microsoft/onnxconverter-common#268", "weights are kept in bfloat16"),
        ("tf32", "pytorch/pytorch#67384", "products of 10 bits, the default on some devices"),
        ("fast-exp", "openvinotoolkit/openvino#37857", "a softmax of an approximate exp"),
        ("mask-leaks", "microsoft/onnxruntime#14333", "what is masked is hidden by a small number"),
        ("scale-rounded", "microsoft/onnxruntime#4293", "a factor of 1.0001"),
        ("one-sign", "ggml-org/llama.cpp#22565", "weights are damaged on the way: one has the wrong sign"),
        ("variance-biased", "openvinotoolkit/openvino#36418", "a variance divided by n for n - 1"),
        ("erf-approximate", "tenstorrent/tt-metal#56490", "a short formula for erf"),
    ),
    *_kinds(
        Group.RANGE,
        ("positions-clipped", "microsoft/onnxruntime#25251", "an index beyond a table's end is clamped"),
        ("large-batch-state", "microsoft/onnxruntime#3893", "later rows of a batch start from an old state"),
        ("last-row-clipped", "apache/mxnet#12009", "the last row of a table is never read"),
        ("ceil-mode", "PINTO0309/onnx2tf#211", "the last, partial window of a pooling is left out"),
        ("nearest-rounding", "onnx/onnx#3816", "the nearest pixel by another rounding"),
        ("division-truncates", "onnx/tensorflow-onnx#2174", "integers are divided towards zero"),
        ("remainder-sign", "pytorch/pytorch#64230", "a remainder has the sign of the dividend"),
    ),
    *_kinds(
        Group.DTYPE,
        ("int32", "onnx/onnx-tensorrt#299", "64-bit integers become 32-bit ones"),
        ("ids-as-floats", "chanzuckerberg/cellxgene-census#554", "integers go through float32"),
        ("product-overflows", "onnx/onnx-tensorrt#432", "a product of integers in 32 bits"),
    ),
    *_kinds(
        Group.VALUES,
        ("clip-limit", "onnx/tensorflow-onnx#1875", "another upper limit than 6"),
        ("clip-argument-lost", "hidet-org/hidet#97", "a clip loses a limit when it is fused"),
        ("relu-nan", "apache/tvm#19572", "a relu makes zero of NaN"),
        ("clip-nan", "NVIDIA/TensorRT#4773", "a clip makes its limit of NaN"),
        ("round-half-up", "apache/tvm#18590", "halves are rounded away from zero"),
        ("select-by-product", "onnx/tensorflow-onnx#2035", "a select multiplies by 0 and 1"),
        ("epsilon-lost", "tensorflow/tensorflow#52045", "the epsilon that keeps a value from zero is lost"),
        ("softplus-overflow", "llvm/torch-mlir#4752", "log(1 + exp(x)) overflows"),
        ("softmax-overflow", "uTensor/uTensor#175", "a softmax without the largest value taken off"),
        ("log-softmax", "onnx/onnx#115", "the logarithm of a softmax"),
        ("log-sigmoid", "pytorch/pytorch#1835", "the logarithm of a sigmoid"),
    ),
    *_kinds(
        Group.DECLARED,
        ("unlike-columns", "deepmodeling/Uni-Mol#171", "a small column beside large ones is wrong"),
        ("imputation", "onnx/sklearn-onnx#191", "NaN becomes another number than the model's, or stays"),
        ("mask-shapes", "espnet/espnet#4821", "a mask with left padding, holes, a single one or none is wrong"),
        ("beyond-data", "huggingface/sentence-transformers#2865", "values beyond the user's samples are wrong"),
        ("axis-pairs", "pytorch/pytorch#122956", "two axes at certain sizes together are wrong"),
        ("open-axes", "huggingface/optimum#505", "lengths beyond some hundreds are wrong"),
        ("file-constants", "microsoft/onnxruntime#22557", "a limit, threshold, table row, epsilon or tail is wrong"),
    ),
    *_kinds(
        Group.FILES,
        ("half-overflow", "Tencent/ncnn#5799", "a value inside leaves float16's range, or a weight is damaged there"),
        ("int8-scale", "tensorflow/tensorflow#56739", "one layer has a wrong scale or zero point"),
        ("other-functions", "tensorflow/tensorflow#52156", "another signature, or `__call__`, answers something else"),
    ),
    *_kinds(
        Group.TIES,
        ("last-of-ties", "onnx/onnx#2461", "the last of equal maxima for the first"),
        ("class-offset", "openvinotoolkit/openvino#7000", "classes are numbered from another start"),
        ("last-class-cut", "tensorflow/tpu#594", "the last class is never chosen"),
    ),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in KINDS}
