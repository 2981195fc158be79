"""TensorFlow: functions of a SavedModel beside `serving_default`, called as Python calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.signature import Array, Signature
from ...models.tensorflow_names import DEFAULT
from ..checked_session import CheckedSession
from ..session import Session
from .payload import opening
from .tensorflow_session import NAME


def open_functions(folder: Path, names: Sequence[str]) -> dict[str, Session | None]:
    """Open a session over each further signature, or `__call__`, of the SavedModel in `folder`.
    None stands for one that takes or gives other tensors than `serving_default`.
    Raises BadRequest where the folder cannot be opened, ToolMissing where TensorFlow is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        import tensorflow as tf

        loaded = tf.saved_model.load(str(artifact.path))
        calls = {name: _same_call(tf, loaded, name, artifact.signature) for name in names}
    return {name: _FunctionSession(artifact.signature, loaded, call) if call else None for name, call in calls.items()}


def _same_call(tf: Any, loaded: Any, name: str, signature: Signature) -> Callable[..., Any] | None:
    """Return a function's call with the inputs in the record's order, or None where its tensors are others."""
    served = loaded.signatures[DEFAULT]
    inputs = {spec.name: served.structured_input_signature[1][spec.name] for spec in signature.inputs}
    outputs = {spec.name: served.structured_outputs[spec.name] for spec in signature.outputs}
    function = loaded.signatures[name] if name in loaded.signatures else getattr(loaded, name)

    def in_order(answer: Any) -> list[Any]:
        return [answer[key] for key in outputs] if isinstance(answer, dict) else tf.nest.flatten(answer)

    for concrete in getattr(function, "concrete_functions", [function]):
        arguments, keywords = concrete.structured_input_signature
        tensors = [spec for spec in tf.nest.flatten(arguments) if isinstance(spec, tf.TensorSpec)]
        order = list(inputs) if set(keywords) == set(inputs) else list(keywords)[:1]
        tensors += [keywords[key] for key in order if isinstance(keywords[key], tf.TensorSpec)]
        answer = concrete.structured_outputs
        has_names = not isinstance(answer, dict) or set(answer) == set(outputs)
        if has_names and _is_alike(tensors, inputs.values()) and _is_alike(in_order(answer), outputs.values()):
            if tensors and not arguments:
                return lambda *values: in_order(function(**dict(zip(order, map(tf.constant, values), strict=True))))
            return lambda *values: in_order(function(*map(tf.constant, values)))
    return None


def _is_alike(specs: Sequence[Any], served: Iterable[Any]) -> bool:
    """Return whether tensors have the dtypes and shapes of those that `serving_default` has."""
    return [(spec.dtype, str(spec.shape)) for spec in specs] == [(spec.dtype, str(spec.shape)) for spec in served]


class _FunctionSession(CheckedSession):
    """A function that TensorFlow calls eagerly."""

    def __init__(self, signature: Signature, loaded: Any, call: Callable[..., Any]) -> None:
        super().__init__(NAME, signature, "cpu")
        self._loaded = loaded  # keeps the variables that the function reads
        self._call = call

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        return [np.array(answer) for answer in self._call(*values)]

    def _release(self) -> None:
        del self._call, self._loaded
