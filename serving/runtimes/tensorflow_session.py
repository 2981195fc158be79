"""TensorFlow: a SavedModel through a prepared callable of a v1 session.

That is DirectSession::RunCallable, the path that TF Serving itself takes. The eager signature call costs 80 us more
and has a much worse p99 (docs/design/serving.md): a figure taken there would say nothing about serving.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest
from ...models.signature import Array, Signature
from ..checked_session import CheckedSession
from ..session import Session
from .payload import check_names, opening
from .provider_check import number, numbered_device, placed

NAME = "tensorflow"
_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_SIGNATURE = "serving_default"


def open_session(
    folder: Path, device: str, threads: int, *, inter_threads: int = -1, onednn: str = "default"
) -> Session:
    """Open a session over the SavedModel in `folder`. If CUDA was requested and is not used, `Session.device` tells.
    `inter_threads`: threads between operators; -1 runs them in the caller's. `onednn`: whether TensorFlow may call
    oneDNN, "on" or "off"; it reads that as it is imported.
    Raises BadRequest where it cannot be opened, ToolMissing where TensorFlow is not there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        if device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # else TensorFlow takes all the memory of every GPU it sees
        _choose_onednn(onednn)
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(False)  # float32 as float32 (docs/design/serving.md)
        inner = tf.compat.v1.Session(graph=tf.Graph(), config=_config(tf, device, threads, inter_threads))
        with inner.graph.as_default():
            options = _callable_options(tf, inner, artifact)
        runs_on = _device_of(tf, inner, options, artifact.signature, device)
        refused = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)
        return TensorFlowSession(artifact.signature, inner, options, runs_on, refused)


def _choose_onednn(onednn: str) -> None:
    """Tell TensorFlow whether it may call oneDNN. Raises BadRequest where it has been imported with another answer."""
    value = {"default": None, "on": "1", "off": "0"}[onednn]
    if value is None or os.environ.get(_ONEDNN) == value:
        return
    if NAME in sys.modules:
        raise BadRequest(f"TensorFlow was imported before, and oneDNN cannot be turned {onednn} any more",
                         fix="open the session in a new process")  # fmt: skip
    os.environ[_ONEDNN] = value


def _config(tf: Any, device: str, threads: int, inter_threads: int = -1) -> Any:
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads,
        # By default -1, in the caller's thread: no hand-over (served p50 444 -> 304 us).
        inter_op_parallelism_threads=inter_threads,
        allow_soft_placement=False,
    )
    if device == "cpu":
        config.device_count["GPU"] = 0
    else:
        config.gpu_options.visible_device_list = str(number(device))
        config.gpu_options.allow_growth = True
    return config


def _callable_options(tf: Any, inner: Any, artifact: Artifact) -> Any:
    """Load the SavedModel into the session, and name the tensors that its signature feeds and fetches."""
    from tensorflow.core.protobuf import config_pb2

    loaded = tf.compat.v1.saved_model.load(inner, ["serve"], str(artifact.path))
    if _SIGNATURE not in loaded.signature_def:
        raise BadRequest(f"{artifact.path} has no signature {_SIGNATURE}", fix="save it with one")
    signature_def = loaded.signature_def[_SIGNATURE]
    check_names(artifact, sorted(signature_def.inputs), sorted(signature_def.outputs))
    return config_pb2.CallableOptions(
        feed=[signature_def.inputs[spec.name].name for spec in artifact.signature.inputs],
        fetch=[signature_def.outputs[spec.name].name for spec in artifact.signature.outputs],
    )


def _device_of(tf: Any, inner: Any, options: Any, signature: Signature, requested: str) -> str:
    """Where the graph runs. Without a GPU in the session there is one answer; with one, a run on zeros is traced."""
    if not any(device.device_type == "GPU" for device in inner.list_devices()):
        return "cpu"
    sizes = {axis: bounds.filled.low for axis, bounds in signature.bounds.items()}
    zeros = [
        np.zeros([sizes.get(axis, 1) if isinstance(axis, str) else axis for axis in spec.shape], spec.dtype)
        for spec in signature.inputs
    ]
    nodes = placement(tf, inner, options, zeros)
    return placed(
        ((kind, numbered_device(requested) if "GPU" in at.upper() else "cpu") for kind, at in nodes),
        numbered_device(requested),
    )


def placement(tf: Any, inner: Any, options: Any, values: Sequence[Array]) -> list[tuple[str, str]]:
    """Operator type and device of each node that a run of the callable executes, after all optimisation."""
    from tensorflow.core.protobuf import config_pb2

    traced = config_pb2.CallableOptions()
    traced.CopyFrom(options)
    traced.run_options.output_partition_graphs = True
    metadata = tf.compat.v1.RunMetadata()
    inner._make_callable_from_options(traced)(*values, run_metadata=metadata)
    return [(node.op, node.device) for graph in metadata.partition_graphs for node in graph.node]


class TensorFlowSession(CheckedSession):
    """A v1 session and the callable that was prepared in it."""

    def __init__(
        self, signature: Signature, inner: Any, options: Any, device: str, refused: tuple[type[Exception], ...]
    ) -> None:
        super().__init__(NAME, signature, device, refused)
        self._inner = inner
        self._call: Callable[..., Sequence[Array]] = inner._make_callable_from_options(options)

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        # Copied: TensorFlow hands out the memory of its tensors, and one may be a weight or a feed.
        return [np.array(answer) for answer in self._call(*values)]

    def _release(self) -> None:
        del self._call  # before the session: it lets go of its handle there
        self._inner.close()
