"""Whether inputs whose first axes have no name are of one batch. A file does not say it: the model is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any, TypeAlias

from ...models.errors import BadRequest
from ...models.foreign_errors import first_line
from ...models.keras_model import function_of_keras
from ...models.probes.random_inputs import sample_tensors
from ...models.probes.sizes import example_sizes
from ...models.signature import BATCH, Array, Signature, TensorSpec

_ONE, _OTHER = 4, 6  # samples
_ALIKE = 5  # the size of all other axes
_MOST_WAYS = 64
Run: TypeAlias = Callable[[Mapping[str, Array]], object]


def check_one_batch(
    path: Path, inputs: Sequence[TensorSpec], unnamed: Collection[str], opened: Callable[[], Run]
) -> None:
    """Ask with other numbers of samples in some of the inputs `unnamed` than in the others. `opened`: the model, which
    raises where it does not take its feeds.

    Raises BadRequest where it answers: that they are of one batch would be believed of every copy.
    """
    if len(unnamed) < 2:
        return
    apart = {name: f"{name}_0" for name in unnamed}
    specs = [_with_first(spec, apart[spec.name]) if spec.name in apart else spec for spec in inputs]
    own = example_sizes(inputs, _ONE)
    try:
        run = opened()
    except Exception as error:  # noqa: BLE001  (a runtime that is not here, or does not open it, says so later)
        print(f"whether the inputs are of one batch is not asked: {first_line(error)}")
        return

    def answers(others: Mapping[str, int], larger: Collection[str]) -> bool:
        first = {axis: _OTHER if name in larger else _ONE for name, axis in apart.items()}
        try:
            run(sample_tensors(specs, {**others, **first}))
        except Exception:  # noqa: BLE001  (whatever a runtime raises: it does not take them)
            return False
        return True

    for others in (own, dict.fromkeys(own, _ALIKE)):  # axes under two names may be one as well
        if answers(others, ()):
            for larger in islice(_parts(list(apart)), _MOST_WAYS):
                if answers(others, larger):
                    raise _apart(path, inputs, specs, larger)
            return


def onnx_runner(path: Path) -> Run:
    """An ONNX file in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # it warns of sizes that differ from the names in the file
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def saved_model_runner(path: Path) -> Run:
    """What a SavedModel serves, in TensorFlow on the CPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # else it takes all the memory of every GPU that it sees
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    served = loaded.signatures["serving_default"]
    return lambda feeds: (served(**{name: tf.constant(value) for name, value in feeds.items()}), loaded)


def keras_runner(model: Any, signature: Signature) -> Run:
    """A model of Keras, called as its user calls it."""
    import tensorflow as tf

    call, names = function_of_keras(model, signature), [spec.name for spec in signature.inputs]
    return lambda feeds: call(*(tf.constant(feeds[name]) for name in names))


def with_own_firsts(found: Signature, unnamed: Collection[str]) -> Signature:
    """The first axes of these inputs by names of their own; so are those of outputs, which were the batch by guess."""
    inputs = [_with_first(spec, f"{spec.name}_0") if spec.name in unnamed else spec for spec in found.inputs]
    outputs = [_with_first(spec, f"{spec.name}_0") if spec.shape[:1] == (BATCH,) else spec for spec in found.outputs]
    return Signature(tuple(inputs), tuple(outputs))


def _with_first(spec: TensorSpec, axis: str) -> TensorSpec:
    return replace(spec, shape=(axis, *spec.shape[1:]))


def unnamed_firsts(found: Signature) -> tuple[str, ...]:
    """The inputs whose first axis is the batch by our guess alone, of a file that has no names for axes."""
    return tuple(spec.name for spec in found.inputs if spec.shape[:1] == (BATCH,))


def _parts(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Some of the names, and never all: one way of each pair of halves."""
    for count in range(1, len(names)):
        yield from combinations(names[1:], count)


def _apart(
    path: Path, inputs: Sequence[TensorSpec], specs: Sequence[TensorSpec], larger: Collection[str]
) -> BadRequest:
    one, other = (" ".join(f"--input {spec}" for spec in each) for each in (inputs, specs))
    return BadRequest(
        f"{path} gives the first axes of its inputs no names, and answers to {_OTHER} samples in {', '.join(larger)} "
        f"and {_ONE} in the others: whether they are of one batch it does not say",
        fix=f"say it: {one} where they are, {other} where not",
    )
