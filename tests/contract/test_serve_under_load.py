"""`transload serve` as a process, eight clients that ask without a pause, and signals: no answer is lost or wrong."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import psutil
import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from transload import bench
from transload.models.artifact import read_artifact
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.measure.bench.tuned_settings import DEFAULTS, keep_settings, place_of
from transload.serving.clients import tfserving_grpc_client
from transload.serving.runtimes.runtime_table import RUNTIMES
from transload.serving.runtimes.tuning_file import BatchInBound
from transload.serving.wire.tensor_proto import decode_all, encode
from transload.serving.wire.tfserving_messages import stock

STOPPING = "the server is shutting down"
DOUBLE = Signature(
    (TensorSpec("x", "float32", ("batch", 3)),),
    tuple(TensorSpec(name, "float32", ("batch", 3)) for name in "yz"),
)


class Server:
    """The command as a process, and where it listens."""

    def __init__(self, folder: Path, *options: str) -> None:
        argv = [sys.executable, "-P", "-m", "transload", "serve", str(folder), "--name", "m"]
        argv += ["--grpc-port", "0", "--rest-port", "0", *options]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.title = line = self.process.stdout.readline()
        assert "gRPC " in line, line
        self.grpc = line.split("gRPC ")[1].split(",")[0]
        self.rest = line.split("http://")[1].split("/")[0]

    def next_warning(self) -> str:
        assert self.process.stderr
        line = self.process.stderr.readline()
        return line or f"ended with {self.process.wait(60)}"

    def kill_worker(self) -> None:
        (worker,) = psutil.Process(self.process.pid).children()
        worker.kill()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    server = Server(folder, *options)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.communicate()


class Clients:
    """Four clients of each protocol, on connections that they keep. Each outcome is "answered" or an error's text."""

    def __init__(self, server: Server, feeds: dict[str, Any], expected: dict[str, Any], *, until_error: bool) -> None:
        self.outcomes: Counter[str] = Counter()
        self.early: list[str] = []  # errors of requests that were sent before the signal
        self.signal_time = float("inf")
        self._server, self._expected, self._until_error = server, expected, until_error
        self._stop = threading.Event()
        message = stock().PredictRequest()
        message.model_spec.name = "m"
        for name, value in feeds.items():
            encode(value, message.inputs[name])
        self._message = message.SerializeToString()
        self._body = json.dumps({"inputs": {name: value.tolist() for name, value in feeds.items()}})
        self._threads = [threading.Thread(target=act) for act in (self._ask_grpc, self._ask_rest) * 4]
        for thread in self._threads:
            thread.start()

    def wait_for_answers(self, count: int) -> None:
        wanted = self.outcomes["answered"] + count
        end = time.monotonic() + 60
        while self.outcomes["answered"] < wanted:
            assert time.monotonic() < end, self.outcomes
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask_grpc(self) -> None:
        with grpc.insecure_channel(self._server.grpc, [("grpc.max_reconnect_backoff_ms", 200)]) as channel:
            call = channel.unary_unary(
                "/tensorflow.serving.PredictionService/Predict", None, stock().PredictResponse.FromString
            )

            def ask() -> str:
                try:
                    outputs = decode_all(call(self._message, timeout=60).outputs)
                except grpc.RpcError as error:
                    refused = error.details() == STOPPING
                    return f"{error.code().name}, {STOPPING}" if refused else error.code().name
                return self._compare(outputs)

            self._repeat(ask)

    def _ask_rest(self) -> None:
        connection = http.client.HTTPConnection(self._server.rest, timeout=60)

        def ask() -> str:
            try:
                connection.request("POST", "/v1/models/m:predict", self._body)
                reply = connection.getresponse()
                document = json.loads(reply.read())
            except (OSError, http.client.HTTPException):
                connection.close()
                return "broken"
            return self._compare(document["outputs"]) if reply.status == 200 else f"{reply.status}, {document['error']}"

        self._repeat(ask)
        connection.close()

    def _compare(self, outputs: Any) -> str:
        same = all(np.allclose(outputs[name], value, equal_nan=True) for name, value in self._expected.items())
        return "answered" if same and len(outputs) == len(self._expected) else "wrong"

    def _repeat(self, ask: Callable[[], str]) -> None:
        while not self._stop.is_set():
            start = time.monotonic()
            outcome = ask()
            self.outcomes[outcome] += 1
            if outcome != "answered":
                if start < self.signal_time:
                    self.early.append(outcome)
                if self._until_error:
                    return
                time.sleep(0.02)


@pytest.mark.parametrize("tries", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_sigterm_loses_no_answer(tries: int, artifact: Callable[[str], Path], contract: Any) -> None:
    feeds = contract.feeds_of(2)
    for _ in range(tries):
        with serving(artifact("onnx")) as server:
            clients = Clients(server, feeds, contract.answers_to(feeds), until_error=True)
            clients.wait_for_answers(100)
            clients.signal_time = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(60) == 0
            clients.stop()
            assert clients.early == []
            assert {f"UNAVAILABLE, {STOPPING}", f"503, {STOPPING}"} <= set(clients.outcomes)
            assert clients.outcomes["wrong"] == 0
            assert server.next_warning() == "ended with 0"


def write_double(model: Path) -> None:
    """Write the model of DOUBLE: y = 2 x, z = |x|."""
    tensors = [make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xyz"]
    graph = make_graph(
        [make_node("Add", ["x", "x"], ["y"]), make_node("Abs", ["x"], ["z"])], "double", tensors[:1], tensors[1:]
    )
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 18)], ir_version=10), model)


def test_a_large_body_is_read_in_the_process_of_the_model(tmp_path: Path) -> None:
    """The listener answers others meanwhile. Its seconds of processor time tell, however busy the machine is."""
    write_double(tmp_path / "model.onnx")
    x = np.random.default_rng(0).random((200_000, 3))
    with serving(tmp_path / "model.onnx") as server:
        listener = psutil.Process(server.process.pid)
        model = max(listener.children(recursive=True), key=lambda process: process.memory_info().rss)
        before = [sum(process.cpu_times()[:2]) for process in (listener, model)]
        connection = http.client.HTTPConnection(server.rest, timeout=60)
        for path, document, key in (
            ("/v1/models/m:predict", {"instances": x.tolist()}, "predictions"),
            ("/v2/models/m/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": x.shape, "data": x.tolist()}],
                                    "outputs": [{"name": "y"}]}, "outputs"),
        ):  # fmt: skip
            connection.request("POST", path, json.dumps(document))
            rows = json.loads(connection.getresponse().read())[key]
            y = rows[0]["data"] if key == "outputs" else [row["y"] for row in rows]
            np.testing.assert_allclose(np.reshape(y, x.shape), 2 * x, rtol=1e-6)
        connection.request("POST", "/v1/models/m:predict", json.dumps({"instances": [["x"] * 3] * 100_000}))
        reply = connection.getresponse()
        assert (reply.status, b"not of expected type" in reply.read()) == (400, True)
        after = [sum(process.cpu_times()[:2]) for process in (listener, model)]
        connection.close()
        listener_s, model_s = np.subtract(after, before)
        assert model_s > listener_s


def test_requests_are_gathered_up_to_the_batch_of_the_latency_bound(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    write_double(model)
    bound = BatchInBound(bound_s=0.01, batch=4, p99_s=0.009, throughput_per_s=2e3)
    keep_settings(model, place_of(model, RUNTIMES["onnxruntime"], "cpu"), DEFAULTS, 1, bound)
    two, twenty = np.ones((2, 3), np.float32), np.arange(60, dtype=np.float32).reshape(20, 3)
    with serving(model, "--enable-batching") as server:
        assert "(onnxruntime, cpu, batches of up to 4)" in server.title
        clients = Clients(server, {"x": two}, {"y": two * 2, "z": two}, until_error=False)
        session = tfserving_grpc_client.open_session(server.grpc, "m", DOUBLE)
        try:
            for _ in range(5):  # each has more rows than a batch
                np.testing.assert_array_equal(session.run({"x": twenty})["y"], twenty * 2)
            clients.wait_for_answers(100)
        finally:
            session.close()
            clients.stop()
        assert set(clients.outcomes) == {"answered"}
    with serving(model) as server:  # nobody asked for batches
        assert "(onnxruntime, cpu)" in server.title


def test_a_death_under_load_gives_errors_and_no_wrong_answer(artifact: Callable[[str], Path], contract: Any) -> None:
    feeds = contract.feeds_of(2)
    with serving(artifact("onnx")) as server:
        clients = Clients(server, feeds, contract.answers_to(feeds), until_error=False)
        try:
            for _ in range(2):
                clients.wait_for_answers(100)
                server.kill_worker()
                assert "the worker was killed by SIGKILL" in server.next_warning()
                assert "answers again" in server.next_warning()
            clients.wait_for_answers(100)
        finally:
            clients.stop()
        ended = "503, the process of the model m ended, and is started again"
        assert set(clients.outcomes) == {"answered", "UNAVAILABLE", ended}


def test_of_two_instances_one_answers_while_the_other_is_started_again(
    artifact: Callable[[str], Path], contract: Any
) -> None:
    feeds = contract.feeds_of(2)
    with serving(artifact("onnx"), "--instances", "2") as server:
        clients = Clients(server, feeds, contract.answers_to(feeds), until_error=False)
        try:
            for _ in range(2):
                clients.wait_for_answers(100)
                psutil.Process(server.process.pid).children()[0].kill()
                assert "the worker was killed by SIGKILL" in server.next_warning()
                assert "answers again" in server.next_warning()
            clients.wait_for_answers(100)
        finally:
            clients.stop()
        failed = sum(count for outcome, count in clients.outcomes.items() if outcome != "answered")
        assert clients.outcomes["wrong"] == 0
        assert failed <= 2 * 8  # what each client had asked the one that died


def test_a_running_server_is_measured_and_validated(
    artifact: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transload serve` stands in for a TF Serving that somebody else has started."""
    monkeypatch.chdir(tmp_path)
    folder = artifact("saved-model")
    with serving(folder) as server:
        url = f"{server.grpc},{server.rest.partition(':')[2]}"
        measured = bench(
            folder, runtimes=["tfserving-grpc", "tfserving-rest"], rounds=3, processes=1, budget_s=0,
            batches=[2], tfserving_url=url, tfserving_model="m", store="store",
        )  # fmt: skip
    assert [(row.runtime, row.server) for row in measured.latency] == [
        ("tfserving-grpc", "remote"),
        ("tfserving-rest", "remote"),
    ]
    assert all(row.p50_s for row in measured.latency)


def test_a_model_without_a_record_is_served(artifact: Callable[[str], Path], contract: Any, tmp_path: Path) -> None:
    """In a folder of its version, as in Triton's layout: 3/model.onnx."""
    payload = read_artifact(artifact("onnx")).path
    (tmp_path / "3").mkdir()
    shutil.copyfile(payload, tmp_path / "3" / payload.name)
    feeds = contract.feeds_of(2)
    with serving(tmp_path) as server:
        session = tfserving_grpc_client.open_session(server.grpc, "m", read_artifact(artifact("onnx")).signature, 20)
        contract.same(session.run(feeds), contract.answers_to(feeds))
        session.close()


def test_torchscript_is_served_with_the_inputs_that_are_named(
    artifact: Callable[[str], Path], contract: Any, tmp_path: Path
) -> None:
    record = read_artifact(artifact("torchscript"))
    shutil.copyfile(record.path, tmp_path / "model.pt")
    named = [word for spec in record.signature.inputs for word in ("--input", str(spec))]
    feeds = contract.feeds_of(2)
    message = stock().PredictRequest()
    message.model_spec.name = "m"
    for name, value in feeds.items():
        encode(value, message.inputs[name])
    with serving(tmp_path / "model.pt", *named) as server, grpc.insecure_channel(server.grpc) as channel:
        predict = channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict", None, stock().PredictResponse.FromString
        )
        answers = decode_all(predict(message.SerializeToString(), timeout=60).outputs)
    for wanted in contract.answers_to(feeds).values():  # TorchScript does not keep the names of outputs
        assert any(value.shape == wanted.shape and np.allclose(value, wanted, atol=1e-6) for value in answers.values())
