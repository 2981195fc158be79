"""Traces and compiled sources: control flow that depends on data or sizes is compiled or refused, never fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_pytorch import tracing
from transload.converters.to_pytorch.export_reasons import OneWay
from transload.converters.to_pytorch.pt2_from_source import pt2_from_source
from transload.converters.to_pytorch.torchscript_from_source import torchscript_from_source
from transload.models.errors import Refused
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.signature import Signature, parse_input
from transload.models.sources import read_source

from .route_models import (
    PLAIN,
    WIDE,
    check_route,
    line_at,
    run_step,
    runner_of,
    source,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporters announce their end, and what they trace


@pytest.mark.parametrize("kind", ["torchscript", "older"])
@pytest.mark.parametrize("name", ["Branches", "Loops"])
def test_a_way_that_data_decides_is_kept_by_compiling(name: str, kind: str, tmp_path: Path) -> None:
    check_route(source(tmp_path, name, PLAIN), kind)


@pytest.mark.parametrize("kind", ["torchscript", "older"])
def test_a_way_that_a_size_decides_is_kept_by_compiling(kind: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Wide", WIDE)
    signature, model = read_source(start).signature, build_model(start)
    run = runner_of(kind, start, signature)
    for time in (5, 39, 40, 41):  # a trace of the first is right at the second, and wrong from 40 on
        x = torch.randn(2, time)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["torchscript", "older"])
def test_a_loop_over_an_axis_is_kept_by_compiling(kind: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Steps", "x=float32[batch,time,4]")
    signature, model = read_source(start).signature, build_model(start)
    run = runner_of(kind, start, signature)
    for time in (5, 2, 9):  # a trace goes round as often as its example was long
        x = torch.randn(2, time, 4)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["torchscript", "older"])
@pytest.mark.parametrize(("name", "words"), [("Often", WIDE), ("Rare", PLAIN)])
def test_a_way_that_no_sample_and_no_checked_size_takes_is_kept(
    name: str, words: str, kind: str, tmp_path: Path
) -> None:
    start = source(tmp_path, name, words)
    signature = read_source(start).signature
    run, model = runner_of(kind, start, signature), build_model(start)
    for x in (torch.rand(2, 4), 5000 * torch.rand(2, 4), torch.rand(2, 250 if words is WIDE else 4)):
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "least", "sizes"), [("Tall", 16, (33, 16)), ("Flat", 16, (16, 33)), ("Apart", 224, (524, 224))]
)
def test_a_way_that_a_relation_of_two_axes_decides_is_seen_whichever_is_the_larger(
    name: str, least: int, sizes: tuple[int, int], tmp_path: Path
) -> None:
    start = source(tmp_path, name, f"x=float32[batch,height={least}..,width={least}..]")
    words = "another way at height={} and width={} at .*`if h ".format(*sizes)
    with pytest.raises(Refused, match=words):
        run_step(pt2_from_source, start, "made")
    run, model = runner_of("torchscript", start, read_source(start).signature), build_model(start)
    for height, width in ((100, 20), (20, 100), (20, 21), sizes):
        x = torch.randn(2, height, width)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [torchscript_from_source, onnx_from_source])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Strided", "return x.as_strided(size, stride)"),
        ("Deprecated", "return x.as_strided(size, stride)"),
        ("Logarithm", "return x * np.float64(math.log"),
    ],
)
def test_a_trace_that_answers_otherwise_is_never_handed_on(
    name: str, line: str, step: Callable[[Job], Mapping[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(Refused) as caught:
        run_step(step, source(tmp_path, name, WIDE), "made")
    assert caught.value.what.startswith(
        f"the model makes a number of Python of a size at {line_at(tmp_path, line)}: a trace keeps it, and answers "
        "otherwise than the model at batch=2 and time=8; compiling its source fails"
    )


def test_a_way_that_is_for_the_exporter_alone_is_what_is_asked(tmp_path: Path) -> None:
    start = source(tmp_path, "Asking", WIDE)
    run = runner_of("older", start, read_source(start).signature)
    np.testing.assert_allclose(run({"x": np.ones((2, 9), np.float32)})["output"], np.full((2, 9), 9))


@pytest.mark.parametrize("left_out", [(), [{"batch": 2, "time": 9}]])
def test_sizes_that_are_left_out_of_a_program_alone_are_in_a_trace(
    left_out: Sequence[Mapping[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = OneWay("the program stops", fix="compute both ways")
    refused.left_out = left_out
    monkeypatch.setattr(tracing, "other_way", lambda *_: refused)
    start = source(tmp_path, "Halved", WIDE)
    if left_out:
        check_route(start, "torchscript")
    else:
        with pytest.raises(OneWay, match="the program stops"):
            run_step(torchscript_from_source, start, "made")


@pytest.mark.parametrize("step", [torchscript_from_source, onnx_from_source])
def test_a_number_that_is_the_same_at_every_small_size_is_refused(
    step: Callable[[Job], Mapping[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="makes a number of Python of a size"):
        run_step(step, source(tmp_path, "Rooted", WIDE), "made")


@pytest.mark.parametrize("step", [torchscript_from_source, onnx_from_source])
def test_what_a_trace_keeps_of_one_answer_is_said(step: Callable[[Job], Mapping[str, Any]], tmp_path: Path) -> None:
    start, out = source(tmp_path, "RareUncompiled", PLAIN), tmp_path / "made"
    out.mkdir()
    note = step(Job({"source": start}, out, {}))["note"]
    assert note.startswith("it keeps the one answer that samples got at ")
    assert "(`if x.abs().max() > 1000:`)" in note


def test_a_trace_is_asked_with_a_single_number_too() -> None:
    """What numpy makes of such an array by arithmetic is no array."""

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return x * scale if scale > 0 else x

    x = parse_input("x=float32[batch,4]")
    signature = Signature((x, parse_input("scale=float32[]")), (x,))
    assert list(tracing.data_questions(Scaled(), signature).values()) == [True]
