"""Models behind `transload serve`, as a person starts it, and what ONNX Runtime itself answers to the same inputs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.serving.server.tfserving_launch import free_ports

HERE = Path(__file__).parent
_STRINGS = HERE.parent / "contract" / "strings_model.py"
X = [[0.5, -1.0, 2.0, 0.25], [3.0, 0.0, -0.125, 1.0]]
_CONFIG = """
model_config_list {{
  config {{
    name: "m" base_path: "{m}" model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
    version_labels {{ key: "stable" value: 1 }}
  }}
  config {{ name: "scorer" base_path: "{scorer}" }}
  config {{ name: "valuer" base_path: "{valuer}" }}
  config {{ name: "words" base_path: "{words}" }}
}}
"""
_ANSWERS = """
import json, sys
import numpy as np
import onnxruntime
answers = {}
for path in sys.argv[2:]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = session.run(None, {"x": np.array(json.loads(sys.argv[1]), np.float32)})
    answers[path] = {spec.name: array.tolist() for spec, array in zip(session.get_outputs(), outputs)}
print(json.dumps(answers))
"""


def write_model(path: Path, seed: int, widths: Mapping[str, int]) -> Path:
    """Write a model of x = float32[batch, 4] with a linear output of each width."""
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(size=(4, width)).astype(np.float32) for name, width in widths.items()}
    nodes = [helper.make_node("MatMul", ["x", f"w_{name}"], [name]) for name in widths]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]) for name, width in widths.items()
    ]
    constants = [numpy_helper.from_array(array, f"w_{name}") for name, array in weights.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph(nodes, "linear", [x], outputs, constants)
    path.parent.mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


class Served:
    """The ports of the server, the model configuration, and ONNX Runtime's answers to X by model and version."""

    def __init__(self, folder: Path) -> None:
        self.grpc, self.rest = (f"127.0.0.1:{port}" for port in free_ports(2))
        two = {"logits": 3, "total": 1}
        self.models = {
            "m/1": write_model(folder / "m" / "1" / "model.onnx", 1, two),
            "m/2": write_model(folder / "m" / "2" / "model.onnx", 2, two),
            "scorer/1": write_model(folder / "scorer" / "1" / "model.onnx", 3, {"scores": 3}),
            "valuer/1": write_model(folder / "valuer" / "1" / "model.onnx", 4, {"value": 1}),
        }
        _run([sys.executable, str(_STRINGS), str(folder / "words" / "1")])
        self.folder, self.config = folder, folder / "models.config"
        self.config.write_text(_CONFIG.format(**{name: folder / name for name in ("m", "scorer", "valuer", "words")}))
        paths = {str(path): name for name, path in self.models.items()}
        done = _run([sys.executable, "-c", _ANSWERS, json.dumps(X), *paths])
        self.answers = {paths[path]: outputs for path, outputs in json.loads(done).items()}

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        ports = [
            f"--{kind}-port={address.rpartition(':')[2]}"
            for kind, address in (("grpc", self.grpc), ("rest", self.rest))
        ]
        command = [sys.executable, "-P", "-m", "transload", "serve", "--model-config-file", str(self.config), *ports]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while not self._is_ready():
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.1)
        return process

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.rest}/v2/health/ready", timeout=5) as reply:
                return bool(reply.status == 200)
        except (OSError, urllib.error.URLError):
            return False


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("clients")
    server = Served(folder)
    process = server.start(folder)
    yield server
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="session")
def ask(served: Served) -> Callable[[str, str], Mapping[str, Any]]:
    """Let an official client make all its calls in a process of its own; return the result of each by its name.
    tritonclient and kserve register different messages under one name, so that one process holds one of them."""
    results: dict[str, Mapping[str, Any]] = {}

    def run(script: str, package: str) -> Mapping[str, Any]:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
        if script not in results:
            command = [
                sys.executable,
                str(HERE / script),
                served.grpc,
                served.rest,
                json.dumps(X),
                str(served.folder / "{}"),
            ]
            results[script] = json.loads(_run(command).splitlines()[-1])
        return results[script]

    return run
