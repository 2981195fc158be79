"""How long others wait beside large bodies: /healthz and another model, asked without a pause while one is answered."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import latency
import numpy as np
import servers
from wire_requests import WireRequest

from transload.serving.server.tfserving_launch import free_ports
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
    grpc_port, http_port = free_ports(2)
    words = ["serve", f"model={copies}", f"wide={wide}", "--grpc-port", str(grpc_port), "--rest-port", str(http_port)]
    return servers.Command([*servers.TRANSLOAD, *words, "--max-body", "512"], servers.Ports(grpc_port, http_port))


def measure(ports: servers.Ports, small: WireRequest, folder: Path) -> list[dict[str, Any]]:
    """Return the longest waits beside each large request, and beside nothing. Each is sent by a process of its own: a
    client holds Python's lock, too."""
    others = {"healthz": _health(ports.http), "other model": latency.make_call(small, ports.grpc)}
    rows = [{"name": "nothing", **_waits(others, [sys.executable, "-c", "import time; time.sleep(2)"])}]
    for megabytes in SIZES_MB:
        for name, request in large_requests(megabytes):
            (folder / "body").write_bytes(request.body)
            about = json.dumps([request.protocol, request.path, request.headers, getattr(ports, request.protocol)])
            words = [sys.executable, "-P", __file__, about, str(folder / "body")]
            rows.append({"name": name, "MB": megabytes, **_waits(others, words)})
    return rows


def _waits(others: dict[str, Callable[[], object]], words: list[str]) -> dict[str, Any]:
    """Return milliseconds: the most and the median of each of the others while a command runs."""
    for ask in others.values():
        ask()
    waits: dict[str, list[float]] = {name: [] for name in others}
    start = time.perf_counter()
    process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)})
    while process.poll() is None:
        for name, ask in others.items():
            begun = time.perf_counter()
            ask()
            waits[name].append(1e3 * (time.perf_counter() - begun))
    spent = time.perf_counter() - start
    assert process.returncode == 0
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


def _send(protocol: str, path: str, headers: dict[str, str], port: int, body: bytes) -> None:
    if protocol == "http":
        latency.HttpLink(port).send(latency.http_bytes(WireRequest(protocol, path, body, headers, "")))
        return
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_receive_message_length", -1)]) as channel:
        channel.unary_unary(path)(body, timeout=120)


if __name__ == "__main__":
    how_protocol, how_path, how_headers, how_port = json.loads(sys.argv[1])
    _send(how_protocol, how_path, how_headers, how_port, Path(sys.argv[2]).read_bytes())
