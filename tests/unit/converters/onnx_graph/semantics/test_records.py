"""Each operator's record says the same in every wording of the specification."""

import numpy as np
import pytest

from transload.converters.onnx_graph.semantics.axis_lists import (
    ReducedAxes,
    SoftmaxAxes,
    reduced_axes,
    softmax_axes,
    squeezed_axes,
    transformed_axis,
    unsqueezed_axes,
)
from transload.converters.onnx_graph.semantics.former_attributes import (
    clip_bounds,
    constant_array,
    pad_arguments,
    slice_arguments,
    split_arguments,
    top_k_arguments,
)
from transload.converters.onnx_graph.semantics.loops_and_sequences import (
    StepAxes,
    ends_of,
    loop_arguments,
    part_lengths,
    place_among,
    scan_of,
)
from transload.converters.onnx_graph.semantics.quantization_attributes import Granularity, granularity, quantized_dtype
from transload.converters.onnx_graph.semantics.recurrent_attributes import Activation, recurrent_attributes
from transload.converters.onnx_graph.semantics.resampling_attributes import (
    GridSampleAttributes,
    ResizeMethod,
    RoiAlignAttributes,
    grid_sample_attributes,
    resize_attributes,
    roi_align_attributes,
)
from transload.converters.onnx_graph.semantics.window_attributes import (
    WindowAttributes,
    kernel_sizes,
    transposed_window,
    window_attributes,
)
from transload.models.errors import Refused


def longs(*numbers):
    return np.array(numbers, np.int64)


# Windows


def test_a_window_moves_by_one_and_has_no_pads(read, values):
    op = read("Conv", [values.tensor(1, 3, 8, 8), values.tensor(4, 3, 3, 5)], opset=11)
    assert window_attributes(op, (3, 5)) == WindowAttributes((3, 5), (1, 1), (1, 1), ((0, 0), (0, 0)))


def test_pads_lie_before_all_axes_and_then_after(read, values):
    op = read("MaxPool", [values.tensor(1, 3, 8, 8)], opset=11, kernel_shape=[3, 3], pads=[0, 1, 2, 3])
    assert window_attributes(op, (3, 3)).pads == ((0, 2), (1, 3))


def test_auto_pad_rules_pads_out(read, values):
    op = read("Conv", [values.tensor(1, 3, 8)], opset=11, auto_pad="SAME_LOWER", pads=[5, 5])
    window = window_attributes(op, (3,))
    assert (window.same, window.upper, window.pads) == (True, False, ((0, 0),))


def test_valid_with_pads_is_refused(read, values):
    op = read("Conv", [values.tensor(1, 3, 8)], opset=11, auto_pad="VALID", pads=[1, 1])
    with pytest.raises(Refused, match="it has both auto_pad and pads"):
        window_attributes(op, (3,))


def test_negative_pads_are_for_back_ends_that_cut(read, values):
    op = read("Conv", [values.tensor(1, 3, 8)], opset=11, pads=[-1, 0])
    with pytest.raises(Refused, match=r"its pads are \[-1, 0\]"):
        window_attributes(op, (3,))
    op.takes_negative_pads = True
    assert window_attributes(op, (3,)).pads == ((-1, 0),)


def test_kernel_shape_only_repeats_the_weight(read, values):
    inputs = [values.tensor(1, 3, 8, 8), values.tensor(4, 3, 3, 5)]
    assert kernel_sizes(read("Conv", inputs, opset=11), inputs[1]) == (3, 5)
    with pytest.raises(Refused, match="does not fit its kernel_shape"):
        kernel_sizes(read("Conv", inputs, opset=11, kernel_shape=[3, 3]), inputs[1])


@pytest.mark.parametrize(
    ("attributes", "cuts"),
    [
        ({"pads": [1, 2]}, ((1, 2),)),
        ({"auto_pad": "SAME_UPPER"}, ((0, 1),)),  # 3 - 2 = 1 is cut
        ({"auto_pad": "SAME_LOWER"}, ((1, 0),)),
        ({"output_shape": [8]}, ((2, 1),)),  # of 2 (5 - 1) + 3 = 11
        ({"output_shape": [1, 4, 8], "auto_pad": "SAME_UPPER"}, ((1, 2),)),
    ],
)
def test_what_a_transposed_convolution_cuts(read, values, attributes, cuts):
    op = read("ConvTranspose", [values.tensor(1, 3, 5)], opset=11, strides=[2], **attributes)
    assert transposed_window(op, (3,)).cuts([5]) == cuts


# Axes


@pytest.mark.parametrize(("opset", "by_input"), [(11, False), (13, True), (18, True)])
def test_squeeze_and_unsqueeze_name_axes_by_attribute_and_then_by_input(read, values, opset, by_input):
    inputs = [longs(-1)] if by_input else []
    attributes = {} if by_input else {"axes": [-1]}
    x = values.tensor(2, 1)
    assert squeezed_axes(read("Squeeze", [x, *inputs], opset=opset, **attributes)) == [1]
    assert unsqueezed_axes(read("Unsqueeze", [x, *inputs], opset=opset, **attributes)) == [2]


def test_squeeze_without_axes_drops_those_of_size_1(read, values):
    assert squeezed_axes(read("Squeeze", [values.tensor(1, 2, 1)], opset=13)) == [0, 2]
    with pytest.raises(Refused, match="known only when the model runs"):
        squeezed_axes(read("Squeeze", [values.tensor(1, None)], opset=13))


@pytest.mark.parametrize(
    ("op_type", "opset", "by_input"),
    [("ReduceSum", 11, False), ("ReduceSum", 13, True), ("ReduceMax", 13, False), ("ReduceMax", 18, True)],
)
def test_reductions_name_axes_by_attribute_and_then_by_input(read, values, op_type, opset, by_input):
    inputs = [longs(-1)] if by_input else []
    attributes = {} if by_input else {"axes": [-1]}
    op = read(op_type, [values.tensor(2, 3), *inputs], opset=opset, keepdims=0, **attributes)
    assert reduced_axes(op) == ReducedAxes((1,), keepdims=False)


def test_no_axes_are_all_of_them_or_none(read, values):
    x = values.tensor(2, 3)
    assert reduced_axes(read("ReduceSum", [x], opset=13)) == ReducedAxes((0, 1), keepdims=True)
    assert reduced_axes(read("ReduceSum", [x, longs()], opset=13)) == ReducedAxes((0, 1), keepdims=True)
    assert reduced_axes(read("ReduceSum", [x], opset=13, noop_with_empty_axes=1)).noop


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(
    ("opset", "axis", "expected"),
    [
        (11, None, SoftmaxAxes(1, flattens=True)),
        (11, 2, SoftmaxAxes(2, flattens=False)),
        (13, None, SoftmaxAxes(2, flattens=False)),
        (13, 0, SoftmaxAxes(0, flattens=False)),
    ],
)
def test_softmax_runs_over_axes_as_one_before_opset_13(read, values, op_type, opset, axis, expected):  # noqa: PLR0917
    attributes = {} if axis is None else {"axis": axis}
    assert softmax_axes(read(op_type, [values.tensor(2, 3, 4)], opset=opset, **attributes)) == expected


# Slice, Pad, Split


def test_slice_says_the_same_by_attributes_and_by_inputs(read, values):
    x = values.tensor(5, 6)
    old = slice_arguments(read("Slice", [x], opset=9, starts=[1], ends=[4], axes=[-1]))
    new = slice_arguments(read("Slice", [x, longs(1), longs(4), longs(-1)], opset=13))
    assert [*old.starts, *old.ends, old.axes, old.steps] == [*new.starts, *new.ends, new.axes, new.steps]
    assert (new.axes, new.steps) == ((1,), (1,))


def test_pad_says_the_same_by_attributes_and_by_inputs(read, values):
    x, pads = values.tensor(5, 6), [0, 1, 2, 3]
    for op in (
        read("Pad", [x], opset=10, pads=pads, value=2.0),
        read("Pad", [x, longs(*pads), np.float32(2)], opset=11),
        read("Pad", [x, longs(*pads), np.float32(2), longs(0, 1)], opset=18),
    ):
        padding = pad_arguments(op)
        assert (padding.mode, [*padding.axes], padding.widths) == ("constant", [0, 1], [(0, 2), (1, 3)])
        assert padding.number is not None
        assert padding.number.array == 2


def test_split_says_the_same_by_attributes_and_by_inputs(read, values):
    x = values.tensor(4, 6)
    assert split_arguments(read("Split", [x], opset=11, split=[1, 3])).lengths == (1, 3)
    assert split_arguments(read("Split", [x, longs(1, 3)], opset=13)).lengths_at == 1
    assert split_arguments(read("Split", [x], opset=18, outputs=2, num_outputs=2)).count == 2
    with pytest.raises(Refused, match="it has 1 outputs and num_outputs 2"):
        split_arguments(read("Split", [x], opset=18, num_outputs=2))


# Resize


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "attributes"),
    [
        ("Upsample", 7, [], {"scales": [1.0, 2.0]}),
        ("Upsample", 9, [np.array([1, 2], np.float32)], {}),
        ("Resize", 10, [np.array([1, 2], np.float32)], {}),
    ],
)
def test_before_opset_11_places_are_divided_by_the_scales(read, values, op_type, opset, inputs, attributes):  # noqa: PLR0917
    resizing = resize_attributes(read(op_type, [values.tensor(3, 4), *inputs], opset=opset, **attributes), frozenset())
    assert resizing.method == ResizeMethod("nearest", "asymmetric")
    assert (resizing.scales, resizing.scales_at) == (((1.0, 2.0), None) if attributes else (None, 1))


def test_resize_is_by_scales_or_by_sizes(read, values):
    x, scales, sizes = values.tensor(3, 4), np.array([1, 2], np.float32), longs(3, 8)
    method = ResizeMethod("nearest", "half_pixel", "round_prefer_floor")
    by_scales = resize_attributes(read("Resize", [x, None, scales], opset=13), frozenset())
    by_sizes = resize_attributes(read("Resize", [x, None, np.array([], np.float32), sizes], opset=13), frozenset())
    assert (by_scales.method, by_scales.by_sizes, by_scales.scales_at) == (method, False, 2)
    assert (by_sizes.method, by_sizes.by_sizes, by_sizes.axes) == (method, True, (0, 1))
    with pytest.raises(Refused, match="not just one of scales and sizes"):
        resize_attributes(read("Resize", [x, None, scales, sizes], opset=13), frozenset())


# Recurrent layers


@pytest.mark.parametrize(
    ("op_type", "gates", "names"),
    [("RNN", 1, ["tanh"]), ("GRU", 3, ["sigmoid", "tanh"]), ("LSTM", 4, ["sigmoid", "tanh", "tanh"])],
)
@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("bidirectional", 2)])
def test_activations_by_default(read, values, op_type, gates, names, direction, count):  # noqa: PLR0917
    inputs = [values.tensor(5, 2, 3), values.tensor(count, gates * 4, 3), values.tensor(count, gates * 4, 4)]
    recurrent = recurrent_attributes(read(op_type, inputs, opset=14, direction=direction))
    assert recurrent.activations == (tuple(map(Activation, names)),) * count
    assert (recurrent.usual, recurrent.hidden, len(recurrent.backwards)) == (True, 4, count)


def test_numbers_go_in_order_to_the_activations_that_take_them(read, values):
    inputs = [values.tensor(5, 2, 3), values.tensor(1, 12, 3), values.tensor(1, 12, 4)]
    options = {"activations": ["LeakyRelu", "HardSigmoid"], "activation_alpha": [0.1, 0.3], "clip": 2.0}
    recurrent = recurrent_attributes(read("GRU", inputs, opset=14, **options))
    (activations,) = recurrent.activations
    assert [it.name for it in activations] == ["leakyrelu", "hardsigmoid"]
    np.testing.assert_allclose([*activations[0].numbers, *activations[1].numbers], [0.1, 0.3, 0.5])
    assert (recurrent.usual, recurrent.clip) == (False, 2.0)


# Quantisation


@pytest.mark.parametrize(
    ("scale", "options", "expected"),
    [
        ((), {}, Granularity.TENSOR),
        ((1,), {}, Granularity.TENSOR),
        ((3,), {}, Granularity.AXIS),
        ((2, 1), {"block_size": 3}, Granularity.BLOCK),
    ],
)
def test_what_a_number_of_a_scale_is_for(read, values, scale, options, expected):
    x, part = values.tensor(2, 3), values.tensor(*scale)
    op = read("QuantizeLinear", [x, part], opset=21, **options)
    assert granularity(op, part, x)[0] is expected


def test_the_dtype_is_that_of_the_zero_point_and_else_uint8(read, values):
    x, scale = values.tensor(2), values.tensor()
    assert quantized_dtype(read("QuantizeLinear", [x, scale], opset=21)) == "uint8"
    assert quantized_dtype(read("QuantizeLinear", [x, scale, np.int8(0)], opset=21)) == "int8"
    assert quantized_dtype(read("QuantizeLinear", [x, scale], opset=21, output_dtype=3)) == "int8"
    with pytest.raises(Refused, match="its output_dtype is int8 and its zero point uint8"):
        quantized_dtype(read("QuantizeLinear", [x, scale, np.uint8(0)], opset=21, output_dtype=3))


# Sampling and signals


@pytest.mark.parametrize(("opset", "mode"), [(16, "bicubic"), (20, "cubic")])
def test_modes_of_grid_sample_have_one_name(read, values, opset, mode):
    op = read("GridSample", [values.tensor(1, 1, 4, 4), values.tensor(1, 2, 2, 2)], opset=opset, mode=mode)
    assert grid_sample_attributes(op) == GridSampleAttributes("cubic", "zeros", align_corners=False)


@pytest.mark.parametrize(("opset", "shifted"), [(10, False), (16, True)])
def test_roi_align_is_shifted_since_opset_16(read, values, opset, shifted):
    op = read("RoiAlign", [values.tensor(1, 1, 4, 4), values.tensor(2, 4), values.tensor(2)], opset=opset)
    expected = RoiAlignAttributes((1, 1), 0, 1.0, shifted=shifted, takes_largest=False)
    assert roi_align_attributes(op) == expected


def test_the_axis_of_dft_is_an_attribute_and_then_an_input(read, values):
    signal = values.tensor(2, 8, 8, 1)
    assert transformed_axis(read("DFT", [signal], opset=17)) == 1
    assert transformed_axis(read("DFT", [signal], opset=20)) == 2
    assert transformed_axis(read("DFT", [signal, longs(8), longs(1)], opset=20)) == 1
    with pytest.raises(Refused, match="real and imaginary parts"):
        transformed_axis(read("DFT", [signal], opset=17, axis=-1))


# Selections, constants, sequences and loops


@pytest.mark.parametrize(
    ("opset", "inputs", "attributes"),
    [(9, [], {"k": 2}), (10, [longs(2)], {}), (11, [longs(2)], {"largest": 1, "sorted": 0})],
)
def test_top_k_says_the_same_in_every_wording(read, values, opset, inputs, attributes):
    op = read("TopK", [values.tensor(3, 4), *inputs], opset=opset, outputs=2, **attributes)
    choice = top_k_arguments(op)
    assert (choice.count, choice.axis, choice.largest) == (2, 1, True)
    op.check_all_read([op.value(0)] * 2)


def test_bounds_of_clip_are_attributes_and_then_inputs(read, values):
    x = values.tensor(3)
    low, high = clip_bounds(read("Clip", [x], opset=6, max=6.0))
    assert high is not None
    assert (low, high.array, high.dtype) == (None, 6, "float32")
    low, high = clip_bounds(read("Clip", [x, None, np.float32(6)], opset=13))
    assert high is not None
    assert (low, high.array) == (None, 6)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [1, 2]}, longs(1, 2)),
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": [0.5, 1]}, np.array([0.5, 1], np.float32)),
    ],
)
def test_what_a_constant_holds(read, attributes, expected):
    array = constant_array(read("Constant", [], opset=13, **attributes))
    np.testing.assert_array_equal(array, expected)
    assert array.dtype == expected.dtype


def test_places_in_a_sequence(read):
    op = read("SequenceAt", [], opset=11)
    assert place_among(op, np.array(-1), 3, "fix") == 2
    assert place_among(op, np.array(3), 3, "fix", end=True) == 3
    with pytest.raises(Refused, match="its position is 3, and the sequence has 3 tensors"):
        place_among(op, np.array(3), 3, "fix")


def test_lengths_of_parts(read, values):
    assert part_lengths(read("SplitToSequence", [values.tensor(5)], opset=11), 3, 0, "fix") == [1, 1, 1]
    op = read("SplitToSequence", [values.tensor(5), np.int64(2)], opset=11)
    assert part_lengths(op, 5, 0, "fix") == [2, 2, 1]


def test_a_scan_has_states_and_scanned_inputs(read, values):
    inputs = [values.tensor(2), values.tensor(2, 7)]
    options = {"num_scan_inputs": 1, "scan_input_axes": [-1], "scan_input_directions": [1]}
    op = read("Scan", inputs, opset=11, **options)
    scan = scan_of(op)
    assert (scan.states, scan.scanned, scan.steps) == (inputs[:1], [(inputs[1], 1, True)], 7)
    assert ends_of(op, "output", inputs) == StepAxes((0, 0), (False, False))


def test_a_loop_without_an_end_is_refused(read, values):
    from onnx import helper

    graph = helper.make_graph([], "body", [], [])
    with pytest.raises(Refused, match="neither a trip count nor a condition"):
        loop_arguments(read("Loop", [None, None, values.tensor(1)], opset=11, body=graph))
    assert loop_arguments(read("Loop", [np.int64(-3), None], opset=11, body=graph)).most == 0
