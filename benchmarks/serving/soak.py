"""Leave `transload serve` running under load, and do to it what operations do: switch versions, kill runtime processes.

    python benchmarks/serving/soak.py [--minutes 10] [--clients 8] [--seed 0] [--out FILE.json]

Two models: `m` in ONNX with two versions, of which the second answers otherwise, and `n` as a SavedModel. Clients ask
in TF Serving's REST and gRPC and in the Open Inference Protocol over HTTP; a fifth of the requests is invalid. Each
answer is compared with what PyTorch computes. Every few seconds the version of `m` is switched by a reload request, and
every 30 s the process of a model is killed. Exit status 1 where a request had no answer or a wrong one, where it was
refused though no process had been killed, or where memory, handles or processes grow after the first minute.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
os.environ["PYTHONPATH"] = str(ROOT / "typings")
sys.path.insert(0, str(ROOT / "typings"))

import grpc  # noqa: E402
import numpy as np  # noqa: E402
import psutil  # noqa: E402

from transload.serving.wire.tensor_proto import decode_all, encode  # noqa: E402
from transload.serving.wire.tfserving_messages import stock  # noqa: E402

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor + x.sum(1, keepdim=True)

class Double(Net):
    def __init__(self):
        super().__init__(2.0)
"""
TRANSLOAD = [sys.executable, "-P", "-m", "transload"]
# After a kill, in which requests for that model may be refused: TensorFlow takes long to load, longer beside others.
RESTART_S = 20.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
SWITCH_S, KILL_S, SAMPLE_S = 7.0, 30.0, 5.0
GROWTH = 1.1  # of memory, after the first minute
STEADY_S = 60.0


class Server:
    """The command as a process, on models that are made for it."""

    def __init__(self, folder: Path) -> None:
        (folder / "net.py").write_text(NET)
        self.base = folder / "m"
        for net, target, place in (("Net", "onnx", "m/1"), ("Double", "onnx", "m/2"), ("Net", "saved-model", "n")):
            words = [
                "convert",
                f"net.py:{net}",
                "--input",
                "x=float32[batch,8]",
                "--to",
                target,
                "--out",
                f"{net}-{target}",
            ]
            subprocess.run([*TRANSLOAD, *words, "--quiet"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            shutil.copytree(folder / f"{net}-{target}" / target, folder / place)
        self.other = folder / "n"
        self.process = subprocess.Popen(
            [*TRANSLOAD, "serve", "m=m", "n=n", "--grpc-port", "0", "--rest-port", "0"],
            cwd=folder, stdout=subprocess.PIPE, stderr=(folder / "stderr").open("w"), text=True,
        )  # fmt: skip
        assert self.process.stdout
        line = self.process.stdout.readline()
        self.grpc = line.split("gRPC ")[1].split(",")[0]
        self.rest = line.split("http://")[1].split("/")[0]

    def switch_to(self, version: int) -> None:
        """Serve this version of `m`, and wait until it answers."""
        request = stock().ReloadConfigRequest()
        for name, base in (("m", self.base), ("n", self.other)):
            config = request.config.model_config_list.config.add(name=name, base_path=str(base))
            if name == "m":
                config.model_version_policy.specific.versions.append(version)
        with grpc.insecure_channel(self.grpc) as channel:
            call = channel.unary_unary("/tensorflow.serving.ModelService/HandleReloadConfigRequest")
            call(request.SerializeToString(), timeout=60)

    def sample(self) -> dict[str, int]:
        """Return what the server holds: resident bytes of the command and of all, handles, threads, processes."""
        process = psutil.Process(self.process.pid)
        children = process.children(recursive=True)
        total = 0
        for child in children:
            try:
                total += child.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        own = process.memory_info().rss
        return {
            "rss_bytes": own, "all_rss_bytes": own + total, "handles": process.num_fds(),
            "threads": process.num_threads(), "processes": len(children),
        }  # fmt: skip


class Soak:
    """The clients, what happened to them, and what they may be refused for."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.stop = threading.Event()
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self.latencies: dict[bool, list[float]] = {False: [], True: []}  # of `m` over REST, while a switch is under way
        self.is_switching = False
        self.killed_s = -1e9
        self._lock = threading.Lock()
        self._seed = seed

    def client(self, number: int) -> None:
        """Ask until the end, in one of the protocols."""
        rng = random.Random(self._seed * 1000 + number)  # noqa: S311
        ask = (self._rest, self._grpc, self._oip)[number % 3](rng)
        while not self.stop.is_set():
            model, batch = rng.choice("mn"), rng.randint(1, 4)
            x = np.array([[rng.uniform(-1, 1) for _ in range(8)] for _ in range(batch)], np.float32)
            invalid = rng.random() < 0.2
            start, was_switching = time.monotonic(), self.is_switching
            try:
                status, answer = ask(model, x, invalid)
            except Exception as error:  # noqa: BLE001  (each is a request without an answer)
                status, answer = f"lost: {error!r}"[:200], None
            end = time.monotonic()
            self._judge(model, x, status, answer, start, invalid=invalid)
            # TensorFlow takes a core for seconds when its process is started again: no switch is to blame for that.
            if model == "m" and number % 3 == 0 and not invalid and start - self.killed_s > RESTART_S:
                self.latencies[was_switching or self.is_switching].append(end - start)

    def _judge(self, model: str, x: Any, status: str, answer: Any, start: float, *, invalid: bool) -> None:
        if invalid:
            outcome = "refused" if status == "invalid" else f"invalid request: {status}"
        elif status == "ok":
            factors = (1.0, 2.0) if model == "m" else (1.0,)
            right = [x * np.float32(factor) + x.sum(1, keepdims=True) for factor in factors]
            outcome = "right" if any(np.allclose(answer, each, atol=1e-5) for each in right) else "wrong answer"
        else:
            outcome = status
        is_fault = outcome not in {"refused", "right"}
        if is_fault and "unavailable" in status and start - self.killed_s < RESTART_S:
            outcome, is_fault = "unavailable after a kill", False
        with self._lock:
            self.outcomes[outcome] += 1
            if is_fault and len(self.faults) < 20:
                self.faults.append(f"{time.monotonic() - self.killed_s:.2f} s after a kill: {model}: {outcome}")

    def _rest(self, rng: random.Random) -> Callable[..., tuple[str, Any]]:
        link = http.client.HTTPConnection(self.server.rest, timeout=30)
        bodies = ['{"instances": [[1, 2]]}', "{", '{"inputs": "x"}', '{"instances": ' + "[" * 2000]

        def ask(model: str, x: Any, invalid: bool) -> tuple[str, Any]:
            body = rng.choice(bodies) if invalid else json.dumps({"inputs": x.tolist()})
            return _http(link, f"/v1/models/{model}:predict", body, lambda document: document["outputs"])

        return ask

    def _oip(self, rng: random.Random) -> Callable[..., tuple[str, Any]]:
        link = http.client.HTTPConnection(self.server.rest, timeout=30)

        def ask(model: str, x: Any, invalid: bool) -> tuple[str, Any]:
            shape = [*x.shape[:1], 9] if invalid else list(x.shape)
            row = {"name": "x", "datatype": "FP32", "shape": shape, "data": x.ravel().tolist()}
            if invalid and rng.random() < 0.5:
                row = {"name": "x", "datatype": "FP99", "shape": [1 << 40], "data": []}
            return _http(
                link, f"/v2/models/{model}/infer", json.dumps({"inputs": [row]}),
                lambda document: np.reshape(document["outputs"][0]["data"], document["outputs"][0]["shape"]),
            )  # fmt: skip

        return ask

    def _grpc(self, rng: random.Random) -> Callable[..., tuple[str, Any]]:
        channel = grpc.insecure_channel(self.server.grpc)
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")

        def ask(model: str, x: Any, invalid: bool) -> tuple[str, Any]:
            message = stock().PredictRequest()
            message.model_spec.name = model
            encode(x, message.inputs["x"])
            if invalid:
                message.inputs["x"].tensor_shape.dim[0].size = rng.choice([-1, 7, 1 << 40])
            try:
                reply = call(b"\xff\xff" if invalid and rng.random() < 0.3 else message.SerializeToString(), timeout=30)
            except grpc.RpcError as error:
                name = error.code().name
                known = {"INVALID_ARGUMENT": "invalid", "RESOURCE_EXHAUSTED": "invalid"}
                return known.get(name, f"{name.lower()}: {error.details()}"), None
            (outputs,) = decode_all(stock().PredictResponse.FromString(reply).outputs).values()
            return "ok", outputs

        return ask


def _http(link: http.client.HTTPConnection, path: str, body: str, read: Callable[[Any], Any]) -> tuple[str, Any]:
    try:
        link.request("POST", path, body)
        reply = link.getresponse()
        data = reply.read()
    except BaseException:
        link.close()
        raise
    if reply.status == 200:
        return "ok", read(json.loads(data))
    if 400 <= reply.status < 500 and reply.status != 404:
        return "invalid", None
    return ("unavailable: " if reply.status == 503 else f"{reply.status}: ") + data[:120].decode(errors="replace"), None


def operate(soak: Soak, seconds: float, rng: random.Random) -> list[dict[str, float]]:
    """Switch versions and kill processes for a while; return samples of what the server holds."""
    server, start, version = soak.server, time.monotonic(), 2
    next_switch, next_kill, next_sample = SWITCH_S, KILL_S, 0.0
    samples: list[dict[str, float]] = []
    while (now := time.monotonic() - start) < seconds:
        if now >= next_sample:
            samples.append({"seconds": round(now, 1), **server.sample()})
            next_sample += SAMPLE_S
        if now >= next_kill:
            children = psutil.Process(server.process.pid).children()
            soak.killed_s = time.monotonic()
            rng.choice(children).kill()
            next_kill += KILL_S
        if now >= next_switch:
            version = 3 - version
            soak.is_switching = True
            try:
                server.switch_to(version)
            except grpc.RpcError as error:
                soak.faults.append(f"switch to {version}: {error.code().name}: {error.details()}")
            soak.is_switching = False
            next_switch += SWITCH_S
        time.sleep(0.05)
    return samples


def growth(samples: list[dict[str, float]]) -> dict[str, list[float]]:
    """Return the medians of the minute after the first, and of the last minute, of all that is held."""
    last = samples[-1]["seconds"]
    early = [row for row in samples if STEADY_S <= row["seconds"] < 2 * STEADY_S]
    late = [row for row in samples if row["seconds"] > last - STEADY_S]
    names = [name for name in samples[0] if name != "seconds"]
    return {name: [float(np.median([row[name] for row in rows])) for rows in (early, late)] for name in names}


def main() -> int:
    """Soak, print and write what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server ends with us
    with tempfile.TemporaryDirectory() as name:
        server = Server(Path(name))
        soak = Soak(server, options.seed)
        threads = [threading.Thread(target=soak.client, args=(number,)) for number in range(options.clients)]
        for thread in threads:
            thread.start()
        try:
            samples = operate(soak, 60 * options.minutes, random.Random(options.seed))  # noqa: S311
        finally:
            soak.stop.set()
            for thread in threads:
                thread.join()
            server.process.terminate()
            status = server.process.wait(60)
        said = Counter(line.split(":")[0] for line in (Path(name) / "stderr").read_text().splitlines())
    grown = growth(samples)
    grows = [key for key, (early, late) in grown.items() if late > early * GROWTH]
    percentiles = {
        "during switches" if switching else "else": {
            f"p{percent}_ms": round(1e3 * float(np.percentile(values, percent)), 2) for percent in (50, 99)
        }
        for switching, values in soak.latencies.items()
        if values
    }
    result = {
        "minutes": options.minutes, "clients": options.clients, "seed": options.seed,
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
        "outcomes": dict(soak.outcomes), "faults": soak.faults, "exit_status": status, "warnings": dict(said),
        "held (second minute, last minute)": grown, "grows": grows, "REST latency of m": percentiles,
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return int(bool(soak.faults or grows or status))


if __name__ == "__main__":
    sys.exit(main())
