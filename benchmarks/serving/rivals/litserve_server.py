"""LitServe over an ONNX file: python litserve_server.py FILE HTTP_PORT, in an environment with it."""

import sys
from typing import Any

import litserve
import numpy as np
import onnxruntime


class OnnxApi(litserve.LitAPI):
    """The file in ONNX Runtime, one thread."""

    def setup(self, device: str) -> None:  # noqa: ARG002
        """Open the file."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(sys.argv[1], options)

    def decode_request(self, request: dict[str, Any]) -> np.ndarray:
        """Return the rows of a request as an array."""
        return np.array(request["instances"], np.float32)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Answer one request."""
        return np.asarray(self.session.run(None, {"x": x})[0])

    def encode_response(self, output: np.ndarray) -> dict[str, Any]:
        """Return the model's output as JSON values."""
        return {"predictions": output.tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(
        OnnxApi(api_path="/v1/models/model:predict"), accelerator="cpu", fast_queue=False, timeout=30
    )
    server.run(port=int(sys.argv[2]), host="127.0.0.1", log_level="warning", generate_client_file=False)
