"""The servers that ours is measured beside, over the same ONNX file: each in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from servers import Command, Ports

from transload.serving.server.tfserving_launch import free_ports

HERE = Path(__file__).resolve().parent
RIVALS = {  # by the name of the environment's folder: what is installed there
    "mlserver": "mlserver==1.7.1 onnxruntime",
    "kserve": "kserve==0.21.0 onnxruntime",
    "litserve": "torch==2.13.0 litserve==0.2.19 onnxruntime",
    "triton": "nvidia-pytriton==0.7.0 onnxruntime",
}
CONFIG = """name: "model"
backend: "python"
max_batch_size: 0
input [{ name: "x" data_type: TYPE_FP32 dims: [ -1, 20 ] }]
output [{ name: "y" data_type: TYPE_FP32 dims: [ -1, 10 ] }]
instance_group [{ count: 1 kind: KIND_CPU }]
"""


def rival(name: str, folder: Path, onnx: Path, work: Path) -> Command | str:
    """Return a rival's server over an ONNX file, or why there is none."""
    programs = folder / name / "bin"
    if not programs.is_dir():
        return f"not installed: make an environment {name} in the folder of --rivals, with {RIVALS[name]}"
    grpc_port, http_port, other = free_ports(3)
    ports = Ports(grpc_port, http_port)
    python = str(programs / "python")
    if name == "kserve":
        words = [python, str(HERE / "rivals" / "kserve_server.py"), str(onnx), str(http_port), str(grpc_port)]
        return Command(words, ports)
    if name == "litserve":
        return Command([python, str(HERE / "rivals" / "litserve_server.py"), str(onnx), str(http_port)], ports)
    work.mkdir(parents=True)
    if name == "mlserver":
        settings = {
            "host": "127.0.0.1", "http_port": http_port, "grpc_port": grpc_port, "metrics_port": other,
            "parallel_workers": 0, "debug": False, "logging_settings": None,
        }  # fmt: skip
        model = {"name": "model", "implementation": "mlserver_model.OnnxModel", "parameters": {"uri": str(onnx)}}
        (work / "settings.json").write_text(json.dumps(settings))
        (work / "model-settings.json").write_text(json.dumps(model))
        shutil.copy(HERE / "rivals" / "mlserver_model.py", work)
        return Command([str(programs / "mlserver"), "start", str(work)], ports, {"PYTHONPATH": str(work)})
    return _triton(folder / name, onnx, work, ports)


def _triton(environment: Path, onnx: Path, work: Path, ports: Ports) -> Command:
    """Return Triton's server, whose Python backend loads the environment's packages."""
    (packages,) = (environment / "lib").glob("python3*/site-packages")
    server = packages / "pytriton" / "tritonserver"
    shutil.copytree(server / "backends", work / "backends")
    stub = server / "python_backend_stubs" / packages.parent.name.removeprefix("python") / "triton_python_backend_stub"
    shutil.copy(stub, work / "backends" / "python")
    version = work / "models" / "model" / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(CONFIG)
    shutil.copy(HERE / "rivals" / "triton_model.py", version / "model.py")
    shutil.copy(onnx, version / "model.onnx")
    words = [
        str(server / "bin" / "tritonserver"), f"--model-repository={work / 'models'}",
        f"--backend-directory={work / 'backends'}", f"--http-port={ports.http}", f"--grpc-port={ports.grpc}",
        "--allow-metrics=false", "--log-info=false", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1",
    ]  # fmt: skip
    paths = {
        "PYTHONPATH": str(packages),
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{packages / 'nvidia_pytriton.libs'}:{Path(sys.base_prefix) / 'lib'}",
    }
    return Command(words, ports, paths)
