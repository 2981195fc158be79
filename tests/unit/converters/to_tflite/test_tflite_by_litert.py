"""The route through litert-torch: the module that it is handed keeps names, order and dynamic axes.

litert-torch itself clashes with this environment (docs/design/litert.md): a stand-in records what it is handed, and
exports it as the real one does. Where TRANSLOAD_PYTHON_LITERT names an environment that has it, it is run as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transload.pipeline.workers.isolation import Spawn, run_alone

STAND_IN = """
import json, torch
__version__ = "0"
class Made:
    def __init__(self, said): self.said = said
    def export(self, path): open(path, "w").write(json.dumps(self.said))
def convert(module, sample_args=None, sample_kwargs=None, *, dynamic_shapes=None, enable_x64=False):
    program = torch.export.export(module.eval(), (), sample_kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    made = program.module()(**{name: each[:2] for name, each in sample_kwargs.items()})
    return Made({"arguments": list(sample_kwargs), "x64": enable_x64,
                 "outputs": {name: list(each.shape) for name, each in made.items()}})
"""
CAPTURE = """
import sys
from pathlib import Path
import torch
from torch import nn
from transload.converters.to_pytorch.pt2_from_source import export
from transload.models.artifact import write_artifact
from transload.models.formats import Target, parse_target
from transload.models.signature import Signature, TensorSpec

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
    def forward(self, image, scale):
        seen = self.conv(image).relu()
        return seen, scale.relu()

axis = 2 if sys.argv[2] == "fixed" else sys.argv[2]
signature = Signature(
    (TensorSpec("image", "float32", (axis, 3, 8, 8)), TensorSpec("scale", "float32", (axis, 1))),
    (TensorSpec("seen", "float32", (axis, 6, 6, 6)), TensorSpec("total", "float32", (axis, 1))),
)
folder = Path(sys.argv[1])
torch.export.save(export(Two().eval(), signature), folder / "model.pt2")
write_artifact(folder, parse_target("pt2"), signature)
"""


def captured(folder: Path, axis: str) -> Path:
    folder.mkdir()
    subprocess.run([sys.executable, "-P", "-c", CAPTURE, str(folder), axis], check=True)
    return folder


def converted(source: Path, place: Path, **spawn: Any) -> dict[str, object]:
    (place / "out").mkdir()
    job = {"inputs": {"source": str(source)}, "out": str(place / "out"), "options": {}, "services": {}}
    entry = "transload.converters.to_tflite.tflite_by_litert:tflite_from_pt2"
    return run_alone(
        entry, job, Spawn(place / "log", place / "cwd", reads=(str(source),), writes=(str(place / "out"),), **spawn)
    )


@pytest.mark.slow
def test_it_is_handed_the_signatures_names_order_and_dynamic_axes(tmp_path):
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "litert_torch.py").write_text(STAND_IN)
    converted(captured(tmp_path / "source", "batch"), tmp_path, sys_path=(str(tmp_path / "user"),))
    said = json.loads((tmp_path / "out" / "model.tflite").read_text())
    assert said == {"arguments": ["image", "scale"], "x64": True, "outputs": {"seen": [2, 6, 6, 6], "total": [2, 1]}}
    assert json.loads((tmp_path / "out" / "artifact.json").read_text())["target"] == "tflite"


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("TRANSLOAD_PYTHON_LITERT"), reason="TRANSLOAD_PYTHON_LITERT names no Python")
def test_the_real_one_gives_a_file_with_those_names(tmp_path):
    from ai_edge_litert.interpreter import Interpreter

    # A fixed axis: most dynamic ones are refused there.
    converted(captured(tmp_path / "source", "fixed"), tmp_path, python=os.environ["TRANSLOAD_PYTHON_LITERT"])
    (signature,) = Interpreter(str(tmp_path / "out" / "model.tflite")).get_signature_list().values()
    assert sorted(signature["inputs"]) == ["image", "scale"]
    assert sorted(signature["outputs"]) == ["seen", "total"]
