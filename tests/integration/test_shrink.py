"""When no route leads to a target, the smallest piece that fails is there as a script, and the script fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transload
from transload.converters.steps import STEPS, Step
from transload.pipeline.commands.convert import ConvertResult

pytestmark = pytest.mark.usefixtures("loaded_once")


def save(path: Path, nodes: list, outputs: list[int | str], weights: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *([3, 6, 7] if "w1" in weights else [7])])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def with_line(node, line: str):
    """A node with the note that torch's exporter leaves."""
    entry = node.metadata_props.add()
    entry.key, entry.value = "pkg.torch.onnx.stack_trace", f'File "/home/me/net.py", line 14, in forward\n    {line}\n'
    return node


def convert(
    model: str, here: Path, steps: list[str], to: str, monkeypatch: pytest.MonkeyPatch, *inputs: str,
    others: tuple[Step, ...] = (),
) -> ConvertResult:  # fmt: skip
    """By some of the steps alone."""
    known = {step.name: step for step in (*STEPS, *others) if step.name in steps}
    monkeypatch.setattr("transload.pipeline.plan.run_plan.KNOWN_STEPS", known)
    return transload.convert(
        model, [to], out=here / "made", store=here / "store", inputs=inputs, jobs=1, search_seconds=500
    )


def run_alone(script: Path, folder: Path) -> str:
    """What the script says, with its own files and nothing else of the run beside it."""
    for file in script.parent.glob(f"{script.stem}.*"):
        if file.is_dir():
            shutil.copytree(file, folder / file.name)
        else:
            shutil.copyfile(file, folder / file.name)
    done = subprocess.run(
        [sys.executable, "-P", folder / script.name], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout
    return done.stderr


WRONG_TOOL = """
import shutil
from dataclasses import replace
from pathlib import Path
import onnx
from transload.converters.to_saved_model.saved_model_from_onnx import saved_model_from_onnx
from transload.models.artifact import read_artifact

def without_corners(job):
    # Reads the corners of a Resize as half pixels, and says nothing.
    source, changed = read_artifact(job.inputs["source"]), Path("changed")
    shutil.copytree(source.folder, changed)
    model = onnx.load(source.path)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.s == b"align_corners":
                attribute.s = b"half_pixel"
    onnx.save(model, changed / source.path.name)
    return saved_model_from_onnx(replace(job, inputs={"source": changed}))
"""


@pytest.mark.slow  # the converter is tried five times
def test_the_operator_that_a_converter_gets_wrong_is_found_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnx import helper

    (tmp_path / "wrong_tool.py").write_text(WRONG_TOOL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("transload.pipeline.workers.isolation.package_folders", lambda: (str(tmp_path),))
    row = next(step for step in STEPS if step.name == "lowering")
    step = replace(row, name="wrong-tool", entry="wrong_tool:without_corners", package="wrong-tool 1.0")
    line = "x = F.interpolate(x, scale_factor=(2, 3), mode='bilinear', align_corners=True)"
    corners = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["b"], "first", pads=[1, 1, 1, 1]),
        with_line(helper.make_node("Resize", ["b", "", "scales"], ["c"], "grow", **corners), line),
        helper.make_node("GlobalAveragePool", ["c"], ["e"], "pool"),
        helper.make_node("Flatten", ["e"], ["y"], "flat"),
    ]
    weights = {"w1": normal(4, 3, 3, 3), "scales": np.asarray([1, 1, 2, 3], np.float32)}
    save(tmp_path / "net.onnx", nodes, ["batch", 4], weights)
    done = convert(str(tmp_path / "net.onnx"), tmp_path, ["wrong-tool"], "saved-model", monkeypatch, others=(step,))
    assert done.decided[1] == 1
    (found,) = done.smallest
    assert (found.target, found.route, found.operators) == ("saved-model", ("wrong-tool",), 1)
    assert found.message.startswith(
        f"wrong-tool fails at the operator Resize (grow), from net.py:14 (`{line}`): agrees to "
    )
    assert found.fix.startswith("write that line in other operators, or send the script")
    assert done.document["smallest"][0]["script"] == found.script == "repeat/smallest.saved-model.wrong-tool.py"
    (tmp_path / "alone").mkdir()
    assert "AssertionError: c.flat: off by up to " in run_alone(done.folder / found.script, tmp_path / "alone")


@pytest.mark.slow
def test_an_operator_that_no_route_takes_is_cut_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx import TensorProto, helper

    counts: dict[str, Any] = {
        "mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0],
        "ngram_indexes": [0, 2, 1], "pool_int64s": [0, 1, 2], "weights": [1.0, 2.0, 3.0],
    }  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], "relu"),
        helper.make_node("Cast", ["a"], ["b"], "cast", to=TensorProto.INT64),
        helper.make_node("TfIdfVectorizer", ["b"], ["c"], "count", **counts),
        helper.make_node("MatMul", ["c", "w"], ["y"], "head"),
    ]
    save(tmp_path / "net.onnx", nodes, ["batch", 5], {"w": normal(3, 5)})
    steps = ["lowering", "lowering-tflite", "tflite"]
    done = convert(str(tmp_path / "net.onnx"), tmp_path, steps, "tflite", monkeypatch)
    assert done.decided[1] == 4
    (found,) = done.smallest
    assert found.route == ("lowering-tflite",)
    assert found.operators == 1
    assert found.message.startswith("lowering-tflite fails at the operator TfIdfVectorizer (count): ")
    (tmp_path / "alone").mkdir()
    said = run_alone(done.folder / found.script, tmp_path / "alone")
    assert "TfIdfVectorizer" in said.splitlines()[-2]
    assert "Refused: " in said


NET = """
import torch

class Gate(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum().item() > 0 else x - 1

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Sequential(Gate(), torch.nn.ReLU()))
        self.head = torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.body(x))
"""


@pytest.mark.slow
def test_the_module_that_cannot_be_exported_is_found_inside_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    done = convert("net.py:Net", tmp_path, ["torch.export"], "pt2", monkeypatch, "x=float32[batch,7]")
    assert done.artifacts[0].path is None
    (found,) = done.smallest
    assert (found.target, found.route, found.operators) == ("pt2", ("torch.export",), None)
    assert found.message.startswith("torch.export fails at the module body.1.0 (Gate, net.py:4): ")
    assert found.fix == "compute both and choose with torch.where, or write the branch as torch.cond"
    said = run_alone(done.folder / found.script, tmp_path / "made")
    assert 'net.py", line 6, in forward' in said


@pytest.mark.slow
def test_the_operator_that_an_exported_program_cannot_be_carried_by_is_cut_out_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(7, 5), torch.nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.special.bessel_j0(torch.relu(self.first(x))))

    axes = ({0: torch.export.Dim.DYNAMIC},)
    made = torch.export.export(Net().eval(), (torch.randn(3, 7),), dynamic_shapes=axes)
    torch.export.save(made, tmp_path / "net.pt2")
    done = convert(str(tmp_path / "net.pt2"), tmp_path, ["torch.export", "torch.onnx-dynamo"], "onnx", monkeypatch)
    assert done.decided[1] == 4
    (found,) = done.smallest
    assert (found.target, found.route, found.operators) == ("onnx", ("torch.onnx-dynamo",), 1)
    assert found.message.startswith(
        "torch.onnx-dynamo fails at the operator aten.special_bessel_j0.default (special_bessel_j0), from "
        "test_shrink.py:"
    )
    text = (done.folder / found.script).read_text()
    assert "transload" not in text, "a report to PyTorch needs PyTorch and ONNX alone"
    (tmp_path / "alone").mkdir()
    said = run_alone(done.folder / found.script, tmp_path / "alone")
    assert "No ONNX function found for <OpOverload(op='prims.bessel_j0'" in said
    assert "torch.onnx._internal.exporter._errors.ConversionError" in said
