"""Every call of the Open Inference Protocol by tritonclient: `python tritonclient_calls.py GRPC REST X`."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from call_results import print_results

X = np.array(json.loads(sys.argv[3]), np.float32)
LIBRARIES: dict[str, Any] = {"http": triton_http, "grpc": triton_grpc}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGPgEpEDAABoAD1UCKP3AAAAAElFTkSuQmCC"  # of (10, 20, 30)
CLIENTS: dict[str, Any] = {
    "http": triton_http.InferenceServerClient(sys.argv[2]),
    "grpc": triton_grpc.InferenceServerClient(sys.argv[1]),
}


def infer(wire: str, version: str = "", *, binary: bool | None = None, only: str = "", **options: Any) -> Any:
    library, asked = LIBRARIES[wire], {} if binary is None else {"binary_data": binary}
    x = library.InferInput("x", list(X.shape), "FP32")
    x.set_data_from_numpy(X, **asked)
    names = [only] if only else ["logits", "total"]
    outputs = [library.InferRequestedOutput(name, **asked) for name in names] if only or asked else None
    result = CLIENTS[wire].infer("m", [x], model_version=version, outputs=outputs, **options)
    return {name: result.as_numpy(name).tolist() for name in names}


def infer_strings(wire: str, *, binary: bool = True) -> Any:
    library = LIBRARIES[wire]
    text = library.InferInput("text", [2], "BYTES")
    asked = {"binary_data": binary} if wire == "http" else {}
    text.set_data_from_numpy(np.array([b"cat", "äh".encode()], object), **asked)
    outputs = [library.InferRequestedOutput(name, **asked) for name in ("id", "upper")]
    result = CLIENTS[wire].infer("words", [text], outputs=outputs)
    texts = [text.decode() if isinstance(text, bytes) else text for text in result.as_numpy("upper").tolist()]
    return {"id": result.as_numpy("id").tolist(), "upper": texts}


def infer_signature(wire: str) -> Any:
    image = LIBRARIES[wire].InferInput("image_bytes", [1], "BYTES")
    image.set_data_from_numpy(np.array([base64.b64decode(PNG)], object))
    result = CLIENTS[wire].infer("words", [image], parameters={"signature_name": "colour"})
    return result.as_numpy("colour")[0].tolist()


def async_infer_grpc() -> Any:
    import queue

    answers: queue.Queue[Any] = queue.Queue()
    x = triton_grpc.InferInput("x", list(X.shape), "FP32")
    x.set_data_from_numpy(X)
    CLIENTS["grpc"].async_infer("m", [x], lambda result, error: answers.put((result, error)))
    result, error = answers.get(timeout=30)
    assert error is None, error
    return {name: result.as_numpy(name).tolist() for name in ("logits", "total")}


def refusal(wire: str) -> Any:
    x = LIBRARIES[wire].InferInput("x", list(X.shape), "FP32")
    x.set_data_from_numpy(X)
    try:
        CLIENTS[wire].infer("nope", [x])
    except LIBRARIES[wire].InferenceServerException as error:
        return str(error.message())
    return None


def documents(wire: str) -> dict[str, Callable[[], Any]]:
    client = CLIENTS[wire]
    shown: dict[str, Any] = {"as_json": True} if wire == "grpc" else {}

    def index() -> Any:
        rows = client.get_model_repository_index(**shown)
        rows = rows["models"] if wire == "grpc" else rows
        return sorted([row["name"], row["version"], row["state"]] for row in rows)

    def reload_model() -> Any:
        client.unload_model("valuer")
        gone = client.is_model_ready("valuer")
        client.load_model("valuer")
        return [gone, client.is_model_ready("valuer")]

    def metadata() -> Any:
        rows = client.get_model_metadata("m", **shown)
        return {
            row["name"]: [row["datatype"], [int(size) for size in row["shape"]]]
            for row in rows["inputs"] + rows["outputs"]
        }

    def config() -> Any:
        rows = client.get_model_config("m", **shown)
        rows = rows["config"] if wire == "grpc" else rows
        return sorted(row["name"] for row in rows["input"] + rows["output"])

    def statistics(name: str) -> Any:
        rows = client.get_inference_statistics(name, **shown)["model_stats"]
        return {row["name"]: int(row.get("inference_count", 0)) > 0 for row in rows}

    return {
        "is_server_live": client.is_server_live,
        "is_server_ready": client.is_server_ready,
        "is_model_ready": lambda: [
            client.is_model_ready("m"),
            client.is_model_ready("m", "1"),
            client.is_model_ready("nope"),
        ],
        "get_server_metadata": lambda: client.get_server_metadata(**shown)["name"],
        "get_model_metadata": metadata,
        "get_model_config": config,
        "get_inference_statistics": lambda: statistics("m"),
        "get_inference_statistics, all": lambda: statistics(""),
        "get_model_repository_index": index,
        "unload_model, load_model": reload_model,
    }


CALLS: dict[str, Callable[[], Any]] = {
    "http infer": partial(infer, "http"),
    "http infer, JSON": partial(infer, "http", binary=False),
    "http infer, bytes": partial(infer, "http", binary=True),
    "http infer, gzip": partial(
        infer, "http", request_compression_algorithm="gzip", response_compression_algorithm="gzip"
    ),
    "http infer, deflate": partial(infer, "http", request_compression_algorithm="deflate"),
    "http infer, strings": partial(infer_strings, "http"),
    "http infer, strings in JSON": partial(infer_strings, "http", binary=False),
    "grpc infer, strings": partial(infer_strings, "grpc"),
    **{f"{wire} infer, a signature": partial(infer_signature, wire) for wire in CLIENTS},
    **{f"{wire} infer, a time limit": partial(infer, wire, timeout=30_000_000) for wire in CLIENTS},
    "grpc infer": partial(infer, "grpc"),
    "grpc async_infer": async_infer_grpc,
    **{f"{wire} infer, a version": partial(infer, wire, "1") for wire in CLIENTS},
    **{f"{wire} infer, one output": partial(infer, wire, only="total") for wire in CLIENTS},
    **{f"{wire} infer, no such model": partial(refusal, wire) for wire in CLIENTS},
    **{f"{wire} {name}": call for wire in CLIENTS for name, call in documents(wire).items()},
}


if __name__ == "__main__":
    print_results(CALLS)
