"""TensorFlow with XLA: a SavedModel's signature as one function that XLA must compile, called as `tensorflow` calls it.

The function is a node in the graph of a v1 session, so that the two runtimes differ in the compiler alone.
XLA compiles for the shapes of a call: opening compiles for the smallest, the first call at others for those.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest, ToolMissing
from ..checked_session import smallest_feeds
from ..session import Session
from .payload import check_names, opening
from .tensorflow_session import SIGNATURE, TensorFlowSession, placement, session_config

NAME = "tensorflow-xla"
# What stands beside the compiled function in a graph. Anything else would be computed outside of it.
_PLUMBING = frozenset(("_Arg", "_Retval", "VarHandleOp", "NoOp"))
_MUST_COMPILE = "_XlaMustCompile"


def open_session(folder: Path, device: str, threads: int) -> Session:  # noqa: ARG001  (every entry takes it)
    """Open a session over the SavedModel in `folder`. It runs on the CPU, whatever `device` says.
    Raises BadRequest where it cannot be opened or XLA cannot compile it, ToolMissing where TensorFlow or XLA is not
    there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # else TensorFlow takes all the memory of every GPU it sees
        import tensorflow as tf

        inner = tf.compat.v1.Session(graph=tf.Graph(), config=session_config(tf, "cpu", threads))
        with inner.graph.as_default():
            options = _callable_options(tf, inner, artifact)
        _check_compiled(tf, inner, options, artifact)
        refused = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)
        return TensorFlowSession(artifact.signature, inner, options, "cpu", refused, runtime=NAME)


def _callable_options(tf: Any, inner: Any, artifact: Artifact) -> Any:
    """Load the signature into the session as one compiled function; name the tensors that it takes and returns."""
    from tensorflow.core.protobuf import config_pb2

    signatures = tf.saved_model.load(str(artifact.path)).signatures
    if SIGNATURE not in signatures:
        raise BadRequest(f"{artifact.path} has no signature {SIGNATURE}", fix="save it with one")
    served = signatures[SIGNATURE]
    specs = served.structured_input_signature[1]
    check_names(artifact, sorted(specs), sorted(served.structured_outputs))
    feeds = {name: tf.compat.v1.placeholder(spec.dtype, spec.shape) for name, spec in specs.items()}
    # XLA either compiles all of it, or raises an error (https://www.tensorflow.org/xla/tutorials/jit_compile).
    answers = tf.function(partial(served), jit_compile=True, autograph=False)(**feeds)
    inner.run((tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()))
    return config_pb2.CallableOptions(
        feed=[feeds[spec.name].name for spec in artifact.signature.inputs],
        fetch=[answers[spec.name].name for spec in artifact.signature.outputs],
    )


def _check_compiled(tf: Any, inner: Any, options: Any, artifact: Artifact) -> None:
    """Call it on zeros, and look at the graph that was executed: nothing may be computed outside of the function.
    Raises ToolMissing where something was."""
    library = {function.signature.name: function for function in inner.graph.as_graph_def().library.function}
    calls, left_out = [], []
    for node in placement(tf, inner, options, [*smallest_feeds(artifact.signature).values()]):
        function = library.get(node.attr["f"].func.name) if "f" in node.attr else None
        if function is not None and function.attr[_MUST_COMPILE].b:
            calls.append(node)
        elif node.op not in _PLUMBING:
            left_out.append(node.op)
    if not calls or left_out:
        raise ToolMissing(
            f"TensorFlow {tf.__version__} did not leave all of {artifact.path} to XLA: "
            f"{', '.join(left_out) or 'it left nothing'}",
            fix="use the runtime tensorflow",
        )
