"""Control flow: If, Loop and Scan, in both dialects, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import parser

from transload.converters.onnx_to_tf.kernels import dialects
from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import Refused

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
RNG = np.random.default_rng(0)
BATCHES = (1, 3, 4)


def x(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def feeds(*shape, **more):
    return [{"x": x(batch, *shape), **more} for batch in BATCHES]


def kinds_of(lowered):
    """The kinds of TensorFlow's operators in the graph itself."""
    return {operation.type for operation in lowered.module.serve.graph.get_operations()}


def lowered(bench, text, dialect=dialects.TENSORFLOW):
    onnx.save(parser.parse_model(HEAD + text), bench.folder / "model.onnx")
    return lower(bench.folder / "model.onnx", dialect)


IF = """g (float[N,3] x, bool c) => (float[] y, float[] z) <float[3] w = {{1.0, 2.0, 3.0}}> {{
  before = Mul (x, w)
  y, z = If (c) <
    then_branch = a () => (float[] a1, float[] a2) {{ {then} a2 = Neg (before) }},
    else_branch = b () => (float[] b1, float[] b2) {{ {other} b2 = Add (x, w) }}>
}}"""
BRANCHES = {
    "of one shape": ("a1 = Exp (before)", "b1 = Identity (x)"),
    "of different sizes": ("a1 = Concat <axis = 1> (before, x)", "b1 = Identity (w2) w2 = Relu (x)"),
    "of known and computed": ("a1 = Constant <value = float[1,2] {5.0, 6.0}> ()", "b1 = Identity (x)"),
}


@pytest.mark.parametrize("kind", BRANCHES)
def test_one_of_two_branches_runs_and_sees_outer_names(bench, kind):
    then, other = BRANCHES[kind]
    if kind == "of different sizes":
        other = "w2 = Relu (x) b1 = Identity (w2)"
    given = [{"x": x(batch, 3), "c": np.array(c)} for batch in BATCHES for c in (True, False)]
    bench.model_agrees(IF.format(then=then, other=other).join([HEAD, ""]), *given)


def test_branches_inside_of_branches(bench):
    text = """g (float[N,3] x, bool c, bool d) => (float[] y) {
      u = Exp (x)
      y = If (c) <
        then_branch = a () => (float[] r) { v = Neg (u)
          r = If (d) <then_branch = aa () => (float[] s) { s = Add (u, v) },
                      else_branch = ab () => (float[] t) { t = Sub (v, x) }> },
        else_branch = b () => (float[] q) { q = Identity (x) }>
    }"""
    both = [np.array(True), np.array(False)]
    bench.model_agrees(HEAD + text, *({"x": x(2, 3), "c": c, "d": d} for c in both for d in both))


def test_only_the_branch_of_a_known_condition_is_lowered(bench):
    text = """g (float[N,3] x) => (float[] y) {
      s = Shape <start = 1> (x)  three = Constant <value_ints = [3]> ()  c = Equal (s, three)
      y = If (c) <then_branch = a () => (float[] r) { r = Neg (x) },
                  else_branch = b () => (float[] q) { q = Celestial (x) }> }"""
    assert not kinds_of(lowered(bench, text)) & {"If", "StatelessIf"}


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (
            "a1 = ReduceSum <keepdims = 0> (x)",
            "its output 0 is float32 of 0 axes in one branch and float32 of 2 axes in",
        ),
        (
            "a1 = Cast <to = 11> (x)",
            "its output 0 is float64 of 2 axes in one branch and float32 of 2 axes in the other",
        ),
    ],
)
def test_branches_of_different_ranks_or_dtypes_are_refused(bench, then, words):
    with pytest.raises(Refused, match=words):
        lowered(bench, IF.format(then=then, other="b1 = Identity (x)"))


LOOP = """g (float[N,3] x{inputs}) => ({outputs}) <float[3] w = {{0.1, 0.2, 0.3}}> {{
  true = Constant <value = bool {{1}}> ()
  {before}
  {left} = Loop ({trips}, {condition}, {states}) <body = b (int64 i, bool told, {formals}) => (bool more, {made}) {{
    {body} }}>
}}"""


def loop(body, **more):
    """A model of one Loop; each part of it can be replaced."""
    parts = {
        "trips": "n", "condition": "true", "before": "", "states": "x", "inputs": "",
        "formals": "float[] h", "made": "float[] h2", "outputs": "float[] y",
    }  # fmt: skip
    parts |= {**more, "body": body}
    return HEAD + LOOP.format(left=", ".join(each.split()[-1] for each in parts["outputs"].split(", ")), **parts)


STEP = """u = Mul (h, w)  f = CastLike (i, x)  h2 = Add (u, f)
  o = ReduceSum <keepdims = 0> (h2, one)  more = Identity (told)"""
ONE = "one = Constant <value_ints = [1]> ()"
COUNTS = {"few": "n = Constant <value_int = 3> ()", "many": "n = Constant <value_int = 20> ()"}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("condition", ["true", ""])
def test_a_known_number_of_steps(bench, count, condition):
    text = loop(
        STEP,
        before=f"{ONE} {COUNTS[count]}",
        made="float[] h2, float[] o",
        outputs="float[] y, float[] z",
        condition=condition,
    )
    bench.model_agrees(text, *feeds(3), tflite=condition == "true")


def test_few_known_steps_are_unrolled_and_many_are_not(bench):
    for count, unrolled in (("few", True), ("many", False)):
        text = loop(STEP, before=f"{ONE} {COUNTS[count]}", made="float[] h2, float[] o", outputs="float[] y, float[] z")
        found = kinds_of(lowered(bench, text.removeprefix(HEAD)))
        assert bool(found & {"While", "StatelessWhile"}) != unrolled


def test_the_number_of_steps_may_be_computed(bench):
    text = loop(STEP, before=ONE, inputs=", int64 n", made="float[] h2, float[] o", outputs="float[] y, float[] z")
    bench.model_agrees(text, *({"x": x(2, 3), "n": np.array(n)} for n in (1, 2, 7, 20)))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dialect", ["TENSORFLOW", "TFLITE"])
def test_no_step_at_all_leaves_the_states_as_they_are(bench, dialect, known):
    """Of the outputs, sizes that are known only when the model runs are 0 then."""
    text = loop(
        STEP.replace("o = ", "zero = Constant <value_ints = [0]> ()  p = ReduceMax <keepdims = 0> (h2, zero)  o = "),
        before=f"{ONE} n = Constant <value_int = 0> ()" if known else ONE, inputs="" if known else ", int64 n",
        made="float[] h2, float[] o, float[3] p", outputs="float[] y, float[] z, float[] v",
    )  # fmt: skip
    # By their shapes: TFLite's runtime cannot hand out a tensor of no elements.
    text = text.replace("=> (float[] y, float[] z, float[] v)", "=> (float[] y, int64[2] zs, int64[2] vs)")
    made = lowered(bench, text.removeprefix(HEAD)[:-1] + "zs = Shape (z)  vs = Shape (v) }", getattr(dialects, dialect))
    answer = bench.in_tensorflow(made) if dialect == "TENSORFLOW" else bench.in_tflite(made)
    given = {"x": x(2, 3), **({} if known else {"n": np.array(0)})}
    got = answer(given)
    np.testing.assert_array_equal(got["y"], given["x"])
    assert (list(got["zs"]), list(got["vs"])) == ([0, 0], [0, 3])


@pytest.mark.parametrize("limited", [False, True])
def test_a_condition_that_is_computed_ends_the_loop(bench, limited):
    """With a trip count too, whichever is first; each output has as many steps as there were."""
    body = "h2 = Mul (h, half)  o = Neg (h)  s = ReduceSum <keepdims = 0> (h2)  more = Greater (s, bound)"
    before = "half = Constant <value_float = 0.5> ()  bound = Constant <value_float = 0.05> ()"
    text = loop(
        body, before=before + " n = Constant <value_int = 4> ()", trips="n" if limited else "",
        made="float[] h2, float[] o", outputs="float[] y, float[] z",
    )  # fmt: skip
    bench.model_agrees(text, *({"x": np.full((2, 3), size, np.float32)} for size in (0.001, 0.1, 3)))


def test_a_condition_that_does_not_hold_at_first(bench):
    body = "h2 = Neg (h)  more = Identity (told)"
    text = loop(body, inputs=", bool c", condition="c", before="n = Constant <value_int = 5> ()")
    bench.model_agrees(text, *({"x": x(2, 3), "c": np.array(c)} for c in (True, False)))


def test_the_bodys_condition_counts_only_where_the_node_has_one(bench):
    """The specification: it is ignored. ONNX Runtime and onnx's reference stop all the same."""
    text = loop("h2 = Neg (h)  more = Not (told)", condition="", before="n = Constant <value_int = 3> ()")
    given = {"x": x(2, 3)}
    for steps in (3, 21):
        made = lowered(bench, text.removeprefix(HEAD).replace("= 3>", f"= {steps}>"))
        np.testing.assert_array_equal(bench.in_tensorflow(made)(given)["y"], -given["x"])


def test_a_condition_that_follows_from_known_numbers_is_computed_while_lowering(bench):
    """A while loop that counts by itself, without a trip count."""
    body = "h2 = Mul (h, w)  k2 = Sub (k, one)  more = Greater (k2, zero)"
    before = (
        "one = Constant <value_int = 1> ()  zero = Constant <value_int = 0> ()  start = Constant <value_int = {}> ()"
    )
    for start, unrolled in ((3, True), (30, False)):
        text = loop(
            body, before=before.format(start), trips="", states="x, start", formals="float[] h, int64 k",
            made="float[] h2, int64 k2", outputs="float[] y, int64 z",
        )  # fmt: skip
        bench.model_agrees(text, feeds(3)[1])
        assert bool(kinds_of(lowered(bench, text.removeprefix(HEAD))) & {"While", "StatelessWhile"}) != unrolled


@pytest.mark.parametrize("known", [False, True])
def test_a_state_may_grow_from_step_to_step(bench, known):
    before = "n = Constant <value_int = 20> ()" if known else ""
    text = loop(
        "h2 = Concat <axis = 0> (h, x)  more = Identity (told)", before=before, inputs="" if known else ", int64 n"
    )
    given = feeds(3) if known else [{**each, "n": np.array(at + 1)} for at, each in enumerate(feeds(3))]
    bench.model_agrees(text, *given)


def test_a_state_whose_rank_changes_is_refused(bench):
    text = loop("h2 = Unsqueeze (h, one)  more = Identity (told)", before=ONE, inputs=", int64 n")
    with pytest.raises(
        Refused, match="what it carries at place 0 is float32 of 2 axes before a step, and float32 of 3"
    ):
        lowered(bench, text.removeprefix(HEAD))


def test_a_loop_that_never_ends_is_refused(bench):
    with pytest.raises(Refused, match="it has neither a trip count nor a condition"):
        lowered(bench, loop("h2 = Neg (h)  more = Identity (told)", trips="", condition="").removeprefix(HEAD))


def test_loops_inside_of_loops_and_branches(bench):
    text = """g (float[N,3] x, int64 n, bool c) => (float[] y, float[] z) <float[3] w = {0.1, 0.2, 0.3}> {
      true = Constant <value = bool {1}> ()
      u = Neg (x)
      y, z = Loop (n, true, x) <body = b (int64 i, bool told, float[N,3] h) => (bool more, float[N,3] h2, float o) {
        more = Identity (told)
        a = Loop (i, told, h) <body = bb (int64 j, bool told2, float[N,3] k) => (bool more2, float[N,3] k2) {
          more2 = Identity (told2)  f = CastLike (i, x)  p = Mul (k, w)  k2 = Add (p, f) }>
        h2 = If (c) <then_branch = t () => (float[N,3] r) { r = Add (a, u) },
                     else_branch = e () => (float[N,3] q) { q = Mul (a, w) }>
        o = ReduceMax <keepdims = 0> (h2) }>
    }"""
    bench.model_agrees(
        HEAD + text, *({"x": x(2, 3), "n": np.array(n), "c": np.array(c)} for n in (1, 4) for c in (True, False))
    )


FILLING = """g (float[N,3] x{inputs}) => ({outputs}) {{
  true = Constant <value = bool {{1}}> ()  {count}  {start}
  s, last = Loop (n, true, empty, x)
  <body = b (int64 i, bool told, seq(float[N,3]) h, float[N,3] c) => (bool more, seq(float[N,3]) h2, float[N,3] d) {{
    more = Identity (told)  f = CastLike (i, x)  d = Add (c, f)  {step} }}>
  {end} }}"""
APPENDED = "h2 = SequenceInsert (h, d)"
EMPTY = "empty = SequenceEmpty <dtype = 1> ()"
AS_MANY_AS_ROWS = "size = Shape <end = 1> (x) n = Squeeze (size)"


def filling(step=APPENDED, end="y = ConcatFromSequence <axis = 0> (s)", **more):
    """A model of one Loop that makes a sequence."""
    parts = {"inputs": "", "outputs": "float[] y, float[] last", "count": AS_MANY_AS_ROWS, "start": EMPTY} | more
    return FILLING.format(step=step, end=end, **parts)


def test_a_sequence_that_a_loop_of_known_length_fills(bench):
    known = "n = Constant <value_int = 20> ()"
    bench.model_agrees(HEAD + filling(count=known), feeds(3)[1], tflite=False)


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_sequence_as_long_as_its_loop_is_joined(bench, axis, new_axis):
    end = f"y = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (s)  k = SequenceLength (s)"
    text = filling(end=end, outputs="float[] y, float[] last, int64 k")
    bench.model_agrees(HEAD + text, *feeds(3))  # of 3 rows too: every axis is as long as another


OTHERWISE = {
    "inserted before a place": {"step": "zero = Constant <value_int = 0> () h2 = SequenceInsert (h, d, zero)"},
    "read inside": {"step": "k = SequenceLength (h) e = CastLike (k, x) p = Add (d, e) h2 = SequenceInsert (h, p)"},
    "left as it is": {"step": "h2 = Identity (h)"},
}


@pytest.mark.parametrize("how", OTHERWISE)
def test_a_sequence_that_does_more_than_grow_is_refused(bench, how):
    with pytest.raises(Refused, match="it carries a sequence of tensors, and how many steps there are is known only"):
        lowered(bench, filling(**OTHERWISE[how]))


def test_erasing_from_a_sequence_of_unknown_length_is_refused(bench):
    with pytest.raises(Refused, match="its input 0 is a sequence as long as a loop had steps"):
        lowered(bench, filling(end="t = SequenceErase (s) y = ConcatFromSequence <axis = 0> (t)"))


def test_a_list_filled_by_a_loop_is_read_backwards_into_a_list_with_a_tensor(bench):
    """As the tags of a CRF are found: back from the end, along what each step wrote down; of one step at least."""
    end = """one = Constant <value_int = 1> ()  m = SequenceLength (s)  less = Sub (m, one)
      tags = SequenceConstruct (last)
      lost, all = Loop (less, true, last, tags)
      <body = bb (int64 j, bool go, float[N,3] t, seq(float[N,3]) g) => (bool more, float[N,3] u, seq(float[N,3]) g2) {
        more = Identity (go)  back = Sub (less, one)  at = Sub (back, j)
        e = SequenceAt (s, at)  u = Sub (t, e)  g2 = SequenceInsert (g, u) }>
      wider = SequenceInsert (all, x)  y = ConcatFromSequence <axis = 1, new_axis = 1> (wider)"""
    bench.model_agrees(HEAD + filling(end=end), *feeds(3))


@pytest.mark.parametrize("place", [0, -1])
def test_a_tensor_is_read_from_a_list_filled_by_a_loop(bench, place):
    bench.model_agrees(HEAD + filling(end=f"k = Constant <value_int = {place}> () y = SequenceAt (s, k)"), *feeds(3))


def test_appending_to_a_list_with_a_tensor_of_another_shape_is_refused(bench):
    start = "w = Constant <value_floats = [1.0]> ()  empty = SequenceConstruct (w)"
    with pytest.raises(
        Refused, match=r"appends a tensor of the shape \(None, 3\) to a sequence that has one of \(1,\)"
    ):
        lowered(bench, filling(start=start))


SCAN = """g (float[{shape}] x, float[N,2] h0) => (float[] last, float[] y)
<float[4,2] w = {{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}}> {{
  last, y = Scan <num_scan_inputs = 1, {attributes}
    body = b (float[N,2] h, float[N,4] xt) => (float[N,2] h2, float[N,2] o) {{
      p = MatMul (xt, w)  half = Constant <value_float = 0.5> ()  k = Mul (h, half)  s = Add (p, k)
      h2 = Tanh (s)  o = Neg (h2) }}> (h0, x)
}}"""
AXES = {0: "T,N,4", 1: "N,T,4", -1: "N,4,T"}


@pytest.mark.parametrize("steps", [5, 20, "T"])
@pytest.mark.parametrize("axis", AXES)
def test_a_scan_along_every_axis(bench, steps, axis):
    shape = AXES[axis].replace("T", str(steps))
    text = HEAD + SCAN.format(shape=shape, attributes=f"scan_input_axes = [{axis}], scan_output_axes = [{axis}],")
    sizes = [(3, steps), (4, steps)] if steps != "T" else [(3, 5), (4, 4), (2, 17)]
    given = [
        {"x": x(*(batch if s == "N" else 4 if s == "4" else count for s in AXES[axis].split(","))), "h0": x(batch, 2)}
        for batch, count in sizes
    ]
    bench.model_agrees(text, *given, tflite=steps == "T" or axis == 1)


@pytest.mark.parametrize("steps", [5, "T"])
@pytest.mark.parametrize("directions", [(1, 0), (0, 1), (1, 1)])
def test_a_scan_in_every_direction(bench, steps, directions):
    attributes = f"scan_input_directions = [{directions[0]}], scan_output_directions = [{directions[1]}],"
    text = HEAD + SCAN.format(shape=f"{steps},N,4", attributes=attributes)
    bench.model_agrees(text, *({"x": x(5, batch, 4), "h0": x(batch, 2)} for batch in (2, 5)), tflite=steps == "T")


def test_a_scan_of_several_inputs_without_states(bench):
    text = """g (float[T,N] x, float[N,T] z) => (float[] y, float[] s) {
      y, s = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
        body = b (float[N] a, float[N] c) => (float[N] p, float[] q) {
          p = Mul (a, c)  q = ReduceSum <keepdims = 0> (p) }> (x, z)
    }"""
    bench.model_agrees(HEAD + text, *({"x": x(t, n), "z": x(n, t)} for t, n in ((3, 2), (4, 4), (20, 1))))


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ("scan_input_axes = [3],", r"its scan_input_axes \[3\] do not lie within tensors of the ranks \[3\]"),
        ("scan_output_directions = [2],", "its scan_output_axes or scan_output_directions do not fit 1 tensors"),
        ("scan_input_directions = [0, 1],", "its scan_input_axes or scan_input_directions do not fit 1 tensors"),
    ],
)
def test_a_scan_that_does_not_fit_its_tensors_is_refused(bench, attributes, words):
    with pytest.raises(Refused, match=words):
        lowered(bench, SCAN.format(shape="5,N,4", attributes=attributes))


BATCHED_SCAN = """<ir_version: 3, opset_import: ["" : 8]>
g (float[N,4] h0, float[N,T,4] x{lengths}) => (float[N,4] last, float[N,T,4] all) {{
  w = Abs (h0)
  last, all = Scan <num_scan_inputs = 1, {directions} body = b (float[4] h, float[4] xt) => (float[4] h2, float[4] y) {{
    s = Add (h, xt)  h2 = Tanh (s)  y = Neg (h2) }}> ({name}, h0, x)
}}"""


@pytest.mark.parametrize("directions", ["", "directions = [1],"])
def test_the_scan_of_opset_8_has_the_batch_as_an_axis_of_its_own(bench, directions):
    text = BATCHED_SCAN.format(lengths="", directions=directions, name="")
    bench.model_agrees(text, *[{"h0": x(batch, 4), "x": x(batch, 5, 4)} for batch in BATCHES])


def test_lengths_of_the_scan_of_opset_8_are_refused(tmp_path):
    text = BATCHED_SCAN.format(lengths=", int64[N] lengths", directions="", name="lengths")
    onnx.save(parser.parse_model(text), tmp_path / "model.onnx")
    with pytest.raises(Refused, match="Scan node 'last': its sequences have lengths of their own"):
        lower(tmp_path / "model.onnx")


@pytest.mark.parametrize("given", [True, False])
def test_optional_values_are_what_they_hold(bench, given):
    name = "x" if given else ""
    text = f"""g (float[N,3] x) => (bool c, float[] y) {{
      c = OptionalHasElement ({name})  o = Optional (x)  y = OptionalGetElement (o) }}"""
    got = bench.in_tensorflow(lowered(bench, text))(feeds(3)[0])
    assert (bool(got["c"]), got["y"].shape) == (given, (1, 3))
