"""The plots: right numbers, only comparable rows on one axis, nothing that plotly does not know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from transload.pipeline.result.schema import Recommendation, RunResult, TimelineRow
from transload.pipeline.show.figures import plots
from transload.pipeline.show.plot_parts import Plot

from . import samples


def drawn(run: RunResult) -> dict[str, Plot]:
    return {plot.key: plot for plot in plots(run, samples.samples(run))}


def medians(plot: Plot) -> list[float]:
    return [trace["x"][0] for trace in plot.data if trace["mode"] == "markers"]


def formats_by_name(plot: Plot) -> Mapping[str, str]:
    return {trace["hovertemplate"]: trace["meta"]["format"] for trace in plot.data if trace["mode"] == "markers"}


def test_plotly_knows_every_property() -> None:
    from plotly.graph_objects import Figure

    run = replace(samples.result(), timeline=TIMELINE, recommendation=Recommendation(0.01, 0.5, 3.6, ()))
    warm_ups = {("source", "torch", 1): [[(0.5, 0.214), (0.6, 0.0004)]]}
    found = plots(run, samples.samples(run), warm_ups, LOADS)
    assert {"warm-up", "cost", "load-0", "timeline"} < {plot.key for plot in found}
    for plot in found:
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


def test_the_front_holds_what_no_verified_copy_beats_in_time_size_and_agreement() -> None:
    plot = drawn(samples.result())["size"]
    marks = {trace["text"][0]: trace["marker"]["symbol"][0] for trace in plot.data}
    best = {text.partition("</b>")[0].removeprefix("<b>") for text, symbol in marks.items() if "-open" not in symbol}
    assert best == {
        "pt2 \u00b7 torch", "onnx \u00b7 onnxruntime", "tflite \u00b7 tflite", "tflite:fp16 \u00b7 tflite",
        "torchscript \u00b7 torchscript",
    }  # fmt: skip
    assert "tflite:fp16 (63.8 dB)" in {note["text"] for note in plot.layout["annotations"]}


def test_a_copy_that_is_as_good_everywhere_does_not_beat_its_twin() -> None:
    run = samples.result()
    twin = samples.renamed(run, "tflite", "twin")
    both = replace(
        run,
        artifacts=(*run.artifacts, *(row for row in twin.artifacts if row.name == "twin")),
        latency=(*run.latency, *(row for row in twin.latency if row.artifact == "twin")),
        drift=(*run.drift, *(row for row in twin.drift if row.artifact == "twin")),
    )
    filled = [t["text"][0] for t in drawn(both)["size"].data if "-open" not in t["marker"]["symbol"][0]]
    assert sum("twin \u00b7" in text or "tflite \u00b7" in text for text in filled) == 2


@dataclass(frozen=True)
class Load:
    """A row under load, with what the plot needs."""

    concurrency: int | None
    throughput_per_s: float | None
    p50_s: float | None
    p99_s: float | None
    scenario: str = "closed"
    artifact: str = "onnx"
    runtime: str = "oip-grpc"
    device: str = "cpu"
    threads: int = 1
    batch: int = 1


LOADS = (
    Load(8, 1010.0, 7.9e-3, 12e-3),
    Load(1, 400.0, 2.5e-3, 3e-3),
    Load(2, 780.0, 2.6e-3, 4e-3),
    Load(4, 1000.0, 4e-3, 7e-3),
    Load(None, 500.0, 2e-3, 3e-3, scenario="poisson"),
    Load(16, None, None, None),
)


def test_the_knee_is_where_throughput_over_latency_is_largest() -> None:
    (plot,) = [plot for plot in plots(samples.result(), {}, loads=LOADS) if plot.key.startswith("load")]
    curve, ring = plot.data
    assert curve["text"] == ["1", "2", "4", "8"]
    assert curve["x"] == [400.0, 780.0, 1000.0, 1010.0]
    assert (ring["x"], ring["y"]) == ([780.0], [4.0])
    assert plot.title == "Latency against throughput at batch 1: cpu, 1 thread"


def test_loads_of_other_conditions_have_plots_of_their_own_and_one_point_has_no_knee() -> None:
    loads = (*LOADS, replace(LOADS[0], batch=8), replace(LOADS[0], device="cuda:0"))
    found = [plot for plot in plots(samples.result(), {}, loads=loads) if plot.key.startswith("load")]
    assert [len(plot.data) for plot in found] == [2, 1, 1]


def test_the_cheapest_is_on_top_and_without_a_price_there_is_no_plot() -> None:
    run = samples.result()
    assert "cost" not in drawn(run)
    priced = replace(run, recommendation=Recommendation(None, None, 3.6, ()))
    (plot,) = [plot for plot in plots(priced, {}, loads=LOADS) if plot.key == "cost"]
    costs = [trace["x"][0] for trace in plot.data]
    assert costs == sorted(costs, reverse=True)
    labels = plot.layout["yaxis"]["ticktext"]
    assert len(labels) == len(set(labels))
    assert costs[labels.index("onnx \u00b7 oip-grpc under load")] == pytest.approx(1e3 / 1010, rel=1e-5)


def test_a_warm_up_is_drawn_over_the_later_p50() -> None:
    windows = [[(0.5, 0.214), (0.6, 0.0004), (0.7, 0.000214)], [(9.0, 9.0)]]
    (plot,) = [p for p in plots(samples.result(), {}, {("source", "torch", 1): windows}) if p.key == "warm-up"]
    level, curve = plot.data
    assert curve["x"] == [0.5, 0.6, 0.7]
    span = 0.84 / 3  # of a decade: the first call took 1000 times the p50 of 214 us, which is the lowest
    assert curve["y"] == pytest.approx([0.42, -0.42 + span * np.log10(400 / 214), -0.42], rel=1e-3)
    assert level["y"] == pytest.approx([-0.42, -0.42])
    assert [note["text"] for note in plot.layout["annotations"]] == ["214 ms"]
    assert "first call until 0.5 s" in curve["customdata"][0]
    assert not [p for p in plots(samples.result(), {}, {("source", "torch", 1): []}) if p.key == "warm-up"]


TIMELINE = (
    TimelineRow("convert", "convert", 1.0, 9.0, True),
    TimelineRow("convert", "convert", 1.0, 5.0),  # a step may be called as its stage is
    TimelineRow("convert.tflite.b", "convert", 2.0, 2.0, doubts=("killed <b>by</b> SIGSEGV",)),
    TimelineRow("convert.tflite.c", "convert", 4.5, 1.0),
    TimelineRow("bench", "bench", 10.0, 30.0, True),
    TimelineRow("after", "", 41.0, 1.0),
)


def test_steps_side_by_side_have_lanes_below_their_stage_and_doubts_a_mark() -> None:
    (plot,) = [p for p in plots(replace(samples.result(), timeline=TIMELINE), {}) if p.key == "timeline"]
    assert plot.layout["yaxis"]["ticktext"] == ["", "bench", "", "", "convert"]
    bars = {trace["base"][0]: trace for trace in plot.data if trace["type"] == "bar" and trace["y"] != [4]}
    assert [bars[start]["y"] for start in (1.0, 2.0, 4.5, 10.0, 41.0)] == [[3], [2], [2], [1], [0]]
    assert bars[2.0]["meta"] == {"format": "tflite"}
    (marks,) = [trace for trace in plot.data if trace["type"] == "scatter"]
    assert (marks["x"], marks["y"]) == ([2.0], [2.4])
    assert "killed &lt;b&gt;by" in marks["text"][0]
    assert "timeline" not in drawn(samples.result())
