"""The Ray Serve application of a bundle: `serve run serve.yaml` in the bundle's folder.

It answers the Open Inference Protocol over HTTP: health, readiness, metadata and infer.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any


class InferEndpoint:
    """One replica: a loaded artifact. Ray Serve makes as many as serve.yaml says."""

    def __init__(self, name: str, version: str) -> None:
        from artifact_runtime import ArtifactModel, WrongInput

        self._name, self._version, self._refusal = name, version, WrongInput
        self._model = ArtifactModel(Path(__file__).resolve().parent / "artifact")

    async def __call__(self, request: Any) -> Any:
        """Answer one HTTP request."""
        from starlette.responses import JSONResponse

        status, document = await self._answer(request)
        return JSONResponse(document, status)

    async def check_health(self) -> None:
        """Raise where the model does not answer: Ray Serve calls this, and starts the replica again."""
        if not await asyncio.to_thread(self._model.is_ready):
            raise RuntimeError("the model does not answer its golden sample")

    async def _answer(self, request: Any) -> tuple[int, dict[str, Any]]:
        route = request.method, request.url.path.rstrip("/")
        model = f"/v2/models/{self._name}"
        pages: dict[tuple[str, str], dict[str, Any]] = {
            ("GET", "/v2/health/live"): {"live": True},
            ("GET", model): self._metadata(),
        }
        readiness = {("GET", "/v2/health/ready"): {}, ("GET", f"{model}/ready"): {"name": self._name}}
        if route in readiness:
            is_ready = await asyncio.to_thread(self._model.is_ready)
            return 200 if is_ready else 503, {**readiness[route], "ready": is_ready}
        if route in pages:
            return 200, pages[route]
        if route != ("POST", f"{model}/infer"):
            return 404, {"error": f"no page for {route[0]} {route[1]}"}
        try:
            document = await request.json()
        except ValueError as error:
            return 400, {"error": f"the request is no JSON: {error}"}
        try:
            answer = await asyncio.to_thread(self._model.answer, document)
        except self._refusal as error:
            return 400, {"error": str(error)}
        return 200, {"model_name": self._name, "model_version": self._version, **answer}

    def _metadata(self) -> dict[str, Any]:
        from artifact_runtime import NAMES

        sides = {
            side: [
                {
                    "name": row["name"],
                    "datatype": NAMES[row["dtype"]],
                    "shape": [axis if isinstance(axis, int) else -1 for axis in row["shape"]],
                }
                for row in rows
            ]
            for side, rows in (("inputs", self._model.inputs), ("outputs", self._model.outputs))
        }
        return {"name": self._name, "versions": [self._version], "platform": "", **sides}


def build_app(args: dict[str, str]) -> Any:
    """Return the application; `args` are those of serve.yaml."""
    from ray import serve

    return serve.deployment(InferEndpoint, name="endpoint").bind(args["name"], args["version"])
