"""What `mlflow.pyfunc.load_model` opens an artifact with: arrays by name go in, arrays by name come out.

The file lies in the folder `code` of a model in MLflow, beside artifact_runtime.py. MLflow checks inputs against the
model's signature before it calls `predict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PyfuncArtifact:
    """An artifact as MLflow calls it."""

    def __init__(self, folder: str) -> None:
        from artifact_runtime import ArtifactModel

        self._model = ArtifactModel(folder)

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Return the outputs by name. A model of one input takes an array in place of a dict as well."""
        names = [row["name"] for row in self._model.inputs]
        if not isinstance(data, Mapping):
            if len(names) != 1:
                raise TypeError(f"the model takes a dict of {', '.join(names)}, not {type(data).__name__}")
            data = {names[0]: data}
        answers: dict[str, Any] = self._model.run(dict(data))
        return answers


def _load_pyfunc(folder: str) -> PyfuncArtifact:
    """Open the artifact in `folder`: MLflow calls the function of this name."""
    return PyfuncArtifact(folder)
