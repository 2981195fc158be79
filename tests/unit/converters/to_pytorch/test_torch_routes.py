"""Models of many kinds through every route from PyTorch: torch.export, TorchScript, and both exporters to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.half_precision import map_half_precision_errors
from transload.models.loading.source_from_code import take_weights
from transload.models.sources import read_source

from .route_models import (
    PLAIN,
    USER_CODE,
    check_route,
    line_at,
    runner_of,
    source,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporters announce their end, and what they trace


@pytest.mark.parametrize("kind", ["pt2", "torchscript", "older", "dynamo"])
@pytest.mark.parametrize("name", ["Mapped", "Keywords", "State"])
def test_nested_calls_and_results_go_every_way(name: str, kind: str, tmp_path: Path) -> None:
    check_route(source(tmp_path, name), kind)


@pytest.mark.parametrize("kind", ["pt2", "torchscript", "older", "dynamo"])
@pytest.mark.parametrize("name", ["Counts", "Half", "brain", "Custom"])
def test_buffers_halves_and_custom_functions_go_every_way(name: str, kind: str, tmp_path: Path) -> None:
    check_route(source(tmp_path, name, PLAIN), kind)


def test_rows_of_given_lengths_go_through_the_older_exporter(tmp_path: Path) -> None:
    check_route(source(tmp_path, "Packed", "x=float32[batch,time,3]", "lengths=int64[batch]"), "older")


def test_inputs_may_be_left_out_where_they_have_defaults_and_taken_where_they_are_named(tmp_path: Path) -> None:
    start = source(tmp_path, "Keywords", "mask=float32[batch,4]", "bias=float32[batch,4]", "x=float32[batch,4]")
    assert [spec.name for spec in read_source(start).signature.outputs] == ["logits", "hidden_0"]
    check_route(start, "pt2")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_whole_numbers_below_zero_are_divided_and_shifted_as_pytorch_does(dtype: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Floors", f"x={dtype}[batch,time]")
    run, model = runner_of("older", start, read_source(start).signature), build_model(start)
    for x in (np.arange(-8, 8).reshape(2, 8).astype(dtype), np.array([[99], [np.iinfo(dtype).min]]).astype(dtype)):
        for got, want in zip(run({"x": x}).values(), model(torch.from_numpy(x)), strict=True):
            np.testing.assert_array_equal(got, want.numpy())


def test_whole_numbers_are_divided_as_pytorch_does_at_any_size(tmp_path: Path) -> None:
    start = source(tmp_path, "Divided", "x=int64[batch,time]")
    run, model = runner_of("dynamo", start, read_source(start).signature), build_model(start)
    for x in (torch.arange(-8, 8).reshape(2, 8), torch.tensor([[2**24 + 1], [-(2**61) - 1]])):
        for got, want in zip(run({"x": x.numpy()}).values(), model(x), strict=True):
            np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize(("name", "half"), [("Half", "float16"), ("brain", "bfloat16")])
def test_half_precision_is_carried_in_float32_and_its_own_distance_said(name: str, half: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER_CODE)
    (tmp_path / "out").mkdir()
    spec = {"name": "x", "dtype": "float16", "shape": ["batch", 4]}
    facts = take_weights(Job({}, tmp_path / "out", {"ref": f"mine.py:{name}", "root": str(tmp_path), "inputs": [spec]}))
    assert facts["signature"]["inputs"][0]["dtype"] == facts["signature"]["outputs"][0]["dtype"] == "float32"
    said, _, noise = facts["notes"][0].partition(" lies ")
    assert said == f"its {half} weights are carried in float32; its own {half} arithmetic"
    assert 30 < int(noise.split()[0]) < 90
    model: Any = build_model(tmp_path / "out")
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert torch.equal(model.lin.weight, model.lin.weight.to(getattr(torch, half)).float()), "the same values"


def test_a_half_precision_model_that_names_its_dtype_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="mixes the two at") as caught:
        source(tmp_path, "Fixes", PLAIN)
    assert str(caught.value) == (
        f"a half-precision model is carried in float32, and mine.py:Fixes mixes the two at "
        f"{line_at(tmp_path, 'return self.lin(x.half())')}\n"
        "  fix: take the dtype from a weight or an input there, as in x.to(self.weight.dtype)"
    )


def test_a_batched_product_that_mixes_the_two_is_told_the_same() -> None:
    with (
        pytest.raises(BadRequest, match="mixes the two at"),
        map_half_precision_errors("net.py:Net", {"w": torch.float16}),
    ):
        torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2, dtype=torch.float16))
