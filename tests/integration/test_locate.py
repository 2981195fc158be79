"""Bare broken files of a small net, through the command: each call that `validate` asks can show the place."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import transload
from transload.models.formats import parse_target
from transload.models.loading.build import construct
from transload.models.signature import parse_input
from transload.models.sources import CodeRef
from transload.pipeline.commands.locate import LocateResult
from transload.pipeline.commands.stages.locate_divergence import locate_failures
from transload.pipeline.commands.workspace import close_workers, new_run_context
from transload.pipeline.locate.describe import describe_places
from transload.pipeline.measure.servers import Servers
from transload.pipeline.measure.validate_stage import validate_all
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.context import LocalSettings
from transload.pipeline.plan.model_argument import ModelRequest, candidate_request
from transload.pipeline.plan.router import TargetResult
from transload.pipeline.plan.run_inputs import load_model, resolve_inputs
from transload.pipeline.plan.run_plan import Route
from transload.pipeline.progress.progress import Progress

pytestmark = [pytest.mark.usefixtures("loaded_once")]

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.table = nn.Embedding(50, 6)
            self.mix = nn.Linear(12, 3)

        def forward(self, ids, scale):
            rows = self.table(ids)
            rows = rows * scale[:, None, None]
            flat = rows.flatten(1)
            power = torch.log((flat * flat).sum(1) + 1e-6)
            return torch.tanh(self.mix(flat)), power
"""
INPUTS = ("ids=int64[batch,2] in 0..49", "scale=float32[batch]")
Weights = dict[str, Any]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    """Return the folder of the net, and its weights as arrays."""
    import torch

    folder = tmp_path_factory.mktemp("net")
    (folder / "net.py").write_text(textwrap.dedent(NET))
    torch.manual_seed(3)
    table, mix = torch.nn.Embedding(50, 6), torch.nn.Linear(12, 3)
    arrays = {"table": table.weight, "w": mix.weight, "b": mix.bias}
    return folder, {name: tensor.detach().numpy().copy() for name, tensor in arrays.items()}


def graph(weights: Weights) -> onnx.ModelProto:
    """Return the net as a file that names no layer and no line."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["1"], "look up"),
        helper.make_node("Unsqueeze", ["scale", "axes"], ["2"]),
        helper.make_node("Mul", ["1", "2"], ["3"], "scale"),
        helper.make_node("Reshape", ["3", "flat"], ["4"], "flatten"),
        helper.make_node("Gemm", ["4", "w", "b"], ["5"], "mix", transB=1),
        helper.make_node("Tanh", ["5"], ["output_0"], "squash"),
        helper.make_node("Mul", ["4", "4"], ["6"]),
        helper.make_node("ReduceSum", ["6", "one"], ["7"], "sum", keepdims=0),
        helper.make_node("Add", ["7", "small"], ["8"], "add"),
        helper.make_node("Log", ["8"], ["output_1"], "log"),
    ]
    constants = {
        **weights, "axes": np.array([1, 2]), "flat": np.array([-1, 12]), "one": np.array([1]),
        "small": np.float32(1e-6),
    }  # fmt: skip
    inputs = [
        helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["batch", 2]),
        helper.make_tensor_value_info("scale", onnx.TensorProto.FLOAT, ["batch"]),
    ]
    outputs = [
        helper.make_tensor_value_info("output_0", onnx.TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("output_1", onnx.TensorProto.FLOAT, ["batch"]),
    ]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    made = helper.make_graph(nodes, "net", inputs, outputs, initializers)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def change(model: onnx.ModelProto, name: str, edit: Callable[[Any], Any]) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(edit(numpy_helper.to_array(tensor).copy())), name))


def locate(model: onnx.ModelProto, folder: Path, tmp_path: Path) -> LocateResult:
    onnx.save(model, tmp_path / "copy.onnx")
    return locate_file(tmp_path / "copy.onnx", folder, tmp_path)


def locate_file(path: Path, folder: Path, tmp_path: Path) -> LocateResult:
    return transload.locate(
        path, against=f"{folder / 'net.py'}:Net", inputs=INPUTS, runs=tmp_path / "runs",
        store=tmp_path / "store", jobs=1,
    )  # fmt: skip


def lose_last_row(table: Any) -> Any:
    table[49] = 0
    return table


@pytest.mark.slow
def test_a_right_file_has_no_place(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    result = locate(graph(weights[1]), weights[0], tmp_path)
    assert not result.capture.departs
    assert result.places == ()


def test_a_row_of_a_table_that_few_samples_read_is_located(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    model = graph(weights[1])
    change(model, "table", lose_last_row)
    result = locate(model, weights[0], tmp_path)
    (place,) = result.places
    assert (place.operator, place.module, place.nodes) == ("embedding", "table", ("Gather (look up)",))
    assert place.line == "net.py:13 (`rows = self.table(ids)`)"
    assert result.document["cure"] == {"agrees": False, "tried": ["in a new session", "without graph optimisation"]}


def test_an_error_of_small_elements_alone_is_located(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    model = graph(weights[1])
    change(model, "small", np.zeros_like)
    result = locate(model, weights[0], tmp_path)
    (place,) = result.places
    assert (place.operator, place.nodes) == ("add", ("Add (add)", "Log (log)"))  # it adds 0: right to 130 dB
    assert place.line.startswith("net.py:16 ")


def test_the_operator_before_a_call_without_an_answer_is_located(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    model = graph(weights[1])
    change(model, "flat", lambda _: np.array([2, 12]))
    result = locate(model, weights[0], tmp_path)
    (place,) = result.places
    assert result.capture.error
    assert place.nodes == ("Reshape (flatten)",)
    assert place.line.startswith("net.py:15 ")


def recorded_options(result: LocateResult) -> dict[str, Any]:
    """Return what the reference was asked last."""
    options: dict[str, Any] = json.loads((result.folder / "repeat" / "reference.json").read_text())["job"]["options"]
    return options


def test_an_error_that_the_first_samples_show_needs_no_other_answer(
    weights: tuple[Path, Weights], tmp_path: Path
) -> None:
    model = graph(weights[1])
    change(model, "w", np.negative)
    result = locate(model, weights[0], tmp_path)
    assert [place.operator for place in result.places] == ["linear"]
    assert recorded_options(result)["probes_only"]
    assert not any(map(recorded_options(result).get, ("random", "stress", "tries")))


def test_an_error_that_no_sample_shows_is_searched_in_all_calls_of_validate(
    weights: tuple[Path, Weights], tmp_path: Path
) -> None:
    model = graph(weights[1])
    log = next(node for node in model.graph.node if node.op_type == "Log")
    log.input[0] = "capped"
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(np.float32(1e6)), "cap"))
    at = list(model.graph.node).index(log)
    model.graph.node.insert(at, helper.make_node("Min", ["8", "cap"], ["capped"], "cap sums"))
    result = locate(model, weights[0], tmp_path)
    assert "scale" in result.capture.call
    assert "Min (cap sums)" in result.places[0].nodes
    assert recorded_options(result)["stress"]


def test_the_answers_that_validate_recorded_are_not_asked_again(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    model = graph(weights[1])
    change(model, "w", np.negative)
    onnx.save(model, tmp_path / "copy.onnx")
    transload.validate(
        tmp_path / "copy.onnx", against=f"{weights[0] / 'net.py'}:Net", inputs=INPUTS, runtimes=["onnxruntime"],
        runs=tmp_path / "runs", store=tmp_path / "store", jobs=1,
    )  # fmt: skip
    result = locate(model, weights[0], tmp_path)
    assert result.places
    assert not (result.folder / "repeat" / "reference.json").exists()


def test_outputs_of_other_names_are_the_reason(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    model = graph(weights[1])
    model.graph.output[0].name = model.graph.node[5].output[0] = "squashed"
    result = locate(model, weights[0], tmp_path)
    (head, *_) = describe_places(result.capture, result.follow)
    reason = "the outputs are called squashed, output_1, the reference's output_0, output_1"
    reason = f"{reason}; the outputs go by other names: squashed holds the reference's output_0"
    assert head == f"the outputs depart: at batch 2: {reason}"
    assert result.document["call"]["mismatch"] == f"at batch 2: {reason}"


@pytest.mark.parametrize("seconds", [90.0, 0.001, 0.0])
def test_a_run_says_where_a_copy_that_fails_departs(
    weights: tuple[Path, Weights], tmp_path: Path, seconds: float
) -> None:
    model = graph(weights[1])
    change(model, "w", np.negative)
    onnx.save(model, tmp_path / "broken.onnx")
    onnx.save(graph(weights[1]), tmp_path / "right.onnx")
    convert = {"search_seconds": seconds}
    request = read_request(None, {"model": {"recipe": f"{weights[0] / 'net.py'}:Net"}, "convert": convert})
    local = LocalSettings.with_defaults(tmp_path / "store", tmp_path / "runs", 1)
    context = new_run_context(request, "run", local, Progress(quiet=True))
    with close_workers(context):
        inputs = resolve_inputs(context, ModelRequest(request.model.recipe, tuple(map(parse_input, INPUTS))))
        targets = []
        for name in ("broken", "right"):
            loaded = load_model(context, candidate_request(str(tmp_path / f"{name}.onnx"), ()))
            targets.append(TargetResult(parse_target("onnx"), loaded.stored, Route(()), label=name))
        with Servers(context) as servers:
            validated = validate_all(context, inputs, targets, servers)
        rows = locate_failures(context, inputs, targets, validated)
    if seconds == 0:
        assert rows == ()
        return
    (row,) = rows
    assert (row.artifact, row.runtime) == ("broken", "onnxruntime")
    if seconds < 1:
        assert row.operator is None
        assert row.message.startswith(("the place was not found: ", "the place was not looked for: "))
        return
    assert (row.operator, row.module, row.nodes) == ("linear", "mix", ("Gemm (mix)",))
    assert row.line == "net.py:17 (`return torch.tanh(self.mix(flat)), power`)"
    assert row.message.startswith(f"linear in the module mix, {row.line}: ")


@pytest.mark.slow  # a conversion, and four searches: a minute
def test_bare_files_of_other_formats_are_followed_by_their_values(
    weights: tuple[Path, Weights], tmp_path: Path
) -> None:
    model = graph(weights[1])
    change(model, "w", lambda w: w * np.float32(1.001))
    onnx.save(model, tmp_path / "broken.onnx")
    transload.convert(str(tmp_path / "broken.onnx"), ["saved-model", "tflite"], out=tmp_path / "made", inputs=INPUTS)
    for candidate in ("saved-model/saved_model", "tflite/model.tflite"):
        (place,) = locate_file(tmp_path / "made" / candidate, weights[0], tmp_path).places
        assert (place.operator, place.module) == ("linear", "mix")
        assert place.line == "net.py:17 (`return torch.tanh(self.mix(flat)), power`)"
        assert place.own_db == pytest.approx(60, abs=3)
        assert place.nodes


def test_a_bare_torchscript_file_is_followed_by_its_values(weights: tuple[Path, Weights], tmp_path: Path) -> None:
    import torch

    net: Any = construct(CodeRef("net.py:Net", str(weights[0])))
    torch.nn.init.zeros_(net.mix.bias)
    feeds = torch.zeros(2, 2, dtype=torch.int64), torch.ones(2)
    with pytest.warns(DeprecationWarning, match="jit"):
        torch.jit.trace(net, feeds).save(str(tmp_path / "bare.pt"))
    (place,) = locate_file(tmp_path / "bare.pt", weights[0], tmp_path).places
    assert (place.operator, place.module, place.error_class) == ("linear", "mix", "lost bias")
    assert place.nodes[0].startswith("aten::linear")


OVERFLOW = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.conv = nn.Conv2d(1, 4, 3, bias=False)
            self.conv.weight.data *= 1e20

        def forward(self, x):
            return self.conv(x * 1e-30) * 1e20
"""


def test_an_error_of_the_optimiser_names_the_setting_that_mends_it(tmp_path: Path) -> None:
    """ONNX Runtime's optimiser multiplies the factor behind a convolution into its weights, which overflow."""
    (tmp_path / "net.py").write_text(textwrap.dedent(OVERFLOW))
    net: Any = construct(CodeRef("net.py:Net", str(tmp_path)))
    constants = {
        "w": net.conv.weight.detach().numpy(), "small": np.float32(1e-30),
        "large": np.full((1, 4, 1, 1), 1e20, np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "small"], ["1"]),
        helper.make_node("Conv", ["1", "w"], ["2"]),
        helper.make_node("Mul", ["2", "large"], ["output"]),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 1, 6, 6])
    output = helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, ["batch", 4, 4, 4])
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [output], initializers),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=9,
    )  # fmt: skip
    onnx.save(model, tmp_path / "copy.onnx")
    result = transload.locate(
        tmp_path / "copy.onnx", against=f"{tmp_path / 'net.py'}:Net", inputs=["x=float32[batch,1,6,6]"],
        runs=tmp_path / "runs", store=tmp_path / "store", jobs=1,
    )  # fmt: skip
    assert result.capture.vanishes
    cure = result.document["cure"]
    assert cure["agrees"]
    assert cure["setting"] == "SessionOptions.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL"
    assert cure["tried"] == ["in a new session", "without graph optimisation", "with basic graph optimisation"]
