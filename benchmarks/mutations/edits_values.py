"""Edits that show at some sizes, batches, indices or values only."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from onnx_edit import GraphEdit, Writer, set_attribute


def positions_clipped(graph: GraphEdit) -> None:
    """Use the last of 32 positions for every later one."""
    graph.insert_before(graph.node("Gather", "embedding_1"), 1, "Min", graph.constant(31, "int64"))


def state_kept_beyond(graph: GraphEdit, first: int = 64) -> None:
    """Start the rows of a large batch from a state that is not the first one."""
    node = graph.node("GRU")

    def write(writer: Writer) -> str:
        batch = writer.op("Shape", writer.inputs[0], start=1, end=2)
        count = writer.op("Squeeze", batch)
        rows = writer.op("Range", writer.const(0, "int64"), count, writer.const(1, "int64"))
        late = writer.op("Cast", writer.op("GreaterOrEqual", rows, writer.const(first, "int64")), to=TensorProto.FLOAT)
        column = writer.op("Reshape", late, writer.const([1, -1, 1], "int64"))
        return writer.op("Add", writer.inputs[0], writer.op("Mul", column, writer.const(0.25)))

    made = graph.insert_before(node, 5, "Identity")
    graph.expand(graph.named(made.name), write)


def state_kept_beyond_two(graph: GraphEdit) -> None:
    """Start the third and later rows of a batch from a state that is not the first one."""
    state_kept_beyond(graph, 2)


def last_row_clipped(graph: GraphEdit) -> None:
    """Take the row before the last for the last id."""
    graph.insert_before(graph.node("Gather", "embedding"), 1, "Min", graph.constant(298, "int64"))


def last_user_zero(graph: GraphEdit) -> None:
    """Lose the last row of a table."""
    graph.change(graph.node("Gather", "users"), 0, lambda table: np.where(np.arange(200)[:, None] == 199, 0.0, table))


def ceil_mode_lost(graph: GraphEdit) -> None:
    """Leave out the last, partial window of a pooling."""
    set_attribute(graph.node("MaxPool"), "ceil_mode", 0)


def nearest_rounds_up(graph: GraphEdit) -> None:
    """Take the nearest pixel by rounding where PyTorch rounds down; the same at an exact multiple."""
    for name in ("Floor_24", "Floor_37"):
        node = graph.node("Floor", name)
        graph.expand(node, lambda writer: writer.op("Round", writer.inputs[0]))


def division_truncates(graph: GraphEdit) -> None:
    """Round a division of integers towards zero."""
    graph.expand(graph.node("Sub", "div_2"), lambda writer: writer.inputs[0])


def remainder_of_dividend(graph: GraphEdit) -> None:
    """Give a remainder the sign of the dividend."""
    node = graph.node("Mod", "remainder", at=-1)
    set_attribute(node, "fmod", 1)


def narrowed_to_32_bits(graph: GraphEdit) -> None:
    """Read 64-bit integers as 32-bit ones."""
    _cast_input(graph, "stamp", TensorProto.INT32)


def ids_through_floats(graph: GraphEdit) -> None:
    """Carry integers as float32, which has 24 bits for them."""
    _cast_input(graph, "stamp", TensorProto.FLOAT)


def _cast_input(graph: GraphEdit, name: str, dtype: int) -> None:
    node = next(node for node in graph.model.graph.node if name in node.input)
    graph.note(node)
    at = list(node.input).index(name)
    graph.insert_before(node, at, "Cast", to=TensorProto.INT64)
    inner = next(other for other in graph.model.graph.node if node.input[at] in other.output)
    graph.insert_before(inner, 0, "Cast", to=dtype)


def product_overflows(graph: GraphEdit) -> None:
    """Multiply in 32 bits."""
    node = graph.node("Mul", "mul_9")

    def write(writer: Writer) -> str:
        parts = [writer.op("Cast", name, to=TensorProto.INT32) for name in writer.inputs]
        return writer.op("Cast", writer.op("Mul", *parts), to=TensorProto.INT64)

    graph.expand(node, write)


def clip_at_ten(graph: GraphEdit) -> None:
    """Clip at 10 where the model clips at 6."""
    node = graph.node("Clip")
    node.input[2] = graph.constant(10.0)


def clip_upper_lost(graph: GraphEdit) -> None:
    """Lose the upper limit of a clip."""
    node = graph.node("Clip", at=-1)
    del node.input[2:]


def nan_swallowed_by_relu(graph: GraphEdit) -> None:
    """Make zero of NaN in a relu, as x > 0 ? x : 0 does."""

    def write(writer: Writer) -> str:
        zero = writer.const(0.0)
        return writer.op("Where", writer.op("Greater", writer.inputs[0], zero), writer.inputs[0], zero)

    graph.expand(graph.node("Relu"), write)


def nan_clipped(graph: GraphEdit) -> None:
    """Make the lower limit of NaN in a clip."""

    def write(writer: Writer) -> str:
        value, low, high = writer.inputs
        number = writer.op("Where", writer.op("IsNaN", value), low, value)
        return writer.op("Clip", number, low, high)

    graph.expand(graph.node("Clip", at=-1), write)


def rounded_half_up(graph: GraphEdit) -> None:
    """Round halves away from zero where PyTorch rounds them to the even number."""

    def write(writer: Writer) -> str:
        size = writer.op("Floor", writer.op("Add", writer.op("Abs", writer.inputs[0]), writer.const(0.5)))
        return writer.op("Mul", writer.op("Sign", writer.inputs[0]), size)

    graph.expand(graph.node("Round"), write)


def select_by_product(graph: GraphEdit) -> None:
    """Choose by multiplying with 0 and 1, which makes NaN of infinities."""

    def write(writer: Writer) -> str:
        mask = writer.op("Cast", writer.inputs[0], to=TensorProto.FLOAT)
        other = writer.op("Sub", writer.const(1.0), mask)
        return writer.op("Add", writer.op("Mul", mask, writer.inputs[1]), writer.op("Mul", other, writer.inputs[2]))

    graph.expand(graph.node("Where"), write)


def erf_cut(graph: GraphEdit) -> None:
    """Compute erf by a short formula, with its error of 5e-4 (Abramowitz and Stegun 7.1.27)."""

    def write(writer: Writer) -> str:
        x = writer.op("Abs", writer.inputs[0])
        total = writer.const(1.0)
        power = x
        for factor in (0.278393, 0.230389, 0.000972, 0.078108):
            total = writer.op("Add", total, writer.op("Mul", power, writer.const(factor)))
            power = writer.op("Mul", power, x)
        fourth = writer.op("Pow", total, writer.const(-4.0))
        return writer.op("Mul", writer.op("Sign", writer.inputs[0]), writer.op("Sub", writer.const(1.0), fourth))

    graph.expand(graph.node("Erf"), write)


def epsilon_lost(graph: GraphEdit) -> None:
    """Take the logarithm of a power without the small number that keeps it from zero."""
    node = graph.node("Log")
    before = next(other for other in graph.model.graph.node if node.input[0] in other.output)
    graph.change(before, 1, np.zeros_like)


def softplus_overflows(graph: GraphEdit) -> None:
    """Compute a softplus as log(1 + exp(x)), which overflows beyond 88."""

    def write(writer: Writer) -> str:
        return writer.op("Log", writer.op("Add", writer.op("Exp", writer.inputs[0]), writer.const(1.0)))

    graph.expand(graph.node("Softplus"), write)


def softmax_without_max(graph: GraphEdit) -> None:
    """Compute a softmax without taking the largest value off, which overflows beyond 88."""

    def write(writer: Writer) -> str:
        parts = writer.op("Exp", writer.inputs[0])
        return writer.op("Div", parts, writer.op("ReduceSum", parts, writer.const([-1], "int64"), keepdims=1))

    graph.expand(graph.node("Softmax"), write)


def log_softmax_of_softmax(graph: GraphEdit) -> None:
    """Compute a log softmax as the logarithm of a softmax."""
    graph.expand(
        graph.node("LogSoftmax"), lambda writer: writer.op("Log", writer.op("Softmax", writer.inputs[0], axis=-1))
    )


def log_sigmoid_of_sigmoid(graph: GraphEdit) -> None:
    """Compute a log sigmoid as the logarithm of a sigmoid: -inf where that is 0."""

    def write(writer: Writer) -> str:
        return writer.op("Neg", writer.op("Log", writer.op("Sigmoid", writer.op("Neg", writer.inputs[0]))))

    graph.expand(graph.node("Softplus"), write)


def last_index_of_ties(graph: GraphEdit) -> None:
    """Return the last of equal maxima where PyTorch returns the first."""
    set_attribute(graph.node("ArgMax"), "select_last_index", 1)


def last_class_cut(graph: GraphEdit) -> None:
    """Never choose the last class."""
    node = graph.node("ArgMax")
    ends = [graph.constant([value], "int64") for value in (0, -1, -1)]
    graph.insert_before(node, 0, "Slice", *ends)
