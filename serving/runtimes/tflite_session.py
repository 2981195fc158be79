"""LiteRT (TensorFlow Lite): a `tflite` artifact through its signature's names, with XNNPACK where it applies.

An artifact that holds operators of TensorFlow's own goes through TensorFlow's interpreter, which is another build of
TFLite: a runtime of another name, whose figures are its own. Its Flex delegate is in the wheels of TensorFlow up to
2.18; from 2.19 on it is not (tried: 2.18.1, 2.19.1, 2.21.0).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest, OpenFailed, ToolMissing
from ...models.signature import Array, Signature
from ...models.tensorflow_names import default_signature, plain_names
from ..checked_session import CheckedSession
from ..session import Session
from .payload import check_names, opening

NAME = "tflite"
FLEX = "tflite-flex"
_ROOT = 8  # a FlatBuffer file: 4 bytes offset of the root, then the identifier
_MAGIC = b"TFL3"
_NO_FLEX = "Make sure you apply/link the Flex delegate"
_FLEX_MEND = "name a Python that has TensorFlow 2.18 in TRANSLOAD_PYTHON_FLEX (docs/design/flex.md)"


def open_session(
    folder: Path,
    device: str,  # noqa: ARG001  (every entry takes it)
    threads: int,
    kernels: str = "AUTO",
    *,
    xnnpack_latest: bool = False,
    delegate_clustering: bool = True,
) -> Session:
    """Open a session over the TFLite artifact in `folder`. It runs on the CPU, whatever `device` says.
    `kernels` names the OpResolverType. `xnnpack_latest`: with XNNPACK's latest operators. `delegate_clustering`: hand
    neighbouring operators to a delegate together.
    Raises BadRequest where it cannot be opened, or holds operators of TensorFlow's own; ToolMissing where LiteRT is not
    there."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        if artifact.flex:
            raise BadRequest(
                f"LiteRT comes without TensorFlow's Flex delegate, which {_needs(artifact)}",
                fix=f"open it in {FLEX}, or take the model as SavedModel or ONNX",
            )
        _check_head(NAME, artifact.path)
        interpreter = Interpreter(
            model_path=str(artifact.path),
            num_threads=threads,
            experimental_op_resolver_type=OpResolverType[kernels],
            experimental_default_delegate_latest_features=xnnpack_latest,
            experimental_disable_delegate_clustering=not delegate_clustering,
        )
        return _session(NAME, artifact, interpreter)


def open_flex_session(folder: Path, device: str, threads: int) -> Session:  # noqa: ARG001
    """Open a session in TensorFlow's own interpreter, with its Flex delegate if the artifact needs it.
    Raises BadRequest where it cannot be opened, ToolMissing where TensorFlow is not there, or comes without Flex."""
    artifact = read_artifact(folder)
    with opening(FLEX, artifact.path):
        import tensorflow as tf

        _check_head(FLEX, artifact.path)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"[\s\S]*use the LiteRT interpreter", UserWarning)  # which has no Flex
            interpreter = tf.lite.Interpreter(model_path=str(artifact.path), num_threads=threads)
        try:
            interpreter.allocate_tensors()
        except RuntimeError as error:
            if _NO_FLEX in str(error):
                raise ToolMissing(
                    f"TensorFlow {tf.__version__} comes without the Flex delegate, which {_needs(artifact)}",
                    fix=_FLEX_MEND,
                ) from error  # any other comes again, at the sizes that are asked for
        return _session(FLEX, artifact, interpreter)


def _needs(artifact: Artifact) -> str:
    return f"{artifact.path} needs for {', '.join(artifact.flex)}"


def _session(runtime: str, artifact: Artifact, interpreter: Any) -> TfliteSession:
    """Over an interpreter whose inputs and outputs are what the record says."""
    inputs, outputs = _details(interpreter)
    check_names(artifact, list(inputs), list(outputs))
    _check_dtypes(artifact, {**inputs, **outputs})
    return TfliteSession(runtime, artifact.signature, interpreter, inputs, outputs)


def _check_head(runtime: str, path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_ROOT)
    if head[4:] != _MAGIC:
        message = f"{runtime} cannot open {path}: it is no TFLite file"
        raise OpenFailed(message, fix="make the artifact again", runtime=runtime)


def _details(interpreter: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Details of the input and of the output tensors by the names that the model was saved with.
    A file without a signature has tensor names alone, `serving_default_x:0` for an input x of the SavedModel."""
    served = default_signature(interpreter.get_signature_list())
    if served is not None:
        runner = interpreter.get_signature_runner(served)
        return runner.get_input_details(), runner.get_output_details()
    return _details_by_tensor(interpreter.get_input_details()), _details_by_tensor(interpreter.get_output_details())


def _details_by_tensor(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return dict(zip(plain_names([row["name"] for row in rows]), rows, strict=True))


def _check_dtypes(artifact: Artifact, details: Mapping[str, Any]) -> None:
    """LiteRT copies bytes into a tensor and asks no more, so a file of other dtypes must be found here."""
    for spec in (*artifact.signature.inputs, *artifact.signature.outputs):
        dtype = np.dtype(details[spec.name]["dtype"]).name
        if dtype != spec.dtype:
            raise BadRequest(
                f"{artifact.path} has {spec.name} as {dtype}, and its record has {spec}", fix="make the artifact again"
            )


class TfliteSession(CheckedSession):
    """An interpreter, on the CPU. Its memory is planned for one set of shapes, and planned anew when they change.
    `inputs` and `outputs` are its tensors' details by name."""

    def __init__(
        self,
        runtime: str,
        signature: Signature,
        interpreter: Any,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
    ) -> None:
        super().__init__(runtime, signature, "cpu")
        self._interpreter = interpreter
        self._feeds = [int(inputs[spec.name]["index"]) for spec in signature.inputs]
        self._fetches = [int(outputs[spec.name]["index"]) for spec in signature.outputs]
        self._planned: list[tuple[int, ...]] | None = None

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        shapes = [value.shape for value in values]
        if shapes != self._planned:
            self._plan(shapes)
        for index, value in zip(self._feeds, values, strict=True):
            self._interpreter.set_tensor(index, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._fetches]  # copies

    def _plan(self, shapes: list[tuple[int, ...]]) -> None:
        self._planned = None  # a plan that fails half-way is none
        for index, shape in zip(self._feeds, shapes, strict=True):
            self._interpreter.resize_tensor_input(index, shape)
        self._interpreter.allocate_tensors()
        self._planned = shapes

    def _release(self) -> None:
        self._interpreter = None
