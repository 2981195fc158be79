"""The runtime: ONNX's own evaluator, in numpy."""

import numpy as np

from transload.models.artifact import read_artifact
from transload.serving.checked_session import CheckedSession
from transload.serving.runtimes.payload import check_names, opening

from .text_file import parse_text

NAME = "onnx-reference"


class ReferenceSession(CheckedSession):
    """A session over the evaluator."""

    def __init__(self, signature, evaluator):
        super().__init__(NAME, signature, "cpu")
        self._evaluator = evaluator
        self._inputs = [spec.name for spec in signature.inputs]

    def _answer(self, values):
        feeds = {name: np.array(value) for name, value in zip(self._inputs, values, strict=True)}
        return [np.array(answer) for answer in self._evaluator.run(list(self._outputs), feeds)]

    def _release(self):
        self._evaluator = None


def open_session(folder, device, threads):
    """Open a session over the artifact in `folder`. Raises BadRequest where it cannot be opened."""
    artifact = read_artifact(folder)
    with opening(NAME, artifact.path):
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(parse_text(artifact.path))
    check_names(artifact, evaluator.input_names, evaluator.output_names)
    return ReferenceSession(artifact.signature, evaluator)
