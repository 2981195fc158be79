"""Limits of the release rules: which tables are read, and which limits would never decide anything."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.drift.metrics.metric_kinds import KINDS as METRICS
from transload.pipeline.drift.metrics.metric_kinds import MetricKind, kind_of_metric, recipe_kind
from transload.pipeline.options.request import read_request
from transload.pipeline.result.release_limits import KINDS, check_metric_limits, limit_for, read_limit


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        ("10ms", {("onnx", 1): 0.01, ("tflite:int8", 8): 0.01}),
        (0.25, {("onnx", 1): 0.25}),
        ({"1": "2ms", "8": "10ms"}, {("onnx", 1): 0.002, ("onnx", 8): 0.01, ("onnx", 4): None}),
        ({"1": "2ms", "default": 1}, {("onnx", 1): 0.002, ("onnx", 4): 1.0}),
        ({"onnx": "2ms"}, {("onnx", 1): 0.002, ("onnx", 8): 0.002, ("tflite", 1): None}),
        ({"onnx:fp32": "2ms", "default": 3}, {("onnx", 1): 0.002, ("tflite", 1): 3.0}),
        (
            {"onnx": {"1": "2ms", "default": "9ms"}, "tflite:int8": 1, "default": {"8": 2}},
            {("onnx", 1): 0.002, ("onnx", 8): 0.009, ("tflite:int8", 8): 1.0, ("pt2", 8): 2.0, ("pt2", 1): None},
        ),
    ],
)
def test_a_limit_is_for_all_or_by_target_and_batch(value: Any, limits: dict[tuple[str, int], float | None]) -> None:
    limit = read_limit("latency_p99", value)
    assert {pair: limit_for(limit, *pair) for pair in limits} == limits
    assert read_limit("latency_p99", limit) == limit, "what was read is read again as it is"


@pytest.mark.parametrize("rule", KINDS)
@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, -math.inf, True, False, "abc", [], {}, {"onnx": math.nan}, {"onx": 1}]
)
def test_no_rule_takes_what_is_no_limit(rule: str, bad: Any) -> None:
    with pytest.raises(ValueError, match="; "):
        read_limit(rule, bad)


@pytest.mark.parametrize(
    ("rule", "bad"),
    [
        *((rule, -1e-9) for rule in KINDS if rule != "metric_min"),
        *((rule, 0) for rule in KINDS if rule not in ("metric_loss", "metric_min", "metric_max")),
        ("size", 1e15), ("size", "1000TB"), ("peak_memory", 1e15), ("latency_ratio", 1e4), ("size_ratio", 1e4),
        ("latency_p99", 3600), ("latency_p99", "0ms"), ("latency_p99", "10"), ("size", "5 parsec"),
        ("size", {"1": 5}), ("metric_min", {"onnx": {"1": 0.5}}), ("latency_p99", {"1": 1, "onnx": 1}),
        ("latency_p99", {"onnx": {"tflite": 1}}), ("latency_p99", {"onnx": {}}), ("size", {"source": 5}),
    ],
)  # fmt: skip
def test_a_limit_that_nothing_can_break_or_that_has_another_form_is_refused(rule: str, bad: Any) -> None:
    with pytest.raises(ValueError, match="; "):
        read_limit(rule, bad)


@pytest.mark.parametrize(
    ("rule", "limit", "metric", "words"),
    [
        ("metric_min", 0.0, "accuracy", "nothing can break"),
        ("metric_min", -0.5, "f1", "nothing can break"),
        ("metric_min", -1.0, "cosine", "nothing can break"),
        ("metric_min", 97.0, "accuracy", "nothing can keep"),
        ("metric_min", 1.01, "r2", "nothing can keep"),
        ("metric_max", 1.0, "ece", "nothing can break"),
        ("metric_max", 0.5, "perplexity", "nothing can keep"),
        ("metric_min", 2.0, "mae", "mae is better lower"),
        ("metric_max", 0.9, "accuracy", "accuracy is better higher"),
        ("metric_max", 0.9, "recall@10", "recall@10 is better higher"),
        ("metric_loss", 1.0, "accuracy", "nothing can break"),
        ("metric_loss", 2.0, "cosine", "nothing can break"),
    ],
)
@pytest.mark.parametrize("in_table", [False, True])
def test_a_limit_that_the_metric_makes_senseless_is_refused(
    rule: str, limit: float, metric: str, words: str, in_table: bool
) -> None:
    with pytest.raises(BadRequest, match=words):
        check_metric_limits({rule: {"onnx": limit} if in_table else limit}, kind_of_metric(metric))


@pytest.mark.parametrize("name", [name for name in METRICS if name != "recall@k"])
def test_a_limit_inside_the_span_of_its_metric_is_taken(name: str) -> None:
    kind = kind_of_metric(name)
    rule, limit = ("metric_min", 0.5) if kind.higher_is_better else ("metric_max", 0.9 if kind.unit else 2.0)
    check_metric_limits({rule: limit, "metric_loss": 0.1}, kind)
    check_metric_limits({"metric_max": 0.0}, kind_of_metric("mae"))
    check_metric_limits({"metric_min": 1.0}, kind_of_metric("accuracy"))  # the best value can be kept


def test_a_limit_of_nothing_is_taken_where_it_asks_for_no_loss() -> None:
    assert (read_limit("metric_loss", 0), read_limit("metric_max", 0.0)) == (0.0, 0.0)
    with pytest.raises(ValueError, match="the limit 0 must be above 0"):
        read_limit("size_ratio", 0.0)


def test_a_recipe_s_metric_is_one_of_ours_only_where_it_means_the_same() -> None:
    assert recipe_kind("accuracy", "", higher_is_better=True).ends == (0, 1)
    assert recipe_kind("accuracy", "%", higher_is_better=True).ends == (-math.inf, math.inf)
    assert recipe_kind("mae", "", higher_is_better=True) == MetricKind("mae")


USE = {
    "[gate]\nmetric_min = nan\n": "line 2: gate.metric_min: nan is no finite number\n  fix: write it as in 0.97",
    "[gate]\nsize = true\n": "line 2: gate.size: a switch is no number, got True"
    "\n  fix: docs/pipeline-file.md lists what is taken",
    "[gate]\n\nlatency_p99 = -1\n": "line 3: gate.latency_p99: the limit -1 must be above 0"
    "\n  fix: write it as in \"10ms\"",
    "[convert]\ntargets = ['onnx']\n[gate]\nsize = { tflite = 5 }\n": "line 4: gate.size: the target tflite is not made"
    "\n  fix: add it to convert.targets, or use one of onnx",
    "[gate]\nlatency_p99 = { 1 = 1, 3 = 1 }\n": "line 2: gate.latency_p99: batch 3 is not measured"
    "\n  fix: add it to bench.batches, or use one of 1, 8",
    "[gate]\nlatency_p99 = { onnx = { 3 = 1 } }\n": "line 2: gate.latency_p99: batch 3 is not measured"
    "\n  fix: add it to bench.batches, or use one of 1, 8",
    **{
        f"[bench]\nenabled = false\n[gate]\n{rule} = 1\n": f"line 4: gate.{rule}: {rule} judges measurements, and "
        f"nothing is measured\n  fix: leave --no-bench or bench.enabled = false out, or take {rule} out of [gate]"
        for rule in ("latency_ratio", "latency_p99", "peak_memory")
    },
}  # fmt: skip


@pytest.mark.parametrize("text", USE)
def test_a_rule_that_would_never_be_applied_names_line_and_mend(text: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(BadRequest) as caught:
        read_request(file)
    assert str(caught.value) == f"{file}, {USE[text]}"


def test_a_metric_that_the_file_names_judges_its_limits_before_anything_is_done(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[validate]\nmetric = 'mae'\n[gate]\nmetric_min = 0.5\n")
    with pytest.raises(BadRequest, match=r"gate\.metric_min: mae is better lower"):
        read_request(file)


def test_the_command_line_may_narrow_what_the_tables_of_a_file_name(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("[convert]\ntargets = ['onnx', 'tflite']\n[gate]\nsize = { onnx = 5, tflite = 6 }\n")
    request = read_request(file, {"convert": {"targets": ("onnx",)}})
    assert request.gate.size == {"onnx": 5.0, "tflite": 6.0}
