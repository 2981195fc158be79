"""MLServer's runtime of a bundle: infer requests of the Open Inference Protocol, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from artifact_runtime import ArtifactModel, WrongInput
from mlserver import MLModel
from mlserver.errors import MLServerError
from mlserver.types import InferenceResponse


class ArtifactRuntime(MLModel):  # type: ignore[misc, unused-ignore]
    """The artifact beside this file."""

    async def load(self) -> bool:
        """Open the artifact."""
        self._artifact = ArtifactModel(Path(__file__).resolve().parent / "artifact")
        return True

    async def predict(self, payload: Any) -> Any:
        """Return the answer to a request. Raises MLServer's error, 400, for one that does not fit the model."""
        try:
            answer = await asyncio.to_thread(self._artifact.answer, payload.model_dump(mode="json"))
        except WrongInput as error:
            raise MLServerError(str(error), 400) from error
        return InferenceResponse(model_name=self.name, model_version=self.version, **answer)
