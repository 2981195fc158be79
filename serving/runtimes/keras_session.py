"""Keras: a `keras` artifact as Keras itself answers where it is called, with the sizes of each call."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.keras_model import function_of_keras, load_keras, signature_of_keras
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..session import Session
from .payload import check_names, opening

NAME = "keras"


def open_session(folder: Path, device: str, threads: int) -> Session:  # noqa: ARG001  (every entry takes it)
    """Open a session over the Keras artifact in `folder`. It runs on the CPU, whatever `device` says.
    Raises BadRequest where it cannot be opened, ToolMissing where TensorFlow or Keras is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # else TensorFlow takes all the memory of every GPU it sees
        import tensorflow as tf

        with contextlib.suppress(RuntimeError):  # it can be set once, and not after the first work
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        model = load_keras(artifact.path)
        own = signature_of_keras(model, artifact.path)
        check_names(artifact, [spec.name for spec in own.inputs], [spec.name for spec in own.outputs])
        return KerasSession(artifact.signature, model, own)


class KerasSession(CheckedSession):
    """A model, called eagerly. `own`: the signature as Keras has it, in its order.
    Layers do otherwise in a graph whose sizes are open (Keras 3.15's TimeDistributed takes as many steps there as there
    are samples). An export is such a graph, and a reference that was one, too, would share its faults. Layers of
    pictures alone are called in a graph, of the sizes of each call: there they answer in the dtype that they declare,
    as `model.predict` has it, and without one in that of the picture, where Resizing rounds to bytes."""

    def __init__(self, signature: Signature, model: Any, own: Signature) -> None:
        import tensorflow as tf

        # Layers look at sizes themselves, before TensorFlow does: then it is a ValueError.
        refused = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, ValueError)
        super().__init__(NAME, signature, "cpu", refused)
        call = function_of_keras(model, own)
        self._call = tf.function(call, autograph=False) if _prepares(model) else call
        at = {spec.name: at for at, spec in enumerate(signature.inputs)}
        self._order = [at[spec.name] for spec in own.inputs]
        self._constant = tf.constant

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        outputs = self._call(*[self._constant(values[at]) for at in self._order])
        # Copied: TensorFlow hands out the memory of its tensors, and one may be a weight or a feed.
        return [np.array(outputs[name].numpy()) for name in self._outputs]

    def _release(self) -> None:
        del self._call


def _prepares(model: Any) -> bool:
    """Whether it has layers that Keras lets run in tf.data, for whose class it has no public name. `layers` lacks
    those of other layers."""
    return any(base.__name__ == "DataLayer" for layer in model._flatten_layers() for base in type(layer).__mro__)
