"""The server that is fuzzed: `transload serve` on two models, what it holds, and requests with a known answer."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import numpy as np
import psutil

from transload.serving.wire.tensor_proto import decode_all, encode
from transload.serving.wire.tfserving_messages import stock

NET = """
import torch


class Scale(torch.nn.Module):
    def forward(self, x):
        return 2.0 * x + x.sum(1, keepdim=True)


class Total(torch.nn.Module):
    def forward(self, x):
        return x.sum(1)


class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 3)

    def forward(self, ids, keep):
        return (self.table(ids) * keep.unsqueeze(-1)).sum(1), ids.clone()
"""
# Name, class, format, inputs.
MODELS = (
    ("m", "Scale", "onnx", ["x=float32[batch,8]"]),
    ("r", "Total", "onnx", ["x=float32[batch,8]"]),
    ("n", "Lookup", "torchscript", ["ids=int64[batch,4]", "keep=bool[batch,4]"]),
)
TRANSLOAD = [sys.executable, "-P", "-m", "transload"]
ANSWER_S = 10.0  # for which a client waits: a later answer is a fault
_MOST_FAULTS = 40
_IDLE_S = 3.0  # until what the last requests held is free


@dataclass
class Outcomes:
    """What came of the requests. A fault is an answer that no request may have, with the request."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def add(self, kind: str, status: str, seconds: float) -> None:
        """Count a request."""
        self.counts[f"{kind}: {status}"] += 1
        self.slowest_s = max(self.slowest_s, seconds)

    def add_fault(self, text: str, request: object) -> None:
        """Keep a fault, unless there are many."""
        self.counts["faults"] += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(f"{text}: {str(request)[:1500]}")

    def merge(self, other: Outcomes) -> None:
        """Add those of another client."""
        self.counts.update(other.counts)
        self.faults += other.faults
        self.slowest_s = max(self.slowest_s, other.slowest_s)

    @property
    def requests(self) -> int:
        """How many requests were counted."""
        return sum(count for name, count in self.counts.items() if name not in {"faults", "valid requests"})


class FuzzedServer:
    """The command as a process, on models that are made for it."""

    def __init__(self, folder: Path) -> None:
        (folder / "net.py").write_text(NET)
        for name, net, target, inputs in MODELS:
            words = ["convert", f"net.py:{net}", "--to", target, "--out", net, "--quiet"]
            for text in inputs:
                words += ["--input", text]
            subprocess.run([*TRANSLOAD, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            shutil.copytree(folder / net / target, folder / name / "1")
        self.folder = folder
        self._stderr = folder / "stderr"
        self.process = subprocess.Popen(
            [*TRANSLOAD, "serve", *(f"{name}={name}" for name, *_ in MODELS), "--grpc-port", "0", "--rest-port", "0"],
            cwd=folder, stdout=subprocess.PIPE, stderr=self._stderr.open("w"), text=True,
        )  # fmt: skip
        assert self.process.stdout
        line = self.process.stdout.readline()
        self.grpc = line.split("gRPC ")[1].split(",")[0]
        self.http = line.split("http://")[1].split("/")[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """End the server; return its exit status."""
        self.process.terminate()
        return self.process.wait(60)

    @property
    def is_alive(self) -> bool:
        """Whether the command runs."""
        return self.process.poll() is None

    @property
    def lines(self) -> list[str]:
        """What the command said on stderr."""
        return self._stderr.read_text().splitlines()

    def memory(self) -> dict[str, int]:
        """Return the resident bytes of the command, of the processes that it started, and their number, at rest."""
        time.sleep(_IDLE_S)
        process = psutil.Process(self.process.pid)
        children = process.children(recursive=True)
        sizes = [child.memory_info().rss for child in children]
        return {"front_bytes": process.memory_info().rss, "models_bytes": sum(sizes), "processes": 1 + len(sizes)}

    def check(self, outcomes: Outcomes) -> None:
        """Ask in three protocols what has a known answer; another one is a fault."""
        for ask in (self._rest, self._oip, self._grpc):
            try:
                answer = ask()
                right = np.allclose(answer, EXPECTED)
            except Exception as error:  # noqa: BLE001  (each is a request without its answer)
                answer, right = repr(error), False
            outcomes.counts["valid requests"] += 1
            if not right:
                outcomes.add_fault(f"valid request over {ask.__name__}: {answer}", "")

    def _rest(self) -> Any:
        return self._post("/v1/models/m:predict", {"instances": X.tolist()})["predictions"]

    def _oip(self) -> Any:
        row = {"name": "x", "datatype": "FP32", "shape": X.shape, "data": X.ravel().tolist()}
        (output,) = self._post("/v2/models/m/infer", {"inputs": [row]})["outputs"]
        return np.reshape(output["data"], output["shape"])

    def _grpc(self) -> Any:
        request = stock().PredictRequest()
        request.model_spec.name = "m"
        encode(X, request.inputs["x"])
        with grpc.insecure_channel(self.grpc) as channel:
            call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
            reply = call(request.SerializeToString(), timeout=ANSWER_S)
        (answer,) = decode_all(stock().PredictResponse.FromString(reply).outputs).values()
        return answer

    def _post(self, path: str, document: Any) -> Any:
        link = http.client.HTTPConnection(self.http, timeout=ANSWER_S)
        link.request("POST", path, json.dumps(document))
        reply = json.loads(link.getresponse().read())
        link.close()
        return reply


X = np.arange(16, dtype=np.float32).reshape(2, 8)
EXPECTED = 2 * X + X.sum(1, keepdims=True)
