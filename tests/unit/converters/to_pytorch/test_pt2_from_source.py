"""Exported programs: names, and which sizes they are valid for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from transload.converters.to_pytorch.export_reasons import OneWay, held
from transload.converters.to_pytorch.pt2_from_source import export, pt2_from_source
from transload.models.errors import Refused
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.sources import read_source

from .route_models import (
    WIDE,
    check_route,
    run_step,
    runner_of,
    source,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporters announce their end, and what they trace


def test_a_program_has_the_signatures_names(tmp_path: Path) -> None:
    folder = run_step(pt2_from_source, source(tmp_path, "Mapped"), "a")
    program = torch.export.load(folder / "model.pt2")
    assert [str(name) for name in program.graph_signature.user_inputs] == ["x", "m"]


def test_bounds_that_a_branch_on_sizes_keeps_to_make_it_one_way(tmp_path: Path) -> None:
    check_route(source(tmp_path, "Wide", "x=float32[batch,time=1..39]"), "pt2")


def test_a_size_at_which_the_program_alone_stops_is_left_out_of_it(tmp_path: Path) -> None:
    start = source(tmp_path, "Windows", "x=float32[batch,time,3]")
    with pytest.raises(Refused, match=r"another way at the size 9 of time at .*`for start in range"):
        run_step(pt2_from_source, start, "made")
    run, model = runner_of("older", start, read_source(start).signature), build_model(start)
    for time in (5, 9, 30):
        x = torch.randn(2, time, 3)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-5)


def test_a_way_that_is_for_what_is_empty_is_seen_where_an_axis_may_be(tmp_path: Path) -> None:
    start = source(tmp_path, "Cached", "x=float32[batch,time]", "past=float32[batch,past=0..]")
    with pytest.raises(OneWay) as caught:
        run_step(pt2_from_source, start, "made")
    assert str(caught.value) == (
        "the model takes another way where past is empty\n"
        "  fix: leave that way out where the other one answers as well, or say that it never is: past=1.."
    )
    run, model = runner_of("older", start, read_source(start).signature), build_model(start)
    for length in (0, 1, 6):
        x, past = torch.randn(2, 4), torch.randn(2, length)
        np.testing.assert_allclose(run({"x": x.numpy(), "past": past.numpy()})["output"], model(x, past), rtol=1e-5)


def test_a_way_that_some_sizes_take_and_that_gives_the_same_is_no_other_way(tmp_path: Path) -> None:
    run_step(pt2_from_source, source(tmp_path, "Aligned", WIDE), "a")


def test_a_program_of_a_deep_network_is_good_for_pictures_of_any_size(tmp_path: Path) -> None:
    start = source(tmp_path, "Deep", "x=float32[batch,2,height,width]")
    signature = read_source(start).signature
    assert held(export(build_model(start), signature), build_model(start), signature).narrow, "of small ones alone"
    program = torch.export.load(run_step(pt2_from_source, start, "a") / "model.pt2").module()
    for height, width in ((1, 1), (5, 7), (1, 9), (96, 75)):
        x = torch.randn(2, 2, height, width)
        torch.testing.assert_close(program(x), build_model(start)(x))


def test_a_limit_of_the_model_itself_is_no_branch(tmp_path: Path) -> None:
    start = source(tmp_path, "Table", WIDE)
    (tmp_path / "made").mkdir()
    facts = pt2_from_source(Job({"source": start}, tmp_path / "made", {}))
    assert facts["limits"] == {"time": [1, 50]}
