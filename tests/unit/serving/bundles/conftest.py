"""Sources of bundles without a real model, and a server that answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.formats import Format, Target
from transload.models.signature import Bounds, Signature, TensorSpec
from transload.serving.bundles.bundle_records import AnswerLimit, BundleSource, GoldenCall, GoldenSamples

BATCHED = Signature(
    (TensorSpec("image", "float32", ("batch", 2, 3)), TensorSpec("ids", "int64", ("batch",))),
    (TensorSpec("logits", "float32", ("batch", 4)), TensorSpec("best", "int64", ("batch",))),
)
SCALARS = Signature(
    (TensorSpec("x", "float32", (3,)), TensorSpec("factor", "float32", ())),
    (TensorSpec("y", "float32", (3,)), TensorSpec("sum", "float32", ())),
)


def arrays(specs: tuple[TensorSpec, ...], batch: int) -> dict[str, Any]:
    sizes = {axis: batch for spec in specs for axis in spec.dynamic_axes.values()}
    rng = np.random.default_rng(batch)
    return {spec.name: abs(10 * rng.standard_normal(spec.sized(sizes))).astype(spec.dtype) for spec in specs}


@pytest.fixture
def make_source(tmp_path: Path) -> Callable[..., BundleSource]:
    """An artifact of a format whose payload is one line of text, with two golden calls of 1 and 3 samples."""

    def make(form: Format, signature: Signature = BATCHED, **fields: Any) -> BundleSource:
        folder = tmp_path / "artifacts" / form
        folder.mkdir(parents=True, exist_ok=True)
        payload = folder / form.spec.payload
        if form is Format.SAVED_MODEL:
            (payload / "variables").mkdir(parents=True, exist_ok=True)
            (payload / "saved_model.pb").write_text("graph")
            (payload / "variables" / "variables.index").write_text("index")
        else:
            payload.write_text("payload")
        artifact = write_artifact(folder, Target(form), signature)
        calls = tuple(GoldenCall(arrays(signature.inputs, size), arrays(signature.outputs, size)) for size in (1, 3))
        return BundleSource(artifact, GoldenSamples(calls, AnswerLimit(60.0, 0.0)), **fields)

    return make


def bounded(low: int, high: int | None, step: int = 1) -> Signature:
    limits = (("batch", Bounds(low, high, step)),)
    (image, ids), outputs = BATCHED.inputs, BATCHED.outputs
    return Signature((TensorSpec(image.name, image.dtype, image.shape, limits), ids), outputs)


class FakeEndpoint:
    """An HTTP server on a free port: `answer(path, body)` gives status and document."""

    def __init__(self, answer: Callable[[str, Any], tuple[int, Any]]) -> None:
        self.requests: list[tuple[str, Any, dict[str, str]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, body, dict(self.headers)))
                status, document = answer(self.path, body)
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *words: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Callable[[Callable[[str, Any], tuple[int, Any]]], FakeEndpoint]]:
    opened: list[FakeEndpoint] = []

    def open_endpoint(answer: Callable[[str, Any], tuple[int, Any]]) -> FakeEndpoint:
        opened.append(FakeEndpoint(answer))
        return opened[-1]

    yield open_endpoint
    for server in opened:
        server.close()


@pytest.fixture
def signatures() -> dict[str, Any]:
    """Signatures by name, and `bounded`, which makes one with bounds of the batch."""
    return {"batched": BATCHED, "scalars": SCALARS, "bounded": bounded}
