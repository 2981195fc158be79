"""Sequences of tensors, which are lists while lowering."""

import numpy as np
import onnx
import pytest
from onnx import parser

from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import Refused

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'


def feeds(*shape):
    """At three batches, of which one is as long as the other axes of the twin."""
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((batch, *shape)).astype(np.float32)} for batch in (1, 4, 5)]


def ints(name, *numbers):
    return f"{name} = Constant <value = int64{f'[{len(numbers)}]'} {{{', '.join(map(str, numbers))}}}> ()"


def scalar(name, number):
    return f"{name} = Constant <value_int = {number}> ()"


SPLITS = {
    "one by one": "s = SplitToSequence <axis = 1> (x)",
    "one by one without the axis": "s = SplitToSequence <axis = -2, keepdims = 0> (x)",
    "of one length, the last shorter": f"{scalar('n', 3)} s = SplitToSequence <axis = 1> (x, n)",
    "of these lengths": f"{ints('n', 1, 2, 1)} s = SplitToSequence <axis = 1> (x, n)",
    "of these lengths, keepdims ignored": f"{ints('n', 1, 2, 1)} s = SplitToSequence <axis = 1, keepdims = 0> (x, n)",
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("width", [3, 4])
def test_a_split_gives_its_parts(bench, split, width):
    picks = "".join(f"{scalar(f'p{at}', at)} y{at} = SequenceAt (s, p{at})\n" for at in (0, 1, -1)).replace("-", "m")
    picks = picks.replace("value_int = m1", "value_int = -1")
    graph = f"g (float[N,4,{width}] x) => (float y0, float y1, float ym1, int64 n_parts) {{ {SPLITS[split]}\n{picks}"
    bench.model_agrees(HEAD + graph + "n_parts = SequenceLength (s) }", *feeds(4, width), tflite=split == "one by one")


def test_a_split_of_an_axis_of_open_size_by_lengths(bench):
    text = f"g (float[N,4] x) => (float y) {{ {ints('n', 1, 3)} s = SplitToSequence <axis = 0> (x, n) {scalar('p', 1)}"
    bench.model_agrees(f"{HEAD}{text} y = SequenceAt (s, p) }}", feeds(4)[1])


def test_a_split_of_channels_that_lie_last(bench):
    text = f"""g (float[N,4,6,5] x) => (float y) <float[4,4,3,3] w = {{{", ".join(["0.25"] * 144)}}}> {{
      c = Conv (x, w)  n = Constant <value_ints = [1, 3]> ()  s = SplitToSequence <axis = 1> (c, n)
      {scalar("p", 1)} b = SequenceAt (s, p)  y = MaxPool <kernel_shape = [2, 2]> (b) }}"""
    bench.model_agrees(HEAD + text, *feeds(4, 6, 5))


@pytest.mark.parametrize(
    ("join", "widths"),
    [
        ("y = ConcatFromSequence <axis = 1> (s)", (2, 3)),
        ("y = ConcatFromSequence <axis = -1, new_axis = 1> (s)", (3, 3)),
        ("y = ConcatFromSequence <axis = -3, new_axis = 1> (s)", (3, 3)),
    ],
)
def test_tensors_are_joined_and_stacked(bench, join, widths):
    rng = np.random.default_rng(0)
    given = [
        {name: rng.standard_normal((n, width)).astype(np.float32) for name, width in zip("ab", widths, strict=True)}
        for n in (1, 3)
    ]
    text = f"g (float[N,{widths[0]}] a, float[N,{widths[1]}] b) => (float y) {{ s = SequenceConstruct (a, b) {join} }}"
    bench.model_agrees(HEAD + text, *given)


EDITS = {
    "inserted at the end": "t = SequenceInsert (s, x)",
    "inserted before the last": "t = SequenceInsert (s, x, back)",
    "inserted at the start": "t = SequenceInsert (s, x, zero)",
    "inserted behind the last": "t = SequenceInsert (s, x, three)",
    "the last erased": "t = SequenceErase (s)",
    "the first erased": "t = SequenceErase (s, zero)",
    "erased from the back": "t = SequenceErase (s, back)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_sequence_is_edited(bench, edit):
    text = f"""g (float[N,3] x) => (float y) {{
      {scalar("zero", 0)} {scalar("three", 3)} {scalar("back", -1)}
      a = Neg (x)  b = Exp (x)  c = Abs (x)
      e = SequenceEmpty <dtype = 1> ()  r = SequenceInsert (e, a)  q = SequenceInsert (r, b)
      s = SequenceInsert (q, c)
      {EDITS[edit]}  i = Identity (t)  y = ConcatFromSequence <axis = 0> (i) }}"""
    bench.model_agrees(HEAD + text, *feeds(3), tflite=False)


def test_sizes_in_a_sequence_stay_sizes(bench):
    """As the older exporter makes the target of a reshape."""
    text = f"""g (float[N,4,3] x) => (float y) {{
      {scalar("zero", 0)} {scalar("twelve", 12)}  shape = Shape (x)  n = Gather (shape, zero)
      s = SequenceConstruct (n, twelve)  target = ConcatFromSequence <axis = 0, new_axis = 1> (s)
      y = Reshape (x, target) }}"""
    bench.model_agrees(HEAD + text, *feeds(4, 3))


def test_a_body_is_mapped_over_a_sequence_and_sees_outer_names(bench):
    text = """g (float[N,3] x) => (float y) {
      b = Exp (x)  s = SequenceConstruct (x, b)
      t = SequenceMap (s, x) <body = f (float[N,3] each, float[N,3] all) => (float[N,3] made) {
        u = Mul (each, all)  made = Add (u, b) }>
      y = ConcatFromSequence <axis = 0> (t) }"""
    x = feeds(3)[1]["x"]
    onnx.save(parser.parse_model(HEAD + text), bench.folder / "model.onnx")
    got = bench.in_tensorflow(lower(bench.folder / "model.onnx"))({"x": x})["y"]
    np.testing.assert_allclose(got, np.concatenate([x * x + np.exp(x), np.exp(x) * x + np.exp(x)]), rtol=1e-6)


def test_a_known_choice_between_sequences_is_made_while_lowering(bench):
    text = """g (float[N,3] x) => (float y) {
      c = Constant <value = bool {0}> ()
      s = If (c) <then_branch = a () => (seq(float[N,3]) t) { t = SequenceConstruct (x) },
                  else_branch = b () => (seq(float[N,3]) u) { n = Neg (x)  u = SequenceConstruct (n, x) }>
      y = ConcatFromSequence <axis = 0> (s) }"""
    bench.model_agrees(HEAD + text, feeds(3)[1], tflite=False)


REFUSED = {
    "y = SequenceAt (s, k)": "its position is computed by the model",
    "k2 = Constant <value_int = 2> () y = SequenceAt (s, k2)": "its position is 2, and the sequence has 2 tensors",
    "y = Relu (s)": "its input 0 is a sequence of tensors, and it takes a tensor",
    "y = Shape (s)": "its input 0 is a sequence of tensors, and it takes a tensor",
    "y = SequenceLength (x)": "its input 0 is no sequence of tensors",
    "t = SplitToSequence (x) y = SequenceLength (t)": "the size of axis 0, and so the number of its parts, is",
    "t = SplitToSequence <axis = 1> (x, k) y = SequenceLength (t)": "its split is computed by the model",
    "t = SequenceConstruct (x, k) y = SequenceLength (t)": "it puts float32, int64 into one sequence",
    "t = SequenceInsert (s, k) y = SequenceLength (t)": "it puts int64 into a sequence of float32",
    "y = Identity (s)": "the output y is a sequence of tensors",
}


@pytest.mark.parametrize("nodes", REFUSED)
def test_lengths_and_places_known_only_when_the_model_runs_are_refused(tmp_path, nodes):
    text = f"{HEAD}g (float[N,3] x, int64 k) => (float y) {{ s = SequenceConstruct (x, x) {nodes} }}"
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    with pytest.raises(Refused, match=REFUSED[nodes]):
        lower(tmp_path / "model.onnx")


def test_a_sequence_as_input_is_refused(tmp_path):
    text = f"{HEAD}g (seq(float[N,3]) s) => (int64 y) {{ y = SequenceLength (s) }}"
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    with pytest.raises(Refused, match="the input s is no tensor of a known rank"):
        lower(tmp_path / "model.onnx")
