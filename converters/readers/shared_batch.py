"""Whether inputs whose first axes have no name share one batch. A file does not say, so the model is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path

import numpy as np

from ...models.errors import BadRequest
from ...models.keras_model import function_of_keras
from ...models.library_messages import first_line
from ...models.probes.random_inputs import sample_tensors
from ...models.probes.sizes import example_sizes
from ...models.signature import BATCH, Array, Signature, TensorSpec
from ..lazy_import import keras, onnxruntime, tf
from .output_axes import ShapesOf

_SAMPLES, _MORE_SAMPLES = 4, 6
_EQUAL_SIZE = 5  # of all other axes
_MAX_SPLITS = 64


def check_one_batch(
    path: Path, inputs: Sequence[TensorSpec], unnamed: Collection[str], open_model: Callable[[], ShapesOf]
) -> None:
    """Call the model with more samples in some of the `unnamed` inputs than in the rest.

    `open_model` returns a runner that raises if it refuses its feeds. Raises BadRequest if it answers: every artifact
    would wrongly share one batch.
    """
    if len(unnamed) < 2:
        return
    own_axes = {name: f"{name}_0" for name in unnamed}
    specs = [_with_first(spec, own_axes[spec.name]) if spec.name in own_axes else spec for spec in inputs]
    distinct = example_sizes(inputs, _SAMPLES)
    try:
        run = open_model()
    except Exception as error:  # noqa: BLE001  (a missing or failing runtime is reported later)
        print(f"whether the inputs are of one batch is not asked: {first_line(error)}")
        return

    def answers(other_sizes: Mapping[str, int], larger: Collection[str]) -> bool:
        first = {axis: _MORE_SAMPLES if name in larger else _SAMPLES for name, axis in own_axes.items()}
        try:
            run(sample_tensors(specs, {**other_sizes, **first}))
        except Exception:  # noqa: BLE001  (any error of a runtime means that it refuses the sizes)
            return False
        return True

    for other_sizes in (distinct, dict.fromkeys(distinct, _EQUAL_SIZE)):  # axes of two names may have to be equal
        if answers(other_sizes, ()):
            for larger in islice(_splits(list(own_axes)), _MAX_SPLITS):
                if answers(other_sizes, larger):
                    raise _refuse_unclear_batch(path, inputs, specs, larger)
            return


def call_once(inputs: Sequence[TensorSpec], open_model: Callable[[], ShapesOf]) -> None:
    """Call a model whose loops may have no end: that ends here, by the limits of taking in, and not in a later step.
    An error that it raises is reported later."""
    try:
        open_model()(sample_tensors(inputs, example_sizes(inputs, 1)))
    except Exception as error:  # noqa: BLE001  (any error of a runtime)
        print(f"a first call failed: {first_line(error)}")


def onnx_runner(path: Path) -> ShapesOf:
    """Open an ONNX file in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # no warnings of sizes that contradict the file's axis names
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: [np.shape(value) for value in session.run(None, dict(feeds))]


def saved_model_runner(path: Path, outputs: Sequence[TensorSpec]) -> ShapesOf:
    """Open a SavedModel's serving signature in TensorFlow on the CPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # TensorFlow would take all the memory of every visible GPU
    loaded = tf.saved_model.load(str(path))
    served = loaded.signatures["serving_default"]

    def shapes_of(feeds: Mapping[str, Array], _alive: object = loaded) -> list[tuple[int, ...]]:
        answers = served(**{name: tf.constant(value) for name, value in feeds.items()})
        return [tuple(answers[spec.name].shape) for spec in outputs]

    return shapes_of


def keras_runner(model: keras.Model, signature: Signature) -> ShapesOf:
    """Return a runner that calls a Keras model as its user does."""
    call, names = function_of_keras(model, signature), [spec.name for spec in signature.inputs]
    return lambda feeds: [tuple(value.shape) for value in call(*(tf.constant(feeds[name]) for name in names)).values()]


def with_own_axes(guess: Signature, unnamed: Collection[str]) -> Signature:
    """Give the first axes of these inputs, and of outputs with a guessed batch, names of their own."""
    inputs = [_with_first(spec, f"{spec.name}_0") if spec.name in unnamed else spec for spec in guess.inputs]
    outputs = [_with_first(spec, f"{spec.name}_0") if spec.shape[:1] == (BATCH,) else spec for spec in guess.outputs]
    return Signature(tuple(inputs), tuple(outputs))


def _with_first(spec: TensorSpec, axis: str) -> TensorSpec:
    return replace(spec, shape=(axis, *spec.shape[1:]))


def guessed_batches(signature: Signature) -> tuple[str, ...]:
    """Return the inputs whose first axis is only guessed to be the batch, in a file without names of axes."""
    return tuple(spec.name for spec in signature.inputs if spec.shape[:1] == (BATCH,))


def _splits(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield proper subsets of the names, one of each complementary pair."""
    for count in range(1, len(names)):
        yield from combinations(names[1:], count)


def _refuse_unclear_batch(
    path: Path, inputs: Sequence[TensorSpec], specs: Sequence[TensorSpec], larger: Collection[str]
) -> BadRequest:
    shared, separate = (" ".join(f"--input {spec}" for spec in some_specs) for some_specs in (inputs, specs))
    return BadRequest(
        f"{path} gives the first axes of its inputs no names, and answers to {_MORE_SAMPLES} samples in "
        f"{', '.join(larger)} and {_SAMPLES} in the others: whether they are of one batch it does not say",
        fix=f"say it: {shared} where they are, {separate} where not",
    )
