"""TorchServe's handler of a bundle: infer requests of the Open Inference Protocol in JSON, answered one by one."""

from __future__ import annotations

import json
from typing import Any


class InferHandler:
    """What TorchServe calls: `initialize` once in each worker, then `handle` with the requests of a batch."""

    def initialize(self, context: Any) -> None:
        """Open the artifact in the folder that the archive was unpacked to."""
        from artifact_runtime import ArtifactModel, WrongInput

        self._refusal = WrongInput
        self._model = ArtifactModel(context.system_properties["model_dir"])

    def handle(self, data: list[dict[str, Any]], context: Any) -> list[Any]:
        """Return an answer for each request. The status of one that does not fit the model is 400."""
        answers = []
        for at, row in enumerate(data):
            body = row.get("body", row.get("data"))
            try:
                answers.append(self._model.answer(_parse(body, self._refusal)))
            except self._refusal as error:
                context.set_response_status(code=400, idx=at)
                answers.append({"error": str(error)})
        return answers


def _parse(body: Any, refusal: type[ValueError]) -> Any:
    """Return the document of a request: TorchServe has parsed it where its content type is JSON."""
    if not isinstance(body, bytes | bytearray | str):
        return body
    try:
        return json.loads(body)
    except ValueError as error:
        raise refusal(f"the request is no JSON: {error}") from error
