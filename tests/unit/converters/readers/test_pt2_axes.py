"""Axes of an exported program that depend on other numbers: multiples have a step, others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from transload.converters.readers.pt2.pt2_reader import import_pt2
from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.signature import parse_input
from transload.models.store import digest_of


class Patches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], x.shape[1] // 4, 12)


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 1:].reshape(x.shape[0], (x.shape[1] - 1) // 4, 12)


def saved(model: torch.nn.Module, size: int, axis: object, folder: Path) -> Job:
    """Return the job that takes in a program with `axis` in its input."""
    path, out = folder / "m.pt2", folder / "out"
    out.mkdir()
    dynamic = ({0: torch.export.Dim.DYNAMIC, 1: axis},)
    torch.export.save(torch.export.export(model, (torch.randn(3, size, 3),), dynamic_shapes=dynamic), path)
    return Job({}, out, {"path": str(path), "sha256": digest_of(path)})


def test_an_axis_that_is_a_multiple_of_a_number_has_that_step(tmp_path: Path) -> None:
    job = saved(Patches(), 20, 4 * torch.export.Dim("q", min=3, max=9), tmp_path)
    import_pt2(job)
    artifact = read_artifact(job.out)
    assert str(artifact.signature.inputs[0]) == "x=float32[batch,x_1=12..36:4,3]"
    program = torch.export.load(artifact.path).module()
    assert [program(torch.zeros(2, size, 3)).shape[1] for size in (12, 16, 36)] == [3, 4, 9]


def test_an_axis_that_is_a_multiple_is_taken_where_it_is_fixed_and_refused_between_its_steps(tmp_path: Path) -> None:
    job = saved(Patches(), 20, 4 * torch.export.Dim("q", min=3, max=9), tmp_path)
    fixed = [parse_input("x=float32[batch,16,3]").to_json()]
    import_pt2(Job({}, job.out, {**job.options, "inputs": fixed}))
    program = torch.export.load(read_artifact(job.out).path)
    assert program.module()(torch.zeros(2, 16, 3)).shape == (2, 4, 12)
    axes = [size for node in program.graph.nodes if node.op == "placeholder" for size in node.meta["val"].shape]
    assert axes[1:] == [16, 3]
    without = [parse_input("x=float32[batch,time=12..36,3]").to_json()]
    with pytest.raises(BadRequest) as refused:
        import_pt2(Job({}, job.out, {**job.options, "inputs": without}))
    assert str(refused.value).partition("m.pt2: ")[2] == (
        "the axis time of x is a multiple of 4\n  fix: give it bounds with that step, as in time=12..:4, "
        "or fix it to a size, as in --input x=float32[batch,12,3]"
    )


def test_an_axis_that_is_computed_otherwise_is_refused_with_its_sizes(tmp_path: Path) -> None:
    job = saved(Halves(), 21, 4 * torch.export.Dim("q", min=3, max=9) + 1, tmp_path)
    with pytest.raises(BadRequest) as refused:
        import_pt2(job)
    assert "and torch's exporters carry no axis that depends on another number" in refused.value.what
    assert refused.value.fix == "fix it to a size, as in --input x=float32[batch,13,3], or name the model's Python code"
