"""What a measured model is held against: what is asked in the same way."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest

from transload.models.formats import Format, Target, formats
from transload.models.store import Stored
from transload.pipeline.measure.bench_subject import BenchSubject, reference_of_kind, reference_subjects
from transload.pipeline.plan.loaded_model import LoadedModel
from transload.serving.runtimes.runtime_table import RUNTIMES, runtimes_for

STORED = Stored("", "", Path(), {}, Path(), 0.0, cached=True)
MODEL = cast("Any", object())


def subject(artifact: str, runtime: str, *, elsewhere: bool = False) -> BenchSubject:
    served = cast("Any", object()) if elsewhere else None
    return BenchSubject((artifact, runtime), STORED, RUNTIMES[runtime], served)


def references(subjects: list[BenchSubject]) -> dict[tuple[str, str], tuple[str, str]]:
    return {one.pair: reference_of_kind(one, subjects) for one in subjects}


def test_served_artifacts_are_held_against_the_source_behind_the_same_protocol() -> None:
    artifacts = [subject("onnx", "onnxruntime"), subject("onnx", "oip-grpc"), subject("saved-model", "tfserving-rest")]
    subjects = [*reference_subjects(LoadedModel(MODEL, STORED), artifacts), *artifacts]
    assert references(subjects) == {
        ("source", "torch"): ("source", "torch"),
        ("source", "oip-grpc"): ("source", "oip-grpc"),
        ("source", "tfserving-rest"): ("source", "tfserving-rest"),
        ("onnx", "onnxruntime"): ("source", "torch"),
        ("onnx", "oip-grpc"): ("source", "oip-grpc"),
        ("saved-model", "tfserving-rest"): ("source", "tfserving-rest"),
    }


def test_without_a_source_the_first_of_each_kind_is_the_reference() -> None:
    subjects = [subject("a", "oip-http"), subject("a", "onnxruntime"), subject("b", "oip-http"), subject("b", "tflite")]
    assert references(subjects)["b", "oip-http"] == ("a", "oip-http")
    assert references(subjects)["b", "tflite"] == ("a", "onnxruntime")


def test_a_model_that_is_served_elsewhere_is_held_against_the_first_of_all() -> None:
    subjects = [subject("a", "onnxruntime"), subject("url", "oip-http", elsewhere=True), subject("b", "tflite")]
    assert references(subjects)["url", "oip-http"] == ("a", "onnxruntime")
    assert references(subjects[1:])["b", "tflite"] == ("url", "oip-http")


@pytest.mark.parametrize("start", [None, *formats()], ids=str)
def test_the_named_model_is_the_reference_behind_each_protocol_that_takes_it(start: Format | None) -> None:
    served = [runtime.name for runtime in RUNTIMES.values() if runtime.served]
    reference = LoadedModel(MODEL, STORED, start=None if start is None else Target(start))
    artifacts = list(chain.from_iterable((subject("a", name), subject("b", name)) for name in served))
    elsewhere = subject("url", "oip-http", elsewhere=True)
    subjects = [*reference_subjects(reference, [elsewhere, *artifacts]), elsewhere, *artifacts]
    takers = set(served) if start is None else {runtime.name for runtime in runtimes_for(start)}
    held = references(subjects)
    for name in served:
        expected = ("source" if name in takers else "a", name)
        assert (held["a", name], held["b", name]) == (expected, expected)
    assert subjects[0].pair == ("source", reference.runtime)
    assert held["url", "oip-http"] == subjects[0].pair
    is_code = [one.source is not None for one in subjects if one.pair[0] == "source"]
    assert set(is_code) == {start is None}  # our own server holds code; a file is an artifact like the others


def test_a_model_served_elsewhere_starts_no_server_of_the_reference() -> None:
    subjects = reference_subjects(LoadedModel(MODEL, STORED), [subject("url", "oip-http", elsewhere=True)])
    assert [one.pair for one in subjects] == [("source", "torch")]
