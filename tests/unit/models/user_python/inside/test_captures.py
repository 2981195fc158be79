"""Captures by the other interpreter's torch: here ours stands for it, and each is opened again and asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from transload.converters.user_python_program import rebuild_program
from transload.models.errors import Refused
from transload.models.user_python.inside.captures import CaptureRequest, capture


@pytest.fixture(autouse=True)
def _fast_path() -> Iterator[None]:
    """A capture takes torch's fast path off, in a process that does nothing else after it."""
    yield
    torch.backends.mha.set_fastpath_enabled(True)


class Net(nn.Module):
    """Takes a dict, returns nested values, and halves an axis that is open."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3)
        self.register_buffer("gain", torch.tensor([0.5]))

    def forward(self, parts: dict[str, torch.Tensor], *, shift: float) -> dict[str, Any]:
        wave = self.norm(self.conv(parts["wave"])) * self.gain
        return {"half": wave[:, :, ::2], "rest": (parts["scale"] + shift, "text")}


NAMES = ["scale", "wave"]  # the signature's order, which is not that of the dict
ARGUMENTS = {"tuple": [{"dict": [["wave", {"tensor": 1}], ["scale", {"tensor": 0}]]}]}


def request(kind: str, path: str = "") -> CaptureRequest:
    keywords = {"dict": [["shift", {"constant": 2.0}]]}
    axes = [{"0": "batch"}, {"0": "batch", "2": "time"}]
    return CaptureRequest(
        kind, path, ARGUMENTS, keywords, NAMES, ["half", "rest_0"], axes, {"batch": [None, None]}, plain=False
    )


def inputs(batch: int, time: int) -> list[torch.Tensor]:
    return [torch.randn(batch, 1), torch.randn(batch, 2, time)]


def check(answer: Any, net: Net, values: list[torch.Tensor]) -> None:
    expected = net({"wave": values[1], "scale": values[0]}, shift=2.0)
    torch.testing.assert_close(answer[0], expected["half"])
    torch.testing.assert_close(answer[1], expected["rest"][0])


@pytest.fixture(scope="module")
def net() -> Net:
    module = Net().eval().requires_grad_(False)
    module.norm.running_mean.uniform_()  # type: ignore[union-attr]
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, of TorchScript
def test_torchscript_takes_the_inputs_in_the_signatures_order(net: Net, tmp_path: Path) -> None:
    path = str(tmp_path / "net.pt")
    reply, _ = capture(net, request("torchscript", path), inputs(3, 8))
    assert reply == {"note": ""}
    values = inputs(5, 12)
    check(torch.jit.load(path)(*values), net, values)


def test_a_program_is_rebuilt_from_its_calls_at_every_size(net: Net) -> None:
    reply, tensors = capture(net, request("program"), inputs(3, 8))
    module = rebuild_program(reply["graph"], tensors, NAMES)
    assert len(list(module.parameters())) == 4  # of the convolution and the normalisation
    values = inputs(5, 12)
    check(module(*values), net, values)


def test_onnx_is_written_by_the_exporter_that_traces(net: Net, tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "net.onnx"
    capture(net, request("onnx", str(path)), inputs(3, 8))
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == NAMES
    assert [value.name for value in graph.output] == ["half", "rest_0"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("aten::from_file.default", "may do more than compute"),
        ("os.system", "may do more than compute"),
        ("aten::add.NoSuchOverload", "which our torch has not"),
    ],
)
def test_a_call_that_may_do_more_than_compute_is_refused(function: str, message: str) -> None:
    node = {"name": "a", "op": "call", "function": function, "args": [{"node": "x"}], "kwargs": {}}
    graph = {"nodes": [{"name": "x", "op": "input"}, node], "outputs": [{"node": "a"}]}
    with pytest.raises(Refused, match=message):
        rebuild_program(graph, [], ["x"])


@pytest.mark.parametrize("graph", [None, {}, {"nodes": [], "outputs": [{"node": "y"}]}, {"nodes": [3], "outputs": []}])
def test_what_is_no_program_is_refused(graph: Any) -> None:
    with pytest.raises(Refused, match="described no program"):
        rebuild_program(graph, [], [])
