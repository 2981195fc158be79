"""The functions that SageMaker's inference toolkit calls: infer requests of the Open Inference Protocol in JSON."""

from __future__ import annotations

import json
from typing import Any


def model_fn(model_dir: str) -> Any:
    """Open the artifact beside the folder `code`."""
    from artifact_runtime import ArtifactModel

    return ArtifactModel(model_dir)


def input_fn(body: Any, content_type: str) -> Any:
    """Return the document of a request. Raises the toolkit's error for another content type, or what is no JSON."""
    if content_type.partition(";")[0].strip() != "application/json":
        raise _refusal(415, f"the content type is application/json, got {content_type}")
    try:
        return json.loads(body)
    except ValueError as error:
        raise _refusal(400, f"the request is no JSON: {error}") from error


def predict_fn(document: Any, model: Any) -> dict[str, Any]:
    """Return the answer to a request. Raises the toolkit's error for one that does not fit the model."""
    from artifact_runtime import WrongInput

    try:
        answer: dict[str, Any] = model.answer(document)
    except WrongInput as error:
        raise _refusal(400, str(error)) from error
    return answer


def output_fn(answer: dict[str, Any], accept: str) -> tuple[str, str]:  # noqa: ARG001  (JSON is what is there)
    """Return the answer as text, and its content type."""
    return json.dumps(answer), "application/json"


def _refusal(status: int, message: str) -> Exception:
    from sagemaker_inference.errors import GenericInferenceToolkitError

    error: Exception = GenericInferenceToolkitError(status, message)
    return error
