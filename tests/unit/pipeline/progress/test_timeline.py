"""Spans of a run: when they went on, in which stage, and what speaks against them."""

from __future__ import annotations

import io

import pytest

from transload.models.errors import StepFailed
from transload.pipeline.progress.progress import Progress
from transload.pipeline.progress.timeline import Timeline, stage_of


class Clock:
    now_s = 10.0

    def __call__(self) -> float:
        return self.now_s


def test_a_step_lies_in_the_stage_that_was_under_way_when_it_began() -> None:
    clock = Clock()
    line = Timeline(clock)
    with line.span("convert", is_stage=True):
        clock.now_s += 1
        with line.span("convert.onnx"):
            clock.now_s += 2
    clock.now_s += 1
    with line.span("between"):
        pass
    step, stage, between = line.spans
    assert (step.started_s, step.seconds, stage.started_s, stage.seconds) == (11.0, 2.0, 10.0, 3.0)
    assert [stage_of(span, line.spans) for span in line.spans] == ["convert", "convert", ""]
    assert not between.doubts


def test_what_fails_keeps_its_time_and_its_sentence() -> None:
    clock = Clock()
    line = Timeline(clock)
    with pytest.raises(StepFailed), line.span("convert.onnx"):
        clock.now_s += 2
        raise StepFailed("it was killed by SIGSEGV", fix="read the log")
    assert [(span.seconds, span.doubts) for span in line.spans] == [(2.0, ("it was killed by SIGSEGV",))]


def test_the_stages_of_a_progress_are_spans_and_its_parts_share_them() -> None:
    progress = Progress(io.StringIO(), quiet=True)
    with progress.of("a model").stage("convert"):
        pass
    assert [(span.name, span.is_stage) for span in progress.timeline.spans] == [("convert", True)]
