"""Every call of kserve's clients that is served: `python kserve_calls.py GRPC REST X`.

Its REST client of version 1 asks `GET /` whether the server lives, which is not asked here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import numpy as np
from call_results import print_results
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

X = np.array(json.loads(sys.argv[3]), np.float32)
URL = f"http://{sys.argv[2]}"
two = InferenceRESTClient(RESTConfig(protocol="v2", timeout=30))
one = InferenceRESTClient(RESTConfig(protocol="v1", timeout=30))


def request(*, binary: bool) -> InferRequest:
    x = InferInput("x", list(X.shape), "FP32")
    x.set_data_from_numpy(X, binary_data=binary)
    return InferRequest("m", [x])


def values(reply: Any) -> Any:
    return {output.name: output.as_numpy().tolist() for output in reply.outputs}


async def rest(*, binary: bool) -> Any:
    return values(await two.infer(URL, request(binary=binary), model_name="m"))


async def rest_v1(document: dict[str, Any]) -> Any:
    return await one.infer(URL, document, model_name="m")


def strings_request(*, binary: bool) -> InferRequest:
    text = InferInput("text", [2], "BYTES")
    text.set_data_from_numpy(np.array([b"cat", "äh".encode()], object), binary_data=binary)
    return InferRequest("words", [text])


def texts(reply: Any) -> Any:
    arrays = {output.name: output.as_numpy().tolist() for output in reply.outputs}
    return {**arrays, "upper": [text.decode() if isinstance(text, bytes) else text for text in arrays["upper"]]}


async def rest_strings() -> Any:
    return texts(await two.infer(URL, strings_request(binary=True), model_name="words"))


async def rest_v1_strings() -> Any:
    return (await one.infer(URL, {"instances": ["cat", "äh"]}, model_name="words"))["predictions"]


async def grpc_strings() -> Any:
    async def infer(client: InferenceGRPCClient) -> Any:
        return texts(await client.infer(strings_request(binary=True)))

    return await grpc_call(infer)


async def grpc_call(call: Callable[[InferenceGRPCClient], Awaitable[Any]]) -> Any:
    client = InferenceGRPCClient(sys.argv[1], timeout=30)
    try:
        return await call(client)
    finally:
        await client.close()


async def grpc_infer(*, binary: bool) -> Any:
    async def infer(client: InferenceGRPCClient) -> Any:
        return values(await client.infer(request(binary=binary)))

    return await grpc_call(infer)


ASYNC: dict[str, Callable[[], Awaitable[Any]]] = {
    "REST v1 infer, rows": lambda: rest_v1({"instances": X.tolist()}),
    "REST v1 infer, columns": lambda: rest_v1({"inputs": {"x": X.tolist()}}),
    "REST v2 infer, JSON": lambda: rest(binary=False),
    "REST v2 infer, bytes": lambda: rest(binary=True),
    "REST v2 is_server_live": lambda: two.is_server_live(URL),
    "REST v2 is_server_ready": lambda: two.is_server_ready(URL),
    "REST v2 is_model_ready": lambda: two.is_model_ready(URL, "m"),
    "gRPC infer, typed": lambda: grpc_infer(binary=False),
    "gRPC infer, raw": lambda: grpc_infer(binary=True),
    "REST v1 infer, strings": rest_v1_strings,
    "REST v2 infer, strings": rest_strings,
    "gRPC infer, strings": grpc_strings,
    "gRPC is_server_live": lambda: grpc_call(lambda client: client.is_server_live()),
    "gRPC is_server_ready": lambda: grpc_call(lambda client: client.is_server_ready()),
    "gRPC is_model_ready": lambda: grpc_call(lambda client: client.is_model_ready("m")),
}


def run_in(runner: asyncio.Runner, call: Callable[[], Awaitable[Any]]) -> Any:
    async def wait() -> Any:
        return await call()

    return runner.run(wait())


if __name__ == "__main__":
    with asyncio.Runner() as runner:  # one loop, to which the clients are bound
        print_results({name: partial(run_in, runner, call) for name, call in ASYNC.items()})
