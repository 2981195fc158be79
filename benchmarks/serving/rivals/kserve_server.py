"""KServe's Python server over an ONNX file: python kserve_server.py FILE HTTP_PORT GRPC_PORT."""

import logging
import sys
from typing import Any

import kserve
import numpy as np
import onnxruntime


class OnnxModel(kserve.Model):
    """The file in ONNX Runtime, one thread."""

    def __init__(self, path: str) -> None:
        super().__init__("model")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options)
        self.ready = True

    async def predict(
        self,
        payload: kserve.InferRequest,
        headers: Any = None,  # noqa: ARG002
        response_headers: Any = None,  # noqa: ARG002
    ) -> kserve.InferResponse:
        """Answer one request."""
        (value,) = self.session.run(None, {payload.inputs[0].name: payload.inputs[0].as_numpy()})
        output = kserve.InferOutput("y", list(value.shape), "FP32")
        output.set_data_from_numpy(np.asarray(value), binary_data=payload.from_grpc)
        return kserve.InferResponse(payload.id or "1", "model", [output])


logging.disable(logging.INFO)  # it prints two lines a request

if __name__ == "__main__":
    kserve.ModelServer(http_port=int(sys.argv[2]), grpc_port=int(sys.argv[3]), workers=1).start(
        [OnnxModel(sys.argv[1])]
    )
