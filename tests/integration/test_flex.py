"""`convert --flex`: a model that TFLite has no kernels for, as a person converts, checks and measures it.

What runs TensorFlow's operators is a TensorFlow of 2.18, which is not the one beside us (docs/design/flex.md). Where
TRANSLOAD_PYTHON_FLEX names a Python that has it, it is run as well.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import transload
from transload.converters.steps import STEPS
from transload.models.errors import BadRequest, Exit, ToolMissing
from transload.pipeline.cli.output.convert_output import lines
from transload.pipeline.commands.convert import ConvertResult, agreement
from transload.pipeline.workers.interpreters import lacking
from transload.serving.runtimes.runtime_table import RUNTIMES

pytestmark = pytest.mark.usefixtures("loaded_once")
NAMES = ("FlexMatMul", "FlexMul")
NEEDS = "needs TensorFlow's Flex delegate for MatMul, Mul"
HERE = lacking(RUNTIMES["tflite-flex"]) is None
elsewhere = pytest.mark.skipif(not HERE, reason="needs TRANSLOAD_PYTHON_FLEX, a Python with TensorFlow 2.18")


@pytest.fixture(autouse=True)
def our_own_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No smaller piece is looked for."""
    ours = {step.name: step for step in STEPS if step.name.startswith(("lowering", "tflite"))}
    monkeypatch.setattr("transload.pipeline.plan.run_plan.KNOWN_STEPS", ours)
    monkeypatch.setattr("transload.pipeline.commands.stages.convert_targets.find_repros", lambda *_: ())


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """double.onnx, which computes in float64, and plain.onnx, which does not; and a store."""
    folder = tmp_path_factory.mktemp("models")
    node = helper.make_node
    weight = numpy_helper.from_array(np.linspace(-1, 1, 15).reshape(3, 5), "w")
    rows, answers = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 3), ("y", 5))
    )
    nodes = [
        node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE), node("MatMul", ["d", "w"], ["h"]),
        node("Mul", ["h", "h"], ["m"]), node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]  # fmt: skip
    same = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    graphs = {
        "double": helper.make_graph(nodes, "g", [rows], [answers], [weight]),
        "plain": helper.make_graph([node("Relu", ["x"], ["y"])], "g", [rows], [same]),
    }
    for name, graph in graphs.items():
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, folder / f"{name}.onnx")
    return folder


def convert(here: Path, model: str, *, flex: bool) -> ConvertResult:
    out = here / f"{model}-{flex}"
    return transload.convert(str(here / f"{model}.onnx"), ["tflite"], out=out, store=here / "store", flex=flex, jobs=1)


@pytest.mark.slow
def test_without_the_option_the_target_is_refused_and_the_option_named(here: Path) -> None:
    (row,) = convert(here, "double", flex=False).artifacts
    assert row.path is None
    assert [each.route for each in row.tried] == [("lowering-tflite",), ("lowering", "tflite")]
    assert row.tried[0].reason.startswith("TFLite has no kernel for MatMul of float64 (MatMul node ")
    assert "or convert it with --flex (its runtime then needs TensorFlow's Flex delegate)" in row.tried[0].reason


@pytest.mark.slow
def test_a_model_that_needs_none_gets_none(here: Path) -> None:
    done = convert(here, "plain", flex=True)
    (row,) = done.artifacts
    assert (row.route, row.flex, done.decided[1]) == (("lowering-tflite",), (), Exit.PASS)
    assert "Flex" not in "\n".join(lines(done))


def test_with_it_the_file_is_made_and_named_and_what_could_not_run_it_is_told(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRANSLOAD_PYTHON_FLEX", raising=False)
    if lacking(RUNTIMES["tflite-flex"]) is None:
        pytest.skip("the TensorFlow beside us has Flex: the test below says what becomes of the file then")
    done = convert(here, "double", flex=True)
    (row,) = done.artifacts
    assert [each.route for each in row.tried][-1] == row.route == ("lowering-tflite@flex",)
    assert (row.status, row.flex, done.decided[1]) == ("unverified", NAMES, Exit.INCONCLUSIVE)
    assert agreement(row).startswith("it was run nowhere: TensorFlow ")
    assert agreement(row).endswith(
        " comes without the Flex delegate, which model.tflite needs for FlexMatMul, FlexMul; "
        "name a Python that has TensorFlow 2.18 in TRANSLOAD_PYTHON_FLEX (docs/design/flex.md)"
    )
    assert lines(done)[0].endswith(NEEDS)
    kept = json.loads((done.folder / "convert.json").read_text())["artifacts"][0]
    assert kept["flex"] == list(NAMES)
    made = done.folder / "tflite"
    with pytest.raises(ToolMissing) as caught:
        transload.validate(made, against=str(here / "double.onnx"), runs=here / "runs", store=here / "store")
    assert caught.value.what == (
        "the runtime tflite-flex needs tensorflow 2.18 (here, or in the Python that TRANSLOAD_PYTHON_FLEX names), "
        "which is not installed"
    )
    with pytest.raises(BadRequest) as refused:
        transload.bench(made, runtimes=["tflite"], runs=here / "runs", store=here / "store")
    assert refused.value.what == (
        f"{made} needs TensorFlow's Flex delegate for FlexMatMul, FlexMul, so tflite is not for it"
    )


@elsewhere
def test_in_a_python_that_has_flex_it_is_verified_and_measured_by_a_name_of_its_own(here: Path) -> None:
    done = convert(here, "double", flex=True)
    (row,) = done.artifacts
    assert (row.status, row.flex, done.decided[1]) == ("verified", NAMES, Exit.PASS)
    assert lines(done)[0].endswith(NEEDS)
    made, against = done.folder / "tflite", str(here / "double.onnx")
    held = transload.validate(made, against=against, runs=here / "runs", store=here / "store")
    assert {each.runtime for each in held.drift} == {"tflite-flex"}
    assert held.decided[1] is Exit.PASS
    measured = transload.bench(
        made, batches=[1], rounds=3, processes=1, budget_s=0, runs=here / "runs", store=here / "store"
    )
    assert [(each.runtime, each.samples > 0) for each in measured.latency] == [("tflite-flex", True)]
