"""A server of the Open Inference Protocol that is not ours, over HTTP or gRPC, on loopback: y = 2 x, with one fault."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import numpy as np

from transload.models.signature import Array
from transload.serving.wire.oip_messages import SERVICE, messages

Rows = list[dict[str, Any]]


class Fault(Exception):
    """A status in place of an answer: a number over HTTP, a name over gRPC."""


class Cut(Exception):
    """A body that ends before it should, or at once."""


def right(x: Array) -> Mapping[str, Array]:
    return {"y": x * np.float32(2)}


def status(code: object) -> Callable[[Array], Mapping[str, Array]]:
    def answer(_x: Array) -> Mapping[str, Array]:
        raise Fault(code)

    return answer


def refuses_above(rows: int, code: object) -> Callable[[Array], Mapping[str, Array]]:
    def answer(x: Array) -> Mapping[str, Array]:
        if len(x) > rows:
            raise Fault(code)
        return right(x)

    return answer


def refuses_nan(code: object) -> Callable[[Array], Mapping[str, Array]]:
    def answer(x: Array) -> Mapping[str, Array]:
        if not np.isfinite(x).all():
            raise Fault(code)
        return right(x)

    return answer


def fails_but_lies_above(rows: int, code: object) -> Callable[[Array], Mapping[str, Array]]:
    def answer(x: Array) -> Mapping[str, Array]:
        if len(x) <= rows:
            raise Fault(code)
        return {"y": x * np.float32(2.01)}

    return answer


def hangs(x: Array) -> Mapping[str, Array]:
    time.sleep(1)
    return right(x)


def cuts(_x: Array) -> Mapping[str, Array]:
    raise Cut


WRONG: dict[str, Callable[[Array], Mapping[str, Array]]] = {
    "numbers": lambda x: {"y": x * np.float32(2.01)},
    "shape": lambda x: {"y": x[:, :1]},
    "rows": lambda x: {"y": x[:1] if len(x) > 1 else x[:0]},
    "name": lambda x: {"z": x * np.float32(2)},
    "dtype": lambda x: {"y": x.astype(np.float64) * 2},
}


@contextmanager
def http_server(
    answer: Callable[[Array], Mapping[str, Array]], *, extensions: list[str] | None = None, metadata: int = 200
) -> Iterator[str]:
    """Serve over HTTP. Without extensions it has no metadata of its own, and fails where bytes are sent.
    `metadata` is the status of the model's."""

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v2":
                self._reply(404 if extensions is None else 200, {"name": "foreign", "extensions": extensions})
            else:
                sides = {side: [{"name": name, "datatype": "FP32", "shape": [-1, 2]}]
                         for side, name in (("inputs", "x"), ("outputs", "y"))}  # fmt: skip
                self._reply(metadata, {"name": "m", **sides})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                document, feeds = _read(body, self.headers.get("Inference-Header-Content-Length"), extensions)
                outputs = answer(feeds)
            except Fault as error:
                self._reply(int(str(error)), {"error": "it failed"})
                return
            except Cut:
                self.send_response(200)
                self.send_header("Content-Length", "400")
                self.end_headers()
                self.wfile.write(b'{"outputs": [')
                self.close_connection = True
                return
            self._reply(200, {"parameters": None, "outputs": _rows(outputs), "model_name": document.get("id")})

        def _reply(self, code: int, document: Any) -> None:
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _read(body: bytes, length: str | None, extensions: list[str] | None) -> tuple[dict[str, Any], Array]:
    """Return the document and the input of a request."""
    if length is not None and "binary_tensor_data" not in (extensions or ()):
        raise Fault(500)  # as MLServer 1.7.1
    document = json.loads(body[: int(length)] if length else body)
    row = document["inputs"][0]
    data = np.frombuffer(body[int(length) :], np.float32) if length else np.array(row["data"], np.float32)
    return document, data.reshape(row["shape"])


def _rows(outputs: Mapping[str, Array]) -> Rows:
    return [
        {
            "name": name,
            "datatype": "FP64" if array.dtype == np.float64 else "FP32",
            "shape": array.shape,
            "parameters": None,
            "data": [None if math.isnan(value) else value for value in array.ravel().tolist()],
        }
        for name, array in outputs.items()
    ]


@contextmanager
def grpc_server(answer: Callable[[Array], Mapping[str, Array]], *, metadata: str = "") -> Iterator[str]:
    """Serve over gRPC. `metadata` is a status in place of the model's."""

    def describe(_request: Any, context: grpc.ServicerContext) -> Any:
        if metadata:
            context.abort(grpc.StatusCode[metadata], "it failed")
        reply = messages().ModelMetadataResponse(name="m")
        reply.inputs.add(name="x", datatype="FP32", shape=[-1, 2])
        reply.outputs.add(name="y", datatype="FP32", shape=[-1, 2])
        return reply

    def infer(request: Any, context: grpc.ServicerContext) -> Any:
        x = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(tuple(request.inputs[0].shape))
        reply = messages().ModelInferResponse(model_name="m")
        try:
            outputs = answer(x)
        except Fault as error:
            context.abort(grpc.StatusCode[str(error)], "it failed")
        except Cut:
            reply.outputs.add(name="y", datatype="FP32", shape=x.shape)
            reply.raw_output_contents.append(b"\0\0")
            return reply
        for row, array in zip(_rows(outputs), outputs.values(), strict=True):
            reply.outputs.add(name=row["name"], datatype=row["datatype"], shape=row["shape"])
            reply.raw_output_contents.append(array.tobytes())
        return reply

    methods = {
        "ModelMetadata": (describe, messages().ModelMetadataRequest),
        "ModelInfer": (infer, messages().ModelInferRequest),
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            act, request_deserializer=kind.FromString, response_serializer=lambda reply: reply.SerializeToString()
        )
        for name, (act, kind) in methods.items()
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(10)
