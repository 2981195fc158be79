"""How long others wait beside large bodies: /healthz and another model, asked without a pause while one is answered."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import latency
import numpy as np
import servers
from wire_requests import WireRequest

from transload.serving.wire.tensor_proto import encode
from transload.serving.wire.tfserving_messages import stock

NET = """from torch import nn

class Twice(nn.Module):
    def forward(self, x):
        return x * 2
"""
WIDTH = 1000
NUMBER = "0.12345678901234567"  # as Python writes a float64
SIZES_MB = (14, 60)
PATH = "/v1/models/wide:predict"


def large_requests(megabytes: int) -> Iterator[tuple[str, WireRequest]]:
    """Yield requests whose bodies are of this size before they are compressed, and one whose answer is."""
    rows = (megabytes << 20) // (WIDTH * (len(NUMBER) + 1))
    row = "[" + ",".join([NUMBER] * WIDTH) + "]"
    text = ('{"instances": [' + ",".join([row] * rows) + "]}").encode()
    data = ",".join([NUMBER] * (WIDTH * rows))
    head = f'{{"inputs": [{{"name": "x", "datatype": "FP32", "shape": [{rows}, {WIDTH}], "data": ['
    yield "rows in JSON", WireRequest("http", PATH, text, {}, "")
    yield "rows, gzip", WireRequest("http", PATH, gzip.compress(text, 1), {"content-encoding": "gzip"}, "")
    yield "OIP in JSON", WireRequest("http", "/v2/models/wide/infer", f"{head}{data}]}}]}}".encode(), {}, "")
    message = stock().PredictRequest()
    message.model_spec.name = "wide"
    encode(np.full(((megabytes << 18) // WIDTH, WIDTH), 0.5, np.float32), message.inputs["x"])
    yield "gRPC, bytes", WireRequest("grpc", "/tensorflow.serving.PredictionService/Predict",
                                     message.SerializeToString(), {}, "")  # fmt: skip
    tensor = message.inputs["x"]
    tensor.float_val.extend(np.frombuffer(tensor.tensor_content, np.float32))
    tensor.ClearField("tensor_content")
    yield "gRPC, float_val", WireRequest("grpc", "/tensorflow.serving.PredictionService/Predict",
                                         message.SerializeToString(), {}, "")  # fmt: skip


def command(copies: Path, wide: Path) -> servers.Command:
    """Return `transload serve` of both models."""
    grpc_port, http_port = servers.free_ports(2)
    words = ["serve", f"model={copies}", f"wide={wide}", "--grpc-port", str(grpc_port), "--rest-port", str(http_port)]
    return servers.Command([*servers.TRANSLOAD, *words, "--max-body", "512"], servers.Ports(grpc_port, http_port))


def measure(ports: servers.Ports, small: WireRequest, sizes_mb: tuple[int, ...] = SIZES_MB) -> list[dict[str, Any]]:
    """Return the longest waits beside each large request, and none (its name is "nothing")."""
    others = {"healthz": _health(ports.http), "other model": latency.make_call(small, ports.grpc)}
    rows = [{"name": "nothing", **_waits(others, lambda: time.sleep(2))}]
    for megabytes in sizes_mb:
        for name, request in large_requests(megabytes):
            call = _large_call(request, ports)
            rows.append({"name": name, "MB": megabytes, **_waits(others, call)})
    return rows


def _waits(others: dict[str, Callable[[], object]], call: Callable[[], object]) -> dict[str, Any]:
    """Return milliseconds: the most and the median of each of the others while `call` runs."""
    for ask in others.values():
        ask()
    thread = threading.Thread(target=call)
    waits: dict[str, list[float]] = {name: [] for name in others}
    start = time.perf_counter()
    thread.start()
    while thread.is_alive():
        for name, ask in others.items():
            begun = time.perf_counter()
            ask()
            waits[name].append(1e3 * (time.perf_counter() - begun))
    spent = time.perf_counter() - start
    return {
        "large_s": spent,
        **{f"{name} {what}_ms": float(reduce(values)) for name, values in waits.items()
           for what, reduce in (("most", np.max), ("p50", np.median))},
    }  # fmt: skip


def _health(port: int) -> Callable[[], object]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask() -> object:
        link.request("GET", "/healthz")
        return json.loads(link.getresponse().read())

    return ask


def _large_call(request: WireRequest, ports: servers.Ports) -> Callable[[], object]:
    if request.protocol == "http":
        data, link = latency.http_bytes(request), latency.HttpLink(ports.http)
        return lambda: link.send(data)
    import grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{ports.grpc}", [("grpc.max_receive_message_length", -1)])
    method, body = channel.unary_unary(request.path), request.body
    return lambda: method(body, timeout=120)
