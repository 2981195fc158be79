"""What a measured model is held against: what is asked in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from transload.models.store import Stored
from transload.pipeline.stages.bench_subject import BenchSubject, reference_of_kind, source_subjects
from transload.serving.runtimes.runtime_table import RUNTIMES

STORED = Stored("", "", Path(), {}, Path(), 0.0, cached=True)
MODEL = cast("Any", object())


def subject(artifact: str, runtime: str, *, elsewhere: bool = False) -> BenchSubject:
    served = cast("Any", object()) if elsewhere else None
    return BenchSubject((artifact, runtime), STORED, RUNTIMES[runtime], served)


def references(subjects: list[BenchSubject]) -> dict[tuple[str, str], tuple[str, str]]:
    return {one.pair: reference_of_kind(one, subjects) for one in subjects}


def test_served_artifacts_are_held_against_the_source_behind_the_same_protocol() -> None:
    artifacts = [subject("onnx", "onnxruntime"), subject("onnx", "oip-grpc"), subject("saved-model", "tfserving-rest")]
    subjects = [*source_subjects(STORED, MODEL, artifacts), *artifacts]
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
