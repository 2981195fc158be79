"""The model of Triton's Python backend: it opens the artifact beside this file, and answers request by request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


class TritonPythonModel:
    """What Triton calls: `initialize` once for each instance, then `execute` with the requests that wait."""

    def initialize(self, args: dict[str, str]) -> None:
        """Open the artifact in the version's folder."""
        import triton_python_backend_utils as triton  # of Triton's own process
        from artifact_runtime import ArtifactModel, WrongInput

        self._triton, self._refusal = triton, WrongInput
        self._model = ArtifactModel(Path(args["model_repository"]) / args["model_version"])
        outputs = json.loads(args["model_config"])["output"]
        self._dtypes = {row["name"]: triton.triton_string_to_numpy(row["data_type"]) for row in outputs}

    def execute(self, requests: list[Any]) -> list[Any]:
        """Return an answer for each request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        triton, feeds = self._triton, {}
        for row in self._model.inputs:
            array = triton.get_input_tensor_by_name(request, row["name"]).as_numpy()
            feeds[row["name"]] = array if row["shape"] else array.reshape(())  # Triton has no single numbers
        try:
            answers = self._model.run(feeds)
        except self._refusal as error:
            return triton.InferenceResponse([], triton.TritonError(str(error), triton.TritonError.INVALID_ARG))
        tensors = [
            triton.Tensor(name, np.atleast_1d(array).astype(self._dtypes[name], copy=False))
            for name, array in answers.items()
        ]
        return triton.InferenceResponse(tensors)
