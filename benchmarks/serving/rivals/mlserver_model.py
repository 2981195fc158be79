"""An ONNX file in ONNX Runtime, one thread, as MLServer's runtime."""

import numpy as np
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class OnnxModel(MLModel):
    """The ONNX file that is named in model-settings.json."""

    async def load(self) -> bool:
        """Open the file."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer one request."""
        x = NumpyCodec.decode_input(payload.inputs[0]).astype(np.float32, copy=False)
        (value,) = self.session.run(None, {"x": x})
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", value)])
