"""A model in another interpreter, asked from here. Our own Python stands for the other: the protocol is the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from transload.models.errors import BadRequest, StepFailed, ToolMissing
from transload.models.loading.half_precision import map_half_precision_errors
from transload.models.loading.infer_signature import infer_signature
from transload.models.loading.weight_files import notes_of
from transload.models.signature import parse_input
from transload.models.sources import CodeRef, RecordedSettings
from transload.models.user_python.interpreter import UserPython
from transload.models.user_python.module_proxy import ProxyState, example_of_proxy, half_dtypes, make_proxy, make_there
from transload.models.user_python.user_process import UserProcess

CODE = """
import os, sys
import torch
from torch import nn
from parts import SCALE

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.table = nn.Embedding(7, width)
        self.gain = nn.Parameter(torch.ones(width, dtype=torch.float16))
        self.register_buffer("calls", torch.zeros(()))
    def forward(self, ids, mask=None):
        self.calls += 1
        value = self.table(ids) * self.gain.to(torch.float32) * SCALE
        return {"value": value, "rest": (value.sum(), "text")}

def example_inputs():
    return torch.zeros(2, 3, dtype=torch.int64)

class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2).half()
    def forward(self, x):
        return self.layer(x.half())

def leaves():
    os._exit(3)

def broken():
    raise RuntimeError("no weights here")

def lacking():
    import a_package_that_is_not_there

def nothing():
    return 3
"""


def python(path: str = sys.executable) -> UserPython:
    return UserPython(path=path, version="3.11.0", torch="2", folders=(sys.prefix, sys.base_prefix))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "net.py").write_text(CODE)
    (folder / "parts.py").write_text("SCALE = 2.0\n")
    return folder


def ref(project: Path, name: str = "Net", **settings: Any) -> CodeRef:
    return CodeRef(f"net.py:{name}", str(project), settings, python=python())


@pytest.fixture(scope="module")
def net(project: Path) -> Iterator[Any]:
    module = make_proxy(ref(project, width=5))
    yield module
    module.process.close()


@pytest.fixture(scope="module")
def process() -> Iterator[UserProcess]:
    running = UserProcess(python())
    yield running
    running.close()


def test_it_is_called_as_the_users_module_is(net: Any) -> None:
    ids = parse_input("ids=int64[batch,words] in 0..6")
    signature, call, constants = infer_signature(net, (ids,))
    assert [spec.name for spec in signature.outputs] == ["value", "rest_0"]
    assert signature.outputs[0].shape == ("batch", "words", 5)
    assert constants == {"rest_1": "text"}
    assert call is not None


def test_its_weights_come_and_go(net: Any) -> None:
    state = net.state_dict()
    assert state["gain"].dtype == torch.float16
    state["table.weight"] = torch.arange(35.0).reshape(7, 5)
    net.load_state_dict(state)
    answer = net(torch.tensor([[1, 6]]))
    assert torch.equal(answer["value"][0], torch.stack([torch.arange(5.0, 10), torch.arange(30.0, 35)]) * 2)
    assert net.description.tables == (7,)


def test_its_example_inputs_are_taken(net: Any) -> None:
    example = example_of_proxy(net)
    assert example is not None
    assert {name: tuple(value.shape) for name, value in example.inputs.items()} == {"ids": (2, 3)}
    assert example.origin.startswith("example_inputs() of ")


def test_the_settings_that_a_checkpoint_records_are_taken_there(project: Path, process: UserProcess) -> None:
    recorded = RecordedSettings("last.ckpt", {"width": 6, "learning_rate": 0.1})
    module = make_there(process, replace(ref(project), recorded=recorded))
    assert module.state_dict()["table.weight"].shape == (7, 6)
    assert notes_of(module) == ["width: from the settings in last.ckpt; --set has precedence"]
    assert make_there(process, replace(ref(project, width=3), recorded=recorded)).state_dict()["gain"].shape == (3,)


def test_a_fixed_dtype_of_half_precision_is_refused_by_its_line(project: Path, process: UserProcess) -> None:
    module = make_there(process, ref(project, "Half"))
    halves = half_dtypes(module.state_dict())
    module.widen_halves()
    line = CODE.splitlines().index("        return self.layer(x.half())") + 1
    with (
        pytest.raises(BadRequest, match=rf"mixes the two at .*/net.py:{line} "),
        map_half_precision_errors("net.py:Half", halves),
    ):
        module(torch.zeros(3, 4))


def test_what_calls_change_is_seen(net: Any) -> None:
    net(torch.tensor([[1]]))
    assert ProxyState().changed(net) == ["calls"]


def test_an_error_of_a_call_is_of_its_own_class_and_names_the_users_line(net: Any) -> None:
    with pytest.raises(IndexError) as raised:
        net(torch.tensor([[9]]))
    assert str(raised.value).startswith("index out of range in self")
    assert "/net.py" in str(raised.value)
    assert torch.equal(net(torch.tensor([[0]]))["value"].isfinite().all(), torch.tensor(True))  # it still answers


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("broken", BadRequest, "raised RuntimeError at .*/net.py:32: no weights here"),
        ("lacking", ToolMissing, "needs a_package_that_is_not_there, which"),
        ("nothing", BadRequest, "gives a int, not a torch.nn.Module"),
        ("absent", BadRequest, "holds no absent"),
        ("leaves", StepFailed, r"ended without an answer \(exit status 3\) while making the model"),
    ],
)
def test_code_that_makes_no_model_is_refused_in_a_sentence(
    project: Path, process: UserProcess, name: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make_there(process, ref(project, name))


def test_an_interpreter_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be started: No such file"):
        UserProcess(python(str(tmp_path / "python")))


def test_nothing_is_written_beside_the_code(project: Path, net: Any) -> None:
    assert sorted(path.name for path in project.rglob("*")) == ["net.py", "parts.py"]
