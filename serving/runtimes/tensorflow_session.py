"""TensorFlow: a SavedModel through a prepared callable of a v1 session.

That is DirectSession::RunCallable, the path that TF Serving itself takes. The eager signature call costs 80 us more
and has a much worse p99 (docs/design/serving.md): a figure taken there would say nothing about serving.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest
from ...models.signature import STRINGS, Array, Signature, TensorSpec
from ..checked_session import CheckedSession, smallest_feeds
from ..session import Session
from .payload import check_names, opening
from .provider_check import number, numbered_device, placed

NAME = "tensorflow"
SIGNATURE = "serving_default"
_ONEDNN = "TF_ENABLE_ONEDNN_OPTS"


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
        inner = tf.compat.v1.Session(graph=tf.Graph(), config=session_config(tf, device, threads, inter_threads))
        with inner.graph.as_default():
            definitions = _load(tf, inner, artifact)
            options = _callable_options(definitions[SIGNATURE], artifact.signature)
        runs_on = _device_of(tf, inner, options, artifact.signature, device)
        refused = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)
        further: dict[str, Session] = {
            name: _OtherSignature(signature, inner, _callable_options(definitions[name], signature), runs_on, refused)
            for name, signature in _other_signatures(tf, definitions).items()
        }
        return TensorFlowSession(artifact.signature, inner, options, runs_on, refused, other_sessions=further)


def _choose_onednn(onednn: str) -> None:
    """Tell TensorFlow whether it may call oneDNN. Raises BadRequest where it has been imported with another answer."""
    value = {"default": None, "on": "1", "off": "0"}[onednn]
    if value is None or os.environ.get(_ONEDNN) == value:
        return
    if NAME in sys.modules:
        raise BadRequest(f"TensorFlow was imported before, and oneDNN cannot be turned {onednn} any more",
                         fix="open the session in a new process")  # fmt: skip
    os.environ[_ONEDNN] = value


def session_config(tf: Any, device: str, threads: int, inter_threads: int = -1) -> Any:
    """Return the settings of a session on a device, in this many threads."""
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


def _load(tf: Any, inner: Any, artifact: Artifact) -> Mapping[str, Any]:
    """Load the SavedModel into the session; return its signatures. Raises BadRequest where that of the artifact lacks
    or is another."""
    loaded = tf.compat.v1.saved_model.load(inner, ["serve"], str(artifact.path))
    if SIGNATURE not in loaded.signature_def:
        raise BadRequest(f"{artifact.path} has no signature {SIGNATURE}", fix="save it with one")
    signature_def = loaded.signature_def[SIGNATURE]
    check_names(artifact, sorted(signature_def.inputs), sorted(signature_def.outputs))
    return dict(loaded.signature_def)


def _callable_options(definition: Any, signature: Signature) -> Any:
    """Name the tensors that a signature feeds and fetches."""
    from tensorflow.core.protobuf import config_pb2

    return config_pb2.CallableOptions(
        feed=[definition.inputs[spec.name].name for spec in signature.inputs],
        fetch=[definition.outputs[spec.name].name for spec in signature.outputs],
    )


def _other_signatures(tf: Any, definitions: Mapping[str, Any]) -> dict[str, Signature]:
    """Return the further signatures of a SavedModel by name, as it declares them, but those of tensors of any rank:
    nothing here carries them."""
    signatures: dict[str, Signature] = {}
    for name, definition in definitions.items():
        sides = (definition.inputs, definition.outputs)
        with suppress(ValueError):
            if name != SIGNATURE and not name.startswith("__"):
                signatures[name] = Signature(*(tuple(_specs(tf, side)) for side in sides))
    return signatures


def _specs(tf: Any, tensors: Mapping[str, Any]) -> Iterator[TensorSpec]:
    """Yield the tensors of one side of a signature. Raises ValueError where one is none that is served."""
    for name, info in sorted(tensors.items()):
        sizes = tf.TensorShape(info.tensor_shape).as_list()
        shape = tuple(f"{name}_{at}" if size is None else size for at, size in enumerate(sizes))
        dtype = tf.as_dtype(info.dtype)
        yield TensorSpec(name, STRINGS if dtype == tf.string else dtype.name, shape)


def _device_of(tf: Any, inner: Any, options: Any, signature: Signature, requested: str) -> str:
    """Where the graph runs. Without a GPU in the session there is one answer; with one, a run on zeros is traced."""
    if not any(device.device_type == "GPU" for device in inner.list_devices()):
        return "cpu"
    nodes = placement(tf, inner, options, [*smallest_feeds(signature).values()])
    return placed(
        ((node.op, numbered_device(requested) if "GPU" in node.device.upper() else "cpu") for node in nodes),
        numbered_device(requested),
    )


def placement(tf: Any, inner: Any, options: Any, values: Sequence[Array]) -> list[Any]:
    """Return each node (NodeDef, with its device) that a run of the callable executes, after all optimisation."""
    from tensorflow.core.protobuf import config_pb2

    traced = config_pb2.CallableOptions()
    traced.CopyFrom(options)
    traced.run_options.output_partition_graphs = True
    metadata = tf.compat.v1.RunMetadata()
    inner._make_callable_from_options(traced)(*values, run_metadata=metadata)
    return [node for graph in metadata.partition_graphs for node in graph.node]


class TensorFlowSession(CheckedSession):
    """A v1 session and the callable that was prepared in it. `other_sessions` are of the file's further signatures,
    in the same v1 session, and end with this one."""

    def __init__(
        self,
        signature: Signature,
        inner: Any,
        options: Any,
        device: str,
        refused: tuple[type[Exception], ...],
        *,
        runtime: str = NAME,
        other_sessions: Mapping[str, Session] | None = None,
    ) -> None:
        super().__init__(runtime, signature, device, refused)
        self._inner = inner
        self.other_sessions = other_sessions or {}
        self._call: Callable[..., Sequence[Array]] = inner._make_callable_from_options(options)

    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        # Copied: TensorFlow hands out the memory of its tensors, and one may be a weight or a feed.
        # A string without axes comes as Python's bytes, of which numpy would make an array of letters.
        answers: Sequence[Any] = self._call(*values)
        return [np.array(answer, object if isinstance(answer, bytes) else None) for answer in answers]

    def _release(self) -> None:
        for session in self.other_sessions.values():
            session.close()
        del self._call  # before the session: it lets go of its handle there
        self._inner.close()


class _OtherSignature(TensorFlowSession):
    """A callable in the v1 session of another, which closes it."""

    def _release(self) -> None:
        del self._call
