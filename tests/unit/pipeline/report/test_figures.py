"""The plots: right numbers, only comparable rows on one axis, nothing that plotly does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from transload.pipeline.report.figures import Plot, plots
from transload.pipeline.result.schema import RunResult

from . import samples


def drawn(run: RunResult) -> dict[str, Plot]:
    return {plot.key: plot for plot in plots(run, samples.samples(run))}


def medians(plot: Plot) -> list[float]:
    return [trace["x"][0] for trace in plot.data if trace["mode"] == "markers"]


def formats_by_name(plot: Plot) -> Mapping[str, str]:
    return {trace["hovertemplate"]: trace["meta"]["format"] for trace in plot.data if trace["mode"] == "markers"}


def test_plotly_knows_every_property() -> None:
    from plotly.graph_objects import Figure

    for plot in drawn(samples.result()).values():
        Figure(data=list(plot.data), layout=plot.layout)  # raises ValueError for what it does not know


def test_there_is_a_plot_of_each_kind() -> None:
    assert list(drawn(samples.result())) == ["latency-0", "latency-1", "size", "drift", "errors", "metric"]


def test_a_latency_plot_shows_the_quantiles_of_all_samples_in_milliseconds() -> None:
    run = samples.result()
    raw = samples.samples(run)
    plot = plots(run, raw)[0]
    marks = next(t for t in plot.data if t["mode"] == "markers" and "tfserving-grpc" in t["hovertemplate"])
    expected = np.quantile(raw[("saved-model", "tfserving-grpc", 1)], [0.5, 0.9, 0.99]) * 1e3
    assert marks["x"] == pytest.approx(expected, rel=1e-5)


def test_the_fastest_is_on_top() -> None:
    found = medians(drawn(samples.result())["latency-0"])
    assert found == sorted(found, reverse=True)  # row 0 is at the bottom


def test_rows_of_another_device_have_a_plot_of_their_own() -> None:
    run = samples.result()
    other = samples.latency("onnx", "other", 1e-5, device="cuda:0")
    titles = [plot.title for plot in drawn(replace(run, latency=(*run.latency, other))).values()]
    assert titles[:3] == [
        "Latency at batch 1: cpu, 1 thread",
        "Latency at batch 8: cpu, 1 thread",
        "Latency at batch 1: cuda:0, 1 thread",
    ]


def test_rows_without_samples_are_left_out_of_the_plots() -> None:
    run = samples.result()
    assert [plot.key for plot in plots(run, {})] == ["size", "drift", "errors", "metric"]
    few = {("onnx", "onnxruntime", 1): np.array([1e-3, np.nan, np.inf, -1.0, 2e-3])}
    plot = plots(run, few)[0]
    assert plot.layout["yaxis"]["ticktext"] == ["onnx \u00b7 onnxruntime"]
    assert "2 samples" in plot.data[-1]["hovertemplate"]


def test_one_sample_or_equal_ones_can_be_drawn() -> None:
    for raw in (np.array([1e-3]), np.full(50, 2e-3)):
        (plot,) = [p for p in plots(samples.result(), {("onnx", "onnxruntime", 1): raw}) if p.key.startswith("latency")]
        assert all(np.isfinite(trace["x"]).all() and np.isfinite(trace["y"]).all() for trace in plot.data)


def test_no_number_in_a_plot_is_nan() -> None:
    def numbers(value: Any) -> list[float]:
        if isinstance(value, dict):
            return [one for each in value.values() for one in numbers(each)]
        if isinstance(value, list | tuple):
            return [one for each in value for one in numbers(each)]
        return [value] if isinstance(value, float) else []

    found = [one for plot in drawn(samples.result()).values() for one in numbers([plot.data, plot.layout])]
    assert len(found) > 1000
    assert np.isfinite(found).all()


def test_a_format_has_one_colour_key_in_every_plot() -> None:
    for plot in drawn(samples.result()).values():
        for trace in plot.data:
            assert trace["meta"]["format"] in {"pt2", "torchscript", "onnx", "saved-model", "tflite", "other"}
    by_name = formats_by_name(drawn(samples.result())["latency-0"])
    assert {form for text, form in by_name.items() if "tflite:int8" in text} == {"tflite"}


def test_the_limits_stand_in_the_drift_and_metric_plots() -> None:
    found = drawn(samples.result())
    assert {shape["x0"] for shape in found["drift"].layout["shapes"]} == {60.0}
    assert {shape["x0"] for shape in found["metric"].layout["shapes"]} == {-1.0}  # percentage points


def test_identical_answers_lie_at_the_right_edge() -> None:
    plot = drawn(samples.result())["drift"]
    assert plot.data[0]["x"] == [pytest.approx(141.2 * 1.06)]
    assert "identical to the last bit" in plot.note


def test_names_beside_the_marks_do_not_cover_each_other() -> None:
    notes = drawn(samples.result())["size"].layout["annotations"]
    assert len({note["text"] for note in notes}) == len(notes) == 9
    assert {note["xanchor"] for note in notes} != {"right"}  # some had to give way


def test_an_empty_run_has_no_plots() -> None:
    assert plots(samples.empty(), {}) == ()


def test_differences_are_drawn_as_bars_between_powers_of_two() -> None:
    plot = drawn(samples.result())["errors"]
    wrong, right = plot.data  # the first is the lowest; pt2 has no difference to draw
    assert plot.layout["yaxis"]["ticktext"] == ["tflite:int8 in tflite", "onnx in onnxruntime"]
    assert wrong["x"] == pytest.approx([2**-5, 2**-5, 2**-4, 2**-4, 2**-3, 2**-3, 2**-2, 2**-2])
    heights = [high - wrong["y"][0] for high in wrong["y"][1::4]]
    assert heights == pytest.approx([heights[1] * 599 / 3000, heights[1]])
    assert "3,600 elements, 600 of them equal" in right["text"]
    assert "differences from 4.8e-07 to 1.9e-06" in right["text"]
    assert plot.note.endswith("the typical size (rms) of the reference's logits 5.46.")
