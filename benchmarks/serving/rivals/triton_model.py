"""An ONNX file in ONNX Runtime, one thread, as a model of Triton's Python backend. The file lies beside this module."""

from pathlib import Path
from typing import Any

import onnxruntime
import triton_python_backend_utils as utils


class TritonPythonModel:
    """The file, opened once."""

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002
        """Open the file."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(Path(__file__).with_name("model.onnx")), options)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer requests."""
        replies = []
        for request in requests:
            x = utils.get_input_tensor_by_name(request, "x").as_numpy()
            (value,) = self.session.run(None, {"x": x})
            replies.append(utils.InferenceResponse([utils.Tensor("y", value)]))
        return replies
