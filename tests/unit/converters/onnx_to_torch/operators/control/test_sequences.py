"""Sequences of tensors: they exist while a module is written, and what is made of them comes out."""

import numpy as np
import onnx
import pytest
from onnx import helper

from transload.models.errors import Refused

from ...conftest import numbers

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def agrees(bench, text, *arrays, dynamic=(0,)):
    path = written(bench, text)
    names = [each.name for each in onnx.load(path).graph.input]
    bench.same(path, dict(zip(names, arrays, strict=True)), dynamic=dynamic)


def written(bench, text):
    path = bench.folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), path)
    return path


@pytest.mark.parametrize(
    "split",
    [
        "SplitToSequence<axis=1>(x)",
        "SplitToSequence<axis=-1, keepdims=0>(x)",
        "SplitToSequence<axis=1>(x, two)",
        "SplitToSequence<axis=1, keepdims=0>(x, lengths)",
    ],
)
def test_parts_of_a_tensor(bench, split):
    text = f"""
    g (float[N, 5] x) => (float[A, B] all, int64 count, float[C, D] third) {{
        two = Constant<value_int=2>()
        lengths = Constant<value_ints=[2, 0, 3]>()
        parts = {split}
        count = SequenceLength(parts)
        last = Constant<value_int=-1>()
        third = SequenceAt(parts, two)
        again = SequenceInsert(parts, third, last)
        less = SequenceErase(again, two)
        same = Identity(less)
        all = ConcatFromSequence<axis={0 if "-1" in split else 1}>(same)
    }}
    """
    if "-1" in split:
        text = text.replace("float[A, B] all", "float[A] all").replace("float[C, D] third", "float[C] third")
    agrees(bench, text, numbers(3, 5))


def test_a_sequence_that_the_model_fills(bench):
    agrees(
        bench,
        """
        g (float[N, 5] x, float[N, 5] y) => (float[A, B, C] all, bool any) {
            none = SequenceEmpty()
            one = SequenceInsert(none, x)
            front = Constant<value_int=0>()
            two = SequenceInsert(one, y, front)
            maybe = Optional(two)
            any = OptionalHasElement(maybe)
            held = OptionalGetElement(maybe)
            all = ConcatFromSequence<axis=-1, new_axis=1>(held)
        }
        """,
        numbers(3, 5),
        numbers(3, 5, seed=1),
    )


def test_sizes_in_a_sequence_stay_sizes(bench):
    """As a scripted list of sizes."""
    text = """
    g (float[N, T, 6] x) => (float[A, B] y) {
        sizes = Shape(x)
        parts = SplitToSequence<axis=0, keepdims=0>(sizes)
        one = Constant<value_int=1>()
        middle = SequenceAt(parts, one)
        rest = Constant<value_int=-1>()
        both = SequenceConstruct(middle, rest)
        target = ConcatFromSequence<axis=0, new_axis=1>(both)
        y = Reshape(x, target)
    }
    """
    x = numbers(2, 5, 6)
    agrees(bench, text, x, dynamic=(0, 1))
    assert "item()" not in bench.written(written(bench, text), {"x": x}).text


def test_a_body_for_each_tensor_of_a_sequence(bench):
    text = """
    g (float[N, 4] x, float[N, 1] y) => (float[A, B] all) {
        parts = SplitToSequence<axis=1>(x)
        sums = SequenceMap(parts, y) <
            body = b (float[M, 1] part, float[M, 1] w) => (float[M, 1] z) { z = Mul(part, w) }
        >
        all = ConcatFromSequence<axis=1>(sums)
    }
    """
    agrees(bench, text, numbers(3, 4), numbers(3, 1))


def filling(trips, joined="all = ConcatFromSequence<axis=-1, new_axis=1>(made)", before="none = SequenceEmpty()"):
    """A loop that appends what it makes to a list, as scripted models do."""
    return f"""
    g (float[N, T, 5] x, int64 k) => (float[N, 5] last, float[A, B, C] all, int64 count, float[D, E, F] rows) {{
        sizes = Shape(x)
        one = Constant<value_int=1>()
        axes = Constant<value_ints=[1]>()
        trips = {trips}
        start = ReduceSum<keepdims=0>(x, axes)
        {before}
        last, made, rows = Loop(trips, , start, none) <
            body = b (int64 i, bool go, float[N, 5] h, seq(float) held) =>
                    (bool on, float[N, 5] next, seq(float) longer, float[N, 5] row) {{
                on = Identity(go)
                part = Gather<axis=1>(x, i)
                sum = Add(part, h)
                next = Tanh(sum)
                row = Neg(next)
                longer = SequenceInsert(held, next)
            }}
        >
        count = SequenceLength(made)
        {joined}
    }}
    """


@pytest.mark.parametrize(
    ("trips", "joined"),
    [
        ("Gather<axis=0>(sizes, one)", "all = ConcatFromSequence<axis=-1, new_axis=1>(made)"),
        pytest.param(
            "Identity(k)",
            "flat = ConcatFromSequence<axis=1>(made)\n all = Unsqueeze(flat, axes)",
            marks=pytest.mark.slow,
        ),
        ("Constant<value_int=7>()", "all = ConcatFromSequence<axis=0, new_axis=1>(made)"),
    ],
    ids=["as long as an axis", "as an input says", "as is known"],
)
def test_a_sequence_that_a_loop_fills(bench, trips, joined):
    x = numbers(3, 7, 5)
    path = written(bench, filling(trips, joined))
    bench.same(path, {"x": x, "k": np.array(4)}, dynamic=(0, 1))


@pytest.mark.parametrize(
    ("before", "joined", "said"),
    [
        (
            "none = SequenceConstruct(start)",
            "all = ConcatFromSequence<axis=-1, new_axis=1>(made)",
            "carries a sequence",
        ),
        ("none = SequenceEmpty()", "y = SequenceAt(made, one)\n all = Unsqueeze(y, axes)", "what a loop appended"),
    ],
)
def test_a_sequence_that_does_more_than_grow_is_refused(bench, before, joined, said):
    path = written(bench, filling("Gather<axis=0>(sizes, one)", joined, before))
    with pytest.raises(Refused, match=said):
        bench.same(path, {"x": numbers(3, 7, 5), "k": np.array(4)}, dynamic=(0, 1), want=[])


REFUSED = {
    "its position is computed by the model": "parts = SplitToSequence<axis=1>(x)\n y = SequenceAt(parts, k)",
    "the number of its parts, is known only when it runs": "parts = SplitToSequence(x)\n y = SequenceAt(parts, zero)",
    "its position is 7, and the sequence has 5": "parts = SplitToSequence<axis=1>(x)\n y = SequenceAt(parts, seven)",
    "is a sequence of tensors, and it takes one tensor": "parts = SplitToSequence<axis=1>(x)\n y = Neg(parts)",
    "the output y is a sequence of tensors": "y = SplitToSequence<axis=1>(x)",
    "is no sequence of tensors": "y = ConcatFromSequence<axis=0>(x)",
}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_refused(bench, said):
    text = f"""
    g (float[N, 5] x, int64 k) => (float[A, B] y) {{
        seven = Constant<value_int=7>()
        zero = Constant<value_int=0>()
        {REFUSED[said]}
    }}
    """
    path = bench.folder / "model.onnx"
    model = onnx.parser.parse_model(HEAD + text)
    model.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info("y"))
    onnx.save(model, path)
    with pytest.raises(Refused, match=said):
        bench.written(path, {"x": numbers(3, 5), "k": np.array(1)})
