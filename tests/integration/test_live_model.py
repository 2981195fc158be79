"""A model that is an object in the caller's process is converted as a file of it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import transload
from transload.converters.live_model import write_live_model
from transload.models.errors import BadRequest, TransloadError
from transload.models.signature import parse_input


class Scaled(torch.nn.Module):
    """Its class is in no file that a worker could import, and it answers otherwise in training."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear, self.drop, self.factor = torch.nn.Linear(3, 2), torch.nn.Dropout(0.5), factor

    def forward(self, rows: torch.Tensor, shift: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"scaled": self.drop(self.linear(rows)) * self.factor + shift}


INPUTS = ["rows=float32[batch,3]", "shift=float32[batch,2]"]
pytestmark = pytest.mark.usefixtures("loaded_once")


def test_a_module_is_captured_here_and_left_as_it_was(tmp_path: Path) -> None:
    import onnxruntime

    model = Scaled(3.0).train()
    done = transload.convert(model, ["onnx"], out=tmp_path / "made", inputs=INPUTS, store=tmp_path / "store")
    (row,) = done.artifacts
    assert row.status == "verified"
    assert model.training
    assert all(module.training for module in model.modules())
    feeds = {"rows": np.ones((4, 3), np.float32), "shift": np.full((4, 2), 0.5, np.float32)}
    session = onnxruntime.InferenceSession(tmp_path / "made" / "onnx" / "model.onnx")
    (answer,) = session.run(["scaled"], feeds)
    expected = model.eval()(*map(torch.from_numpy, feeds.values()))["scaled"].detach().numpy()
    np.testing.assert_allclose(answer, expected, rtol=1e-5)


def test_an_onnx_model_is_written_as_it_is(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    assert onnx.load(write_live_model(model, (), tmp_path).path) == model


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's
def test_a_keras_model_is_saved(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    path = write_live_model(model, (), tmp_path).path
    rows = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(keras.models.load_model(path)(rows).numpy(), model(rows).numpy())


@pytest.mark.parametrize(
    ("model", "inputs", "what"),
    [
        (3, [], "a builtins.int is no model"),
        (Scaled(1.0), [], "the inputs of Scaled are not named"),
        (Scaled(1.0), ["x=float32[batch,3]"], "Scaled.forward takes rows, shift, and inputs name x"),
        (Scaled(1.0), INPUTS[1:], "inputs leave out rows of Scaled.forward"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(model: Any, inputs: list[str], what: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as refused:
        transload.convert(model, ["onnx"], out=tmp_path / "made", inputs=inputs, store=tmp_path / "store")
    assert refused.value.what == what
    assert not (tmp_path / "made").exists()


def test_ids_that_a_module_takes_are_found_before_it_is_captured(tmp_path: Path) -> None:
    model = torch.nn.Embedding(2, 4)
    spec = parse_input("input=int64[batch,3]")
    live = write_live_model(model, [spec], tmp_path)
    assert list(map(str, live.inputs)) == ["input=int64[batch,3] in 0..1"]
    assert live.notes == ("input: ids 0..1 by its smallest table; give --data for more",)
    program = torch.export.load(live.path)
    assert program.module()(torch.ones(7, 3, dtype=torch.int64)).shape == (7, 3, 4)


def test_a_module_that_takes_nothing_that_is_tried_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as refused:
        write_live_model(torch.nn.Linear(3, 2), [parse_input("input=float32[batch,4]")], tmp_path / "source")
    assert refused.value.what.startswith(
        "calling Linear raised RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    )
    assert refused.value.fix == "hold inputs=['input=float32[batch,4]'] against what forward takes"
    assert not (tmp_path / "source").exists()


@pytest.mark.filterwarnings("ignore:`torch.jit.load` is deprecated:DeprecationWarning")  # this test's own call
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("options", [{"batch_first": True}, {"bidirectional": True, "num_layers": 2}])
def test_a_recurrent_module_over_an_open_time_becomes_torchscript(kind: Any, options: Any, tmp_path: Path) -> None:
    shape = "batch,time" if "batch_first" in options else "time,batch"
    model = kind(3, 2, **options).eval()
    live = write_live_model(model, [parse_input(f"input=float32[{shape},3]")], tmp_path / "source")
    assert live.path.name == "model.pt"
    rows = torch.rand(7, 4, 3)
    torch.testing.assert_close(torch.jit.load(live.path)(rows)[0], model(rows)[0])


def test_a_module_that_neither_capture_takes_is_refused(tmp_path: Path) -> None:
    class Branch(torch.nn.Module):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return rows if float(rows.sum()) > eval("0") else -rows  # noqa: S307

    with pytest.raises(TransloadError):
        transload.convert(Branch(), ["onnx"], out=tmp_path / "made", inputs=INPUTS[:1], store=tmp_path / "store")


def scaled(factor: float) -> torch.nn.Module:
    model = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(model.weight, factor)
    return model


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    """A module, and the folder with `made/onnx` of it and the store."""
    folder = tmp_path_factory.mktemp("linear")
    model = scaled(1.0)
    transload.convert(model, "onnx", out=folder / "made", inputs="input=float32[batch,3]", store=folder / "store")
    return model, folder


def test_a_copy_is_compared_with_the_module_itself(linear: tuple[torch.nn.Module, Path]) -> None:
    model, folder = linear
    places: dict[str, Any] = {"runs": folder / "runs", "store": folder / "store"}
    same = transload.validate(folder / "made" / "onnx", against=model, **places)
    assert same.decided[0] == "pass"
    assert {row.runtime for row in same.drift} == {"onnxruntime"}
    other = transload.validate(folder / "made" / "onnx", against=scaled(1.5), **places)
    assert other.decided[0] == "fail"
    files = sorted(
        path.relative_to(folder / "runs" / "sources") for path in (folder / "runs" / "sources").rglob("*.pt2")
    )
    assert [(file.parts[0].rpartition("-")[0], file.name) for file in files] == [("linear", "model.pt2")] * 2
    assert not [path for path in (folder / "runs" / "sources").iterdir() if path.name.startswith(".")]


def test_a_module_is_where_a_divergence_is_looked_for_and_what_a_copy_is_measured_beside(
    linear: tuple[torch.nn.Module, Path],
) -> None:
    model, folder = linear
    places: dict[str, Any] = {"runs": folder / "more", "store": folder / "store"}
    located = transload.locate(folder / "made" / "onnx", against=model, **places)
    assert not located.capture.departs
    measured = transload.bench(
        folder / "made" / "onnx", against=model, batches=[1], rounds=3, processes=1, budget_s=0, **places
    )
    assert [(row.artifact, row.runtime) for row in measured.latency] == [("source", "torch"), ("onnx", "onnxruntime")]


@pytest.mark.parametrize(
    ("against", "what", "fix"),
    [
        (3, "a builtins.int is no model", "give a path, a name, an nn.Module, an onnx.ModelProto or a Keras model"),
        (
            torch.nn.Linear(3, 2),
            "the inputs of Linear are not named",
            'give them, as in inputs=["input=float32[batch,3]"]',
        ),
    ],
)
def test_a_reference_that_cannot_be_taken_is_one_sentence(against: Any, what: str, fix: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(BadRequest) as refused:
        transload.validate(tmp_path / "m.onnx", against=against, runs=tmp_path / "runs", store=tmp_path / "store")
    assert (refused.value.what, refused.value.fix) == (what, fix)
    assert not (tmp_path / "runs").exists()
