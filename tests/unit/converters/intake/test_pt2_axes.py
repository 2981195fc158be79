"""Axes of an exported program that depend on other numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from transload.converters.intake.take_in import take_in_pt2
from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.signature import parse_input
from transload.models.store import digest_of


class Patches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], x.shape[1] // 4, 12)


def test_an_axis_that_is_a_multiple_of_a_number_is_named_with_its_sizes_and_taken_where_it_is_fixed(
    tmp_path: Path,
) -> None:
    dynamic = ({0: torch.export.Dim.DYNAMIC, 1: 4 * torch.export.Dim("q", min=3, max=9)},)
    path, out = tmp_path / "m.pt2", tmp_path / "out"
    out.mkdir()
    torch.export.save(torch.export.export(Patches(), (torch.randn(3, 20, 3),), dynamic_shapes=dynamic), path)
    job = Job({}, out, {"path": str(path), "sha256": digest_of(path)})
    with pytest.raises(BadRequest) as refused:
        take_in_pt2(job)
    assert str(refused.value).partition("m.pt2: ")[2] == (
        "the axis x_1 of x is a multiple of 4, 12 or more, and torch's exporters carry no axis that depends on another "
        "number\n  fix: fix it to a size, as in --input x=float32[batch,12,3], or name the model's Python code"
    )
    fixed = [parse_input("x=float32[batch,16,3]").to_json()]
    take_in_pt2(Job({}, job.out, {**job.options, "inputs": fixed}))
    program = torch.export.load(read_artifact(job.out).path)
    assert program.module()(torch.zeros(2, 16, 3)).shape == (2, 4, 12)
    axes = [size for node in program.graph.nodes if node.op == "placeholder" for size in node.meta["val"].shape]
    assert axes[1:] == [16, 3]
