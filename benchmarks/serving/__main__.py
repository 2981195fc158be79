"""How fast the server is, beside bare echoes of its libraries and beside other servers of the same ONNX file.

    python benchmarks/serving [latency | rate | cold | decode ...] [--rivals FOLDER] [--rounds N] [--out FILE.json]

latency  p50 of one client: in process, embedded and behind `transload serve`, beside an echo of the same library
rate     requests per second of 8 clients (h2load), beside the echoes, MLServer, KServe, LitServe and Triton's Python
         backend
cold     seconds from the command `transload serve` to the first answer, for each format
stack    p50 of one client of an echo: uvicorn, and the connection of `transload serve` on the same libraries
large    the longest waits of others beside bodies of 14 and 60 MB, behind `transload serve`
decode   a 224x224x3 image sent as float_val

The model is an MLP of 20 inputs and 10 outputs, batch 1, one thread. Everything of a part alternates in rounds; ratios
and differences are those of the same round. Each rival has an environment of its own in the folder of --rivals, named
as in rival_servers.RIVALS; one that is not there is a row with a reason. Writes JSON with the machine in it; a part
that is not named keeps its last figures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import large_bodies
import latency
import load
import numpy as np
import servers
from rival_servers import RIVALS, rival
from wire_requests import WireRequest, make_requests, read_reply

from transload.models.signature import Array
from transload.pipeline.drift.sessions import open_session
from transload.pipeline.result.environment import describe_environment
from transload.serving.wire.tensor_proto import decode_all, parse
from transload.serving.wire.tfserving_messages import stock

RESULTS = Path(__file__).resolve().parents[1] / "results" / "serving.json"
NET = """from torch import nn, manual_seed

def mlp():
    manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
"""
RUNTIMES = {"onnx": "onnxruntime", "saved-model": "tensorflow", "tflite": "tflite"}
OURS = {"embedded": servers.embedded, "serve": servers.serve}
SAMPLE = np.random.default_rng(0).normal(size=(1, 20)).astype(np.float32)
ROUNDS = {"latency": 40, "rate": 7, "cold": 3}
RATE_S = 1.0
FORM_S = 10.0  # after it listens, in which a server has to answer a form
# What is compared with what, by the forms of a request.
OIP = ("oip-json", "oip-binary", "oip-grpc")
ROWS = "tfserving-rest"
FORMATS = ("onnx", "saved-model")
ECHOES = {"grpc": "echo grpc", "http": "echo uvicorn"}


def main() -> int:
    """Measure the parts that are named, print, write."""
    parts: dict[str, Callable[[Path, argparse.Namespace], Any]] = {
        "latency": measure_latency, "rate": measure_rates, "cold": measure_cold_starts, "stack": measure_stacks,
        "large": measure_large, "decode": measure_decode,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*parts, []])
    parser.add_argument("--rivals", type=Path, default=Path("rivals"), help="a folder of environments")
    parser.add_argument("--rounds", type=int, help=", ".join(f"{part}: {count}" for part, count in ROUNDS.items()))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end with their `with` blocks
    document = json.loads(options.out.read_text()) if options.out.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        convert(work)
        for part in options.parts or list(parts):
            document[part] = {"load_before": os.getloadavg()[0], "rows": parts[part](work, options)}
            document[part]["load_after"] = os.getloadavg()[0]
            document["environment"] = vars(describe_environment())
            options.out.write_text(json.dumps(document, indent=1, default=str) + "\n")
            print(json.dumps({part: document[part]}, indent=1, default=str))
    return 0


def convert(work: Path) -> None:
    """Convert the model into all formats, in `work`."""
    (work / "net.py").write_text(NET)
    words = ["convert", "net.py:mlp", "--input", "x=float32[batch,20]", "--to", ",".join(RUNTIMES), "--out", "copies"]
    subprocess.run([*servers.TRANSLOAD, *words, "--quiet"], cwd=work, check=True, capture_output=True)


def expected(work: Path) -> Array:
    """Return the ONNX file's answer to the sample."""
    session = open_session("onnxruntime", work / "copies" / "onnx", device="cpu", threads=1)
    (answer,) = session.run({"x": SAMPLE}).values()
    session.close()
    return answer


def check(request: WireRequest, reply: bytes, answer: Array) -> None:
    """Raise ValueError unless a reply holds the answer."""
    if not np.allclose(read_reply(request.shape, reply).ravel(), answer.ravel(), atol=1e-4):
        raise ValueError(f"{request.shape}: {reply!r} is not {answer}")


def measure_latency(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return p50 and its ratio to an echo, for each protocol and format."""
    requests, answer = make_requests(SAMPLE), expected(work)
    references: dict[str, str] = {}
    calls: dict[str, Callable[[], object]] = {}
    with ExitStack() as stack:
        for protocol, port in start_echoes(stack, work).items():
            calls[ECHOES[protocol]] = latency.make_call(echo_request(requests, protocol), port)
        session = open_session("onnxruntime", work / "copies" / "onnx", device="cpu", threads=1)
        stack.callback(session.close)  # TensorFlow's threads would disturb the others
        calls["in process onnx"] = lambda: session.run({"x": SAMPLE})
        for form in FORMATS:
            for name, start in OURS.items():
                ports = stack.enter_context(servers.running(start(work / "copies" / form), work / f"{name}-{form}"))
                for shape, request in requests.items():
                    port = getattr(ports, request.protocol)
                    servers.wait_for(partial(_call_once, request, port))
                    call = latency.make_call(request, port)
                    check(request, call(), answer)
                    calls[f"{name} {form} {shape}"] = call
                    references[f"{name} {form} {shape}"] = ECHOES[request.protocol]
        series = latency.measure(calls, options.rounds or ROUNDS["latency"])
    return [{"name": name, **latency.describe(series[name], series[references.get(name, name)])} for name in calls]


def measure_stacks(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return p50 of an echo on our own connection and on uvicorn, short and long, with the ratio of the two."""
    short = make_requests(SAMPLE)[ROWS]
    bodies = {"short": short, "60 kB": replace(short, body=short.body * (60_000 // len(short.body)))}
    calls: dict[str, Callable[[], object]] = {}
    with ExitStack() as stack:
        for name, command in (("uvicorn", servers.echo("asgi")), ("own", servers.own_echo())):
            port = stack.enter_context(servers.running(command, work / f"echo-{name}")).http
            calls |= {f"{name}, {size}": latency.make_call(request, port) for size, request in bodies.items()}
        series = latency.measure(calls, options.rounds or ROUNDS["latency"])
    return [
        {"name": name, **latency.describe(series[name], series[f"uvicorn, {name.partition(', ')[2]}"])}
        for name in calls
    ]


def _call_once(request: WireRequest, port: int) -> None:
    latency.make_call(request, port)()


def _connect_once(port: int) -> None:
    socket.create_connection(("127.0.0.1", port)).close()


def start_echoes(stack: ExitStack, work: Path) -> dict[str, int]:
    """Start the echoes; return their ports by protocol."""
    return {
        protocol: getattr(stack.enter_context(servers.running(servers.echo(kind), work / f"echo-{kind}")), protocol)
        for protocol, kind in (("grpc", "grpc"), ("http", "asgi"))
    }


def echo_request(requests: Mapping[str, WireRequest], protocol: str) -> WireRequest:
    """Return what an echo is asked."""
    return replace(requests["oip-grpc"], path="/echo.Echo/Echo") if protocol == "grpc" else requests[ROWS]


def measure_rates(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return requests per second of 8 clients, with the paired ratio of ours to each echo and rival."""
    if not load.is_installed():
        return [{"name": "all", "absent": load.NO_CLIENT}]
    requests, answer, onnx = make_requests(SAMPLE), expected(work), work / "copies" / "onnx"
    commands: dict[str, servers.Command | str] = {
        f"{name} {form}": start(work / "copies" / form) for name, start in OURS.items() for form in FORMATS
    }
    ours = list(commands)
    for name in RIVALS:
        commands[name] = rival(name, options.rivals.absolute(), onnx / "model.onnx", work / f"rival-{name}")
    absent = [{"name": name, "absent": command} for name, command in commands.items() if isinstance(command, str)]
    rates: dict[tuple[str, str], list[float]] = {}
    turns: list[tuple[str, WireRequest, int, int]] = []
    with ExitStack() as stack:
        for protocol, port in start_echoes(stack, work).items():
            request = echo_request(requests, protocol)
            reply = latency.make_call(request, port)()
            turns.append((ECHOES[protocol], request, port, len(reply) + 5 * (protocol == "grpc")))
        for name, command in commands.items():
            if isinstance(command, str):
                continue
            ports = stack.enter_context(servers.running(command, work / f"run-{name}"))
            servers.wait_for(partial(_connect_once, ports.http))
            for form in (*OIP, ROWS) if name in ours else (ROWS,) if name == "litserve" else OIP:
                request = requests[form]
                port = getattr(ports, request.protocol)
                try:
                    size = first_reply_bytes(request, port, answer)
                except Exception as error:  # noqa: BLE001  (a rival that does not answer is a row)
                    absent.append({"name": name, "form": form, "absent": f"{type(error).__name__}: {error}"[:200]})
                    continue
                turns.append((name, request, port, size))
        for at in range(options.rounds or ROUNDS["rate"]):
            for name, request, port, size in Random(at).sample(turns, len(turns)):  # noqa: S311
                rate = load.measure_rate(request, port, RATE_S, size, work)
                rates.setdefault((name, request.shape), []).append(rate)
    return [describe_rate(name, form, rates, ours) for name, form in rates] + absent


def first_reply_bytes(request: WireRequest, port: int, answer: Array) -> int:
    """Return the length of a reply, with gRPC's frame, when it holds the answer. Raises the last error otherwise."""
    servers.wait_for(lambda: latency.make_call(request, port)(), FORM_S)  # noqa: PLW0108  (it connects anew)
    reply = latency.make_call(request, port)()
    check(request, reply, answer)
    return len(reply) + 5 * (request.protocol == "grpc")


def describe_rate(
    name: str, form: str, rates: Mapping[tuple[str, str], list[float]], ours: Sequence[str]
) -> dict[str, Any]:
    """Return the row of a server's form. Where it is none of ours, with how many times as many requests ours answer in
    the same rounds; ours of each form beside an echo."""
    values = rates[name, form]
    row: dict[str, Any] = {
        "name": name, "form": form, "requests_per_s": float(np.median(values)), "quartiles": latency.quartiles(values),
    }  # fmt: skip
    if name not in ours:
        forms = [form] if name in RIVALS else [shape for shape in (*OIP, ROWS) if ECHOES[_protocol(shape)] == name]
        for own in ours:
            for shape in forms:
                row[f"ratio of {own} {shape}"] = latency.quartiles(np.divide(rates[own, shape], values))
    return row


def _protocol(shape: str) -> str:
    return "grpc" if shape.endswith("grpc") else "http"


def measure_cold_starts(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the seconds from the command to the first answer over HTTP, formats in turn."""
    request = make_requests(SAMPLE)["tfserving-rest"]
    seconds: dict[str, list[float]] = {form: [] for form in RUNTIMES}
    for at in range(options.rounds or ROUNDS["cold"]):
        for form, values in seconds.items():
            start = time.perf_counter()
            with servers.running(servers.serve(work / "copies" / form), work / f"cold-{form}-{at}") as ports:
                servers.wait_for(partial(_call_once, request, ports.http))
                values.append(time.perf_counter() - start)
    return [
        {"name": form, "median_s": float(np.median(values)), "least_s": min(values), "most_s": max(values)}
        for form, values in seconds.items()
    ]


def measure_large(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:  # noqa: ARG001
    """Return how long others wait beside large bodies."""
    (work / "wide.py").write_text(large_bodies.NET)
    words = ["convert", "wide.py:Twice", "--input", f"x=float32[batch,{large_bodies.WIDTH}]", "--to", "onnx"]
    subprocess.run([*servers.TRANSLOAD, *words, "--out", "wide", "--quiet"], cwd=work, check=True, capture_output=True)
    command, small = large_bodies.command(work / "copies" / "onnx", work / "wide" / "onnx"), make_requests(SAMPLE)
    with servers.running(command, work / "large") as ports:
        servers.wait_for(lambda: latency.make_call(small["oip-grpc"], ports.grpc)())  # noqa: PLW0108  (it connects anew)
        return large_bodies.measure(ports, small["oip-grpc"], work)


def measure_decode(work: Path, options: argparse.Namespace) -> list[dict[str, Any]]:  # noqa: ARG001
    """Return the seconds of parsing and decoding an image of 602 KB, sent as float_val."""
    image = np.random.default_rng(0).normal(size=(1, 224, 224, 3)).astype(np.float32)
    message = stock().PredictRequest()
    tensor = message.inputs["image"]
    tensor.dtype = 1
    for size in image.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.extend(image.ravel().tolist())
    data = message.SerializeToString()
    samples = []
    for _ in range(500):
        start = time.perf_counter()
        array = decode_all(parse(data, "PredictRequest").inputs)["image"]
        samples.append(time.perf_counter() - start)
    assert np.array_equal(array, image)
    return [
        {"name": "float_val 1x224x224x3", "p50_us": 1e6 * float(np.median(samples)), "least_us": 1e6 * min(samples)}
    ]


if __name__ == "__main__":
    sys.exit(main())
