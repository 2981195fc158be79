"""A step that is wrong at another size alone: a sample of that size is in the script, and the script fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.artifact import write_artifact
from transload.models.dataset import TEST, Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, parse_input
from transload.models.sources import CodeRef, Source, write_source
from transload.pipeline.drift.reference import answer
from transload.pipeline.minimal_repro.piece_search import (
    find_graph_piece,
    find_module,
    find_program_piece,
    recorded_calls,
)

TIME = 5  # of the data, and the size that the broken steps take for a constant
SIGNATURE = Signature((parse_input("x=float32[batch,time,3]"),), (parse_input("y=float32[batch,3]"),))

BROKEN = """
import warnings
import onnx
import torch
from onnx import helper, numpy_helper
import numpy as np
from transload.models.artifact import read_artifact, write_artifact
from transload.models.formats import parse_target
from transload.models.exported_program import load_program
from transload.models.loading.build import build_model
from transload.models.sources import read_source


def mean_of_five(job):
    '''ONNX to ONNX: a mean as a sum over five.'''
    source = read_artifact(job.inputs["source"])
    model = onnx.load(source.path)
    for node in model.graph.node:
        if node.op_type == "ReduceMean":
            node.op_type, made = "ReduceSum", node.output[0]
            node.output[0] = made + "_sum"
            model.graph.initializer.append(numpy_helper.from_array(np.float32([5]), made + "_count"))
            model.graph.node.append(helper.make_node("Div", [made + "_sum", made + "_count"], [made]))
    order = ["Relu", "ReduceSum", "Div", "Neg"]
    nodes = sorted(model.graph.node, key=lambda node: order.index(node.op_type))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, job.out / "model.onnx")
    write_artifact(job.out, parse_target("onnx"), source.signature)
    return {}


def traced(module, signature, out):
    given = tuple(torch.randn([3 if axis == "batch" else 5 if isinstance(axis, str) else axis for axis in spec.shape])
                  for spec in signature.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TorchScript, and of sizes that a trace fixes: it is meant to
        torch.jit.save(torch.jit.trace(module, given, check_trace=False, strict=False), str(out / "model.pt"))
    write_artifact(out, parse_target("torchscript"), signature)
    return {}


def trace_of_source(job):
    '''PyTorch to TorchScript: a loop goes round as often as the example is long.'''
    return traced(build_model(job.inputs["source"]), read_source(job.inputs["source"]).signature, job.out)


class Fixed(torch.fx.Interpreter):
    '''A program with each size of an axis that is not the first as a number.'''

    def call_function(self, target, args, kwargs):
        made = super().call_function(target, args, kwargs)
        return int(made) if "sym_size" in str(target) and args[1] else made


def trace_of_program(job):
    '''An exported program to TorchScript: sizes as numbers.'''
    source = read_artifact(job.inputs["source"])
    interpreter = Fixed(load_program(source.path).module())

    class Module(torch.nn.Module):
        def forward(self, x):
            return interpreter.run(x)

    return traced(Module(), source.signature, job.out)
"""

NET = """
import torch


class Sum(torch.nn.Module):
    def forward(self, x):
        made = x[:, 0]
        for at in range(1, x.shape[1]):
            made = made + x[:, at]
        return made


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.sum, self.last = torch.nn.Linear(3, 4), Sum(), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.sum(torch.relu(self.first(x))))


class Scaled(Net):
    def forward(self, x):
        return self.last((torch.relu(self.first(x)) / x.shape[1]).sum(1))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "broken_steps.py").write_text(BROKEN)
    (tmp_path / "size_net.py").write_text(NET)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("broken_steps", "size_net"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    rng = np.random.default_rng(0)
    write_dataset(tmp_path / "data" / TEST, Dataset({"x": rng.standard_normal((8, TIME, 3)).astype(np.float32)}))
    for name in ("source", "reference", "out", "scratch"):
        (tmp_path / name).mkdir()
    return tmp_path


def shrunk(
    here: Path,
    find_piece: Callable[[Job], Mapping[str, Any]],
    runtime: str,
    chain: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Mapping[str, Any]:
    data, source = here / "data", here / "source"
    options = {"runtime": runtime, "batches": [1, 2], "probes_only": True}
    answer(Job({"model": source, "data": data}, here / "reference", options))
    monkeypatch.chdir(here / "scratch")
    options = {
        "step": chain[-1], "reason": "", "chain": [[entry, {}] for entry in chain], "target": "onnx", "least_db": 60.0,
        "seconds": 500.0, "model": "net", "requires": [],
    }  # fmt: skip
    inputs = {"source": source, "data": data, "reference": here / "reference"}
    return find_piece(Job(inputs, here / "out", options))


def lengths(here: Path) -> set[int]:
    """The sizes of the second axis of what goes in."""
    data = np.load(here / "out" / "piece.npz")
    return {data[name].shape[1] for name in data.files if name.startswith("in/") and data[name].ndim == 3}


def write_onnx(folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"], "relu"),
            helper.make_node("ReduceMean", ["a", "axes"], ["b"], "mean", keepdims=0),
            helper.make_node("Neg", ["b"], ["y"], "head"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "time", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(np.asarray([1], np.int64), "axes")],
    )
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), folder / "model.onnx")
    write_artifact(folder, Target(Format.ONNX), SIGNATURE)


def test_an_operator_of_an_onnx_graph(here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]) -> None:
    write_onnx(here / "source")
    facts = shrunk(here, find_graph_piece, "onnxruntime", ["broken_steps:mean_of_five"], monkeypatch)
    assert (facts["operators"], facts["operator"]) == (1, "ReduceMean")
    assert lengths(here).isdisjoint({TIME})
    assert "AssertionError: b: off by up to " in said(here)


def test_a_module_of_a_model_in_pytorch(
    here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]
) -> None:
    write_source(here / "source", Source(CodeRef("size_net:Net", str(here)), SIGNATURE, ""))
    facts = shrunk(here, find_module, "torch", ["broken_steps:trace_of_source"], monkeypatch)
    assert facts["where"] == "the module sum (Sum, size_net.py:5)"
    assert lengths(here).isdisjoint({TIME})
    assert "SessionLost: torchscript gave no answer to inputs that fit the signature: " in said(here)


def test_an_operator_of_an_exported_program(
    here: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[Path], str]
) -> None:
    import torch

    net = import_module("size_net").Scaled().eval()
    dynamic = torch.export.Dim.DYNAMIC
    given = (torch.randn(3, 7, 3),)
    made = torch.export.export(net, given, dynamic_shapes=({0: dynamic, 1: dynamic},))
    torch.export.save(made, here / "source" / "model.pt2")
    write_artifact(here / "source", Target(Format.PT2), SIGNATURE)
    chain = ["transload.converters.to_pytorch.pt2_from_source:pt2_from_source", "broken_steps:trace_of_program"]
    facts = shrunk(here, find_program_piece, "torch", chain, monkeypatch)
    assert (facts["operators"], facts["operator"]) == (1, "aten.div.Tensor")
    assert facts["line"].startswith("size_net.py:24 (`return self.last((torch.relu(self.first(x)) / x.shape[1])")
    assert lengths(here).isdisjoint({TIME})
    assert "AssertionError: div: off by up to " in said(here)


def test_the_datas_own_sizes_are_tried_first_and_every_axis_changes_in_the_other_call(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_onnx(here / "source")
    data, source = here / "data", here / "source"
    options = {"runtime": "onnxruntime", "batches": [1, 2], "probes_only": True}
    answer(Job({"model": source, "data": data}, here / "reference", options))

    def asked(reason: str) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
        job = Job({"data": data, "reference": here / "reference"}, here, {"reason": reason})
        calls = recorded_calls(job)
        return [(first["x"].shape, [second["x"].shape for second in candidates]) for first, candidates in calls]

    shapes = asked("at batch 1: output y agrees to 3 dB")
    assert [first[:2] for first, _ in shapes[:3]] == [(2, TIME), (1, TIME), (65, TIME)]
    assert all(first[1] != TIME for first, _ in shapes[3:])
    assert len(shapes) > 4
    assert asked("at time=1: output y agrees to 3 dB")[0][0][1] == 1, "the size that the check has named comes first"
    for first, (every, least) in shapes:
        assert first[0] != every[0] == least[0]
        assert first[1] != every[1]
        assert least[1] == TIME
