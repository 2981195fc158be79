"""From a TorchScript archive: its signature, and ONNX and exported programs made of it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.converters.readers.torchscript.torchscript_file import check_torchscript
from transload.converters.readers.torchscript.torchscript_reader import import_torchscript
from transload.converters.to_onnx.onnx_from_torchscript import onnx_from_torchscript
from transload.converters.to_pytorch.pt2_from_torchscript import pt2_from_torchscript
from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import parse_input
from transload.models.store import digest_of
from transload.serving.runtimes.onnxruntime_session import open_session as open_onnx
from transload.serving.runtimes.torch_eager_session import open_session as open_torch
from transload.serving.runtimes.torchscript_session import open_session as open_torchscript

# TorchScript is deprecated as a whole.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*legacy TorchScript-based ONNX export:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:no signature found for <torch.ScriptMethod:UserWarning"),
]
INPUTS = ("image=float32[batch,3,7,5]", "scale=float32[batch,4]")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, image: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = torch.relu(self.conv(self.drop(image))).mean((2, 3))
        return {"scaled": seen * scale, "seen": seen}


class Branching(torch.nn.Module):
    def forward(self, image: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if bool(scale.sum() > 0):
            return image.mean((1, 2, 3)), scale
        return image.sum((1, 2, 3)), -scale


class Wide(torch.nn.Module):
    """More arguments than anything is given for, and nested results."""

    def forward(
        self, image: torch.Tensor, gain: float = 2.0, scale: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        seen = image.sum((1, 2, 3)) * gain
        if bool(seen.sum() > 0):
            seen = seen + 1
        return seen, (image, seen if scale is None else scale * gain)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A module that was traced."""
    traced = torch.jit.trace(Net().eval(), (torch.randn(3, 3, 7, 5), torch.randn(3, 4)), strict=False)
    torch.jit.save(traced, tmp_path / "m.pt")
    return tmp_path / "m.pt"


def taken(path: Path, out: Path, *inputs: str) -> Path:
    out.mkdir()
    asked = [parse_input(text).to_json() for text in inputs]
    import_torchscript(Job({}, out, {"path": str(path), "sha256": digest_of(path), "inputs": asked}))
    return out


def step(entry: Callable[[Job], Mapping[str, Any]], source: Path, out: Path) -> Path:
    out.mkdir()
    entry(Job({"source": source}, out))
    return out


def test_inputs_are_in_the_order_of_forward_and_outputs_called_as_it_calls_them(path: Path, tmp_path: Path) -> None:
    signature = read_artifact(taken(path, tmp_path / "out", *reversed(INPUTS))).signature
    assert [str(spec) for spec in signature.inputs] == list(INPUTS)
    assert [str(spec) for spec in signature.outputs] == ["scaled=float32[batch,4]", "seen=float32[batch,4]"]


@pytest.mark.parametrize(("entry", "opens"), [(onnx_from_torchscript, open_onnx), (pt2_from_torchscript, open_torch)])
def test_what_is_made_of_an_archive_answers_as_it_does(entry: Any, opens: Any, path: Path, tmp_path: Path) -> None:
    given = taken(path, tmp_path / "given", *INPUTS)
    made = opens(step(entry, given, tmp_path / "made"), "cpu", 1)
    reference = open_torchscript(given, "cpu", 1)
    for batch in (1, 2, 5):
        feeds = sample_tensors(reference.signature.inputs, {"batch": batch}, batch)
        want, got = reference.run(feeds), made.run(feeds)
        assert list(got) == list(want)
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


class Behind(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


def test_a_program_of_an_archive_answers_at_a_size_at_which_torch_export_guards_it_for_nothing(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Behind()), tmp_path / "m.pt")
    given = taken(tmp_path / "m.pt", tmp_path / "given", "x=float32[batch,time,4]")
    made = open_torch(step(pt2_from_torchscript, given, tmp_path / "made"), "cpu", 1)
    for time in (2, 3):
        x = torch.randn(2, time, 4)
        np.testing.assert_array_equal(made.run({"x": x.numpy()})["output"], Behind()(x).numpy())


def test_both_ways_of_a_branch_come_through_to_onnx(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Branching()), tmp_path / "m.pt")
    given = taken(tmp_path / "m.pt", tmp_path / "given", *INPUTS)
    made = open_onnx(step(onnx_from_torchscript, given, tmp_path / "made"), "cpu", 1)
    reference = open_torchscript(given, "cpu", 1)
    feeds = dict(sample_tensors(reference.signature.inputs, {"batch": 2}, 0))
    for sign in (1, -1):
        feeds["scale"] = np.full((2, 4), sign, np.float32)
        want, got = reference.run(feeds), made.run(feeds)
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5)


@pytest.mark.parametrize("inputs", [INPUTS[:1], INPUTS])
def test_what_has_a_default_may_be_left_out_and_nested_results_have_names(
    inputs: tuple[str, ...], tmp_path: Path
) -> None:
    torch.jit.save(torch.jit.script(Wide()), tmp_path / "m.pt")
    given = taken(tmp_path / "m.pt", tmp_path / "given", *inputs)
    made = open_onnx(step(onnx_from_torchscript, given, tmp_path / "made"), "cpu", 1)
    feeds = dict(sample_tensors(made.signature.inputs, {"batch": 5}, 0))
    for sign in (1, -1):
        feeds["image"] = np.abs(feeds["image"]) * np.float32(sign)
        seen, (image, last) = Wide()(**{name: torch.from_numpy(each) for name, each in feeds.items()})
        want = {"output_0": seen, "output_1_0": image, "output_1_1": last}
        for opened in (made, open_torchscript(given, "cpu", 1)):
            got = opened.run(feeds)
            assert list(got) == list(want)
            for name, value in want.items():
                np.testing.assert_allclose(got[name], value.numpy(), rtol=1e-5)


def test_bfloat16_is_told_to_be_saved_in_float32(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(torch.nn.Linear(4, 3).bfloat16()), tmp_path / "m.pt")
    with pytest.raises(BadRequest, match=r"fix: save it from the module in float32, by module\.float\(\)"):
        taken(tmp_path / "m.pt", tmp_path / "out", "input=float32[batch,4]")


def test_trust_leaves_code_unread(path: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pt"
    with zipfile.ZipFile(path) as good, zipfile.ZipFile(bad, "w") as archive:
        for name in good.namelist():
            content = good.read(name)
            archive.writestr(name, content + b"\ntorch.save(1)" if name.endswith(".py") else content)
    with pytest.raises(BadRequest, match="calls save"):
        check_torchscript(bad)
    check_torchscript(bad, trust=True)
