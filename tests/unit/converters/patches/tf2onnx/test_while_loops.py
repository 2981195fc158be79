"""TensorFlow's loops and lists of tensors to ONNX: whatever order a list is written in, and however long it is."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.models.errors import Refused
from transload.models.job import Job
from transload.models.signature import Array
from transload.models.store import digest_of
from transload.serving.runtimes.onnxruntime_session import open_session


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has one: steps leave files in it."""
    monkeypatch.chdir(tmp_path)


def filled(
    places: int | None = None, *, start: int = 0, by: int = 1, put: Callable[[Any, Any], Any] = lambda i, n: i
) -> Callable[[Any, Any], Any]:
    """A list of `n + places` elements (None: one that grows), of which step i writes `put(i, n)`."""

    def compute(tf: Any, x: Any) -> Any:
        n = tf.shape(x)[1]
        size = n + places if places else n if places == 0 else 0
        shape = [5] if places is None else [None, 5]
        # With the sizes that the batch decides, and what a step makes of those before it.
        held = tf.TensorArray(tf.float32, size, dynamic_size=places is None, element_shape=shape)

        def body(i: Any, state: Any, held: Any) -> Any:
            state = tf.tanh(state * 0.5 + x[:, i])
            return i + by, state, held.write(put(i, n), state if places is not None else state[0])

        _, state, held = tf.while_loop(lambda i, *_: i < n, body, (start, tf.zeros_like(x[:, 0]), held))
        return tf.reduce_sum(state, 0) + (tf.reduce_sum(held.stack(), 1) if places is not None else held.stack())

    return compute


def read_and_written(tf: Any, x: Any) -> Any:
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, n + 1, element_shape=[5], clear_after_read=False).write(0, x[0, 0])
    step = lambda i, held: (i + 1, held.write(i + 1, tf.tanh(held.read(i) + x[0, i])))  # noqa: E731
    return tf.while_loop(lambda i, _: i < n, step, (0, held))[1].stack()


def written_twice_in_a_step(tf: Any, x: Any) -> Any:
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, 2 * n, element_shape=[5])
    step = lambda i, held: (i + 1, held.write(2 * i, x[0, i]).write(2 * i + 1, -x[0, i]))  # noqa: E731
    return tf.while_loop(lambda i, _: i < n, step, (0, held))[1].stack()


def the_last_of_each(tf: Any, x: Any) -> Any:
    """As Keras keeps the last state."""
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, 1)
    return tf.while_loop(lambda i, _: i < n, lambda i, held: (i + 1, held.write(0, x[:, i])), (0, held))[1].stack()


def stopped_by_data(tf: Any, x: Any) -> Any:
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, n, element_shape=[5])
    more = lambda i, total, _: (i < n) & (total < 1.5)  # noqa: E731
    step = lambda i, total, held: (i + 1, total + tf.abs(x[0, i, 0]), held.write(i, x[0, i]))  # noqa: E731
    steps, total, held = tf.while_loop(more, step, (0, 0.0, held))
    return held.stack() + total + tf.cast(steps, tf.float32)


def without_a_loop(tf: Any, x: Any) -> Any:
    held = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    for at in range(3):
        held = held.write(at, x[:, 0] * at)
    return held.stack() * tf.cast(held.size(), tf.float32)


def one_layer_twice(tf: Any, x: Any) -> Any:
    """Both calls share the functions of their loops."""
    weights = tf.constant(np.random.default_rng(1).standard_normal((5, 5)), tf.float32)

    @tf.function(autograph=False)
    def layer(x: Any) -> Any:
        rows = tf.scan(lambda state, row: tf.tanh(state @ weights + row), tf.transpose(x, [1, 0, 2]))
        return tf.transpose(rows, [1, 0, 2])

    return layer(x) + layer(-x)


def carried_by_a_loop_in_a_loop(tf: Any, x: Any) -> Any:
    """As a whole, through both; what does not change has one name in both of their functions."""
    batch, n = tf.shape(x)[0], tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, batch * n, element_shape=[5])

    def rows(j: Any, held: Any) -> Any:
        step = lambda i, held: (i + 1, held.write(j * n + i, x[j, i] * tf.cast(i + 1, tf.float32)))  # noqa: E731
        return j + 1, tf.while_loop(lambda i, _: i < n, step, (0, held))[1]

    return tf.while_loop(lambda j, _: j < batch, rows, (0, held))[1].stack()


def never_written(tf: Any, x: Any) -> Any:
    """Where no step runs."""
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, 1, element_shape=[5])
    return tf.while_loop(lambda i, _: i < n - 9, lambda i, held: (i + 1, held.write(0, x[0, i])), (0, held))[1].stack()


def whole_numbers_or_nothing(tf: Any, x: Any) -> Any:
    """A list of whole numbers that a branch makes floats of."""
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.int32, tf.maximum(n, 0), element_shape=[])
    step = lambda i, held: (i + 1, held.write(i, tf.cast(x[0, i, 0] * 9, tf.int32)))  # noqa: E731
    ran, held = tf.while_loop(lambda i, _: i < n, step, (0, held))
    return tf.cond(ran > 0, lambda: tf.cast(held.stack(), tf.float32), lambda: tf.zeros([0]))


def stack_or_nothing(tf: Any, x: Any) -> Any:
    """As our lowering writes it: TensorFlow has no stack of no elements whose sizes are not known."""
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, tf.maximum(n, 0), element_shape=[None, 5])
    ran, held = tf.while_loop(lambda i, _: i < n, lambda i, held: (i + 1, held.write(i, x[:, i])), (0, held))
    return tf.cond(ran > 0, held.stack, lambda: tf.zeros([0, 0, 5]))


def backwards(tf: Any, x: Any) -> Any:
    """As the way back of a CRF: from a last place that only the input tells."""
    rows = tf.scan(lambda state, row: tf.tanh(state + row), tf.transpose(x, [1, 0, 2]), reverse=True)
    return tf.transpose(rows, [1, 0, 2])


def down_by_two(tf: Any, x: Any) -> Any:
    n = tf.shape(x)[1]
    held = tf.TensorArray(tf.float32, n, element_shape=[None, 5])
    step = lambda i, count, held: (i - 2, count + 1, held.write(i, x[:, i]))  # noqa: E731
    _, count, held = tf.while_loop(lambda i, *_: i > 0, step, (n - 1, 0, held))
    return tf.concat([held.gather([n - 1]), tf.fill([1, tf.shape(x)[0], 5], tf.cast(count, tf.float32))], 0)


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "in order": filled(0),
    "from the end": filled(0, put=lambda i, n: n - 1 - i),
    "every second place": filled(0, by=2),
    "from the second on": filled(0, start=1),
    "fewer than places": filled(3, put=lambda i, n: i + 2),
    "growing": filled(),
    "read and written": read_and_written,
    "twice in a step": written_twice_in_a_step,
    "the last of each": the_last_of_each,
    "stopped by data": stopped_by_data,
    "without a loop": without_a_loop,
    "one layer twice": one_layer_twice,
    "stack or nothing": stack_or_nothing,
    "carried by a loop in a loop": carried_by_a_loop_in_a_loop,
    "never written": never_written,
    "whole numbers or nothing": whole_numbers_or_nothing,
    "backwards": backwards,
    "down by two": down_by_two,
    "an order of its own": filled(0, put=lambda i, n: (i * i) % n),
    "map": lambda tf, x: tf.map_fn(lambda row: tf.cumsum(row, 0) * 2, x),
}


def model(*names: str) -> Any:
    """A function of some loops, which make one output each."""
    import tensorflow as tf

    spec = tf.TensorSpec([None, None, 5], name="x")
    return tf.function(lambda x: {name: LOOPS[name](tf, x) for name in names}, input_signature=[spec], autograph=False)


def carried(serve: Any, folder: Path) -> Path:
    """The ONNX of a function, by way of a SavedModel."""
    import tensorflow as tf

    module = tf.Module()
    module.serve = serve
    tf.saved_model.save(module, str(folder / "sm"), signatures={"serving_default": module.serve})
    (folder / "given").mkdir()
    options = {"path": str(folder / "sm"), "sha256": digest_of(folder / "sm"), "inputs": []}
    import_saved_model(Job({}, folder / "given", options))
    (folder / "onnx").mkdir()
    onnx_from_saved_model(Job({"source": folder / "given"}, folder / "onnx"))
    return folder / "onnx"


def values(batch: int, steps: int) -> Array:
    return np.random.default_rng(batch).standard_normal((batch, steps, 5)).astype(np.float32)


REFUSED = "an order of its own"
RARE = [
    "every second place", "from the second on", "twice in a step", "without a loop", "read and written",
    "never written", "whole numbers or nothing", "in order", "fewer than places", "down by two",
]  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([name for name in LOOPS if name not in [REFUSED, *RARE]], id="often"),
        pytest.param(RARE, id="rare", marks=pytest.mark.slow),
    ],
)
def test_loops_fill_their_lists_as_in_tensorflow(names: list[str], tmp_path: Path) -> None:
    """One model has them all: a conversion of each would take ten times as long."""
    import tensorflow as tf

    serve = model(*names)
    session = open_session(carried(serve, tmp_path), "cpu", 1)
    for batch, steps in ((1, 2), (3, 7), (4, 4)):
        x = values(batch, steps)
        got, want = session.run({"x": x}), serve(tf.constant(x))
        for name in names:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_loop_that_counts_has_no_condition_and_its_stack_is_the_list(tmp_path: Path) -> None:
    graph = onnx.load(carried(model("map", "stack or nothing"), tmp_path) / "model.onnx").graph
    loops = [node for node in graph.node if node.op_type == "Loop"]
    assert len(loops) == 2
    assert all(map(counts, loops))
    assert not {node.op_type for node in graph.node} & {"ScatterND", "If"}


def counts(loop: onnx.NodeProto) -> bool:
    """Whether it has a number of steps and no condition."""
    return bool(loop.input[0]) and not loop.input[1]


def test_a_loop_of_tflite_that_counts_has_no_condition_and_what_grows_is_stacked(tmp_path: Path) -> None:
    import tensorflow as tf

    def compute(x: Any) -> Any:
        n, batch = tf.shape(x)[1], tf.shape(x)[0]

        def body(i: Any, y: Any, rows: Any) -> Any:  # as our lowering collects rows for TFLite
            y = tf.tanh(y + x[:, i])
            return i + 1, y, tf.concat([tf.reshape(rows, tf.stack([i, batch, 5])), y[None]], 0)

        start, sizes = (0, x[:, 0], tf.zeros([0, 0, 5])), [tf.TensorShape([])]
        sizes += [tf.TensorShape([None, 5]), tf.TensorShape([None, None, 5])]
        _, y, rows = tf.while_loop(lambda i, *_: i < n, body, start, shape_invariants=tuple(sizes))
        return y + tf.reduce_sum(rows, 0)

    concrete = tf.function(compute, input_signature=[tf.TensorSpec([None, None, 5], name="x")]).get_concrete_function()
    path = tmp_path / "m.tflite"
    path.write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert())
    (tmp_path / "given").mkdir()
    import_tflite(Job({}, tmp_path / "given", {"path": str(path), "sha256": digest_of(path), "inputs": []}))
    (tmp_path / "onnx").mkdir()
    onnx_from_tflite(Job({"source": tmp_path / "given"}, tmp_path / "onnx"))
    graph = onnx.load(tmp_path / "onnx" / "model.onnx").graph
    (loop,) = (node for node in graph.node if node.op_type == "Loop")
    assert counts(loop)
    assert len(loop.output) == len(loop.input) - 2 + 1, "the rows are a scan output"
    session, x = open_session(tmp_path / "onnx", "cpu", 1), values(3, 7)
    (got,) = session.run({session.signature.inputs[0].name: x}).values()
    np.testing.assert_allclose(got, compute(tf.constant(x)), rtol=1e-5, atol=1e-6)


def test_a_list_in_an_order_of_its_own_is_refused_where_its_sizes_are_not_known(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="writes a list in an order of its own, and how large its elements are is not"):
        carried(model(REFUSED), tmp_path)
