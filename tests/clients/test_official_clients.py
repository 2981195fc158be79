"""The official clients against every call that docs/serve.md promises; values are held against ONNX Runtime's own.

The table in docs/clients.md names the same calls, which a test here compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import Served

pytestmark = pytest.mark.slow  # TensorFlow's client takes half a minute to start on a busy machine
Ask = Callable[[str, str], Mapping[str, Any]]
PAGE = Path(__file__).parents[2] / "docs" / "clients.md"

TENSORFLOW = ("tensorflow_serving_calls.py", "tensorflow_serving")
TRITON = ("tritonclient_calls.py", "tritonclient")
KSERVE = ("kserve_calls.py", "kserve")
INDEX = [[name, version, "READY"] for name, version in (("m", "1"), ("m", "2"), ("scorer", "1"), ("valuer", "1"))]
INDEX.append(["words", "1", "READY"])
WORDS = {"id": [1, -1], "upper": ["CAT", "äH"]}  # of "cat" and "äh"
UNKNOWN = "Request for unknown model: 'nope' is not found"
SHAPES = {"x": [-1, 4], "logits": [-1, 3], "total": [-1, 1]}


@dataclass(frozen=True)
class Numbers:
    """ONNX Runtime's answers of a model and version: all outputs, or the `part` that is an output's name, or TF
    Serving's word for all in rows or columns."""

    model: str
    part: str = ""


# What each call answers.
ANSWERS: dict[tuple[str, str], dict[str, Any]] = {
    TENSORFLOW: {
        "Predict": Numbers("m/2"),
        "Predict, a version": Numbers("m/1"),
        "Predict, a label": Numbers("m/1"),
        "Predict, values as a list": Numbers("m/2"),
        "Predict, one output": Numbers("m/2", "total"),
        "Predict, no such model": "NOT_FOUND",
        "Classify": Numbers("scorer/1", "scores"),
        "Regress": Numbers("valuer/1", "value"),
        "Predict, strings": WORDS,
        "Classify, a signature of serialized examples": [["cat", 9.0], ["other", 3.0]],
        "MultiInference": Numbers("scorer/1", "scores"),
        "GetModelMetadata": {name: ["float32", shape] for name, shape in SHAPES.items()},
        "GetModelStatus": {"1": "AVAILABLE", "2": "AVAILABLE"},
        "HandleReloadConfigRequest": [0, ["2"], 0, ["1", "2"]],
        "Health/Check": True,
    },
    TRITON: {
        "http infer": Numbers("m/2"),
        "http infer, JSON": Numbers("m/2"),
        "http infer, bytes": Numbers("m/2"),
        "http infer, gzip": Numbers("m/2"),
        "http infer, deflate": Numbers("m/2"),
        "http infer, strings": WORDS,
        "http infer, strings in JSON": WORDS,
        "grpc infer, strings": WORDS,
        **{f"{wire} infer, a signature": [10.0, 20.0, 30.0] for wire in ("http", "grpc")},
        **{f"{wire} infer, a time limit": Numbers("m/2") for wire in ("http", "grpc")},
        "grpc infer": Numbers("m/2"),
        "grpc async_infer": Numbers("m/2"),
        **{f"{wire} infer, a version": Numbers("m/1") for wire in ("http", "grpc")},
        **{f"{wire} infer, one output": Numbers("m/2", "total") for wire in ("http", "grpc")},
        **{f"{wire} infer, no such model": UNKNOWN for wire in ("http", "grpc")},
        **{
            f"{wire} {name}": answer
            for wire in ("http", "grpc")
            for name, answer in {
                "is_server_live": True,
                "is_server_ready": True,
                "is_model_ready": [True, True, False],
                "get_server_metadata": "transload",
                "get_model_metadata": {name: ["FP32", shape] for name, shape in SHAPES.items()},
                "get_model_config": ["logits", "total", "x"],
                "get_inference_statistics": {"m": True},
                "get_inference_statistics, all": {"m": True, "scorer": False, "valuer": False, "words": True},
                "get_model_repository_index": INDEX,
                "unload_model, load_model": [False, True],
            }.items()
        },
    },
    KSERVE: {
        "REST v1 infer, rows": Numbers("m/2", "predictions"),
        "REST v1 infer, columns": Numbers("m/2", "outputs"),
        "REST v2 infer, JSON": Numbers("m/2"),
        "REST v2 infer, bytes": Numbers("m/2"),
        "REST v2 is_server_live": True,
        "REST v2 is_server_ready": True,
        "REST v2 is_model_ready": True,
        "gRPC infer, typed": Numbers("m/2"),
        "gRPC infer, raw": Numbers("m/2"),
        "REST v1 infer, strings": [{"id": 1, "upper": "CAT"}, {"id": -1, "upper": "äH"}],
        "REST v2 infer, strings": WORDS,
        "gRPC infer, strings": WORDS,
        "gRPC is_server_live": True,
        "gRPC is_server_ready": True,
        "gRPC is_model_ready": True,
    },
}
CALLS = [(client, call) for client, calls in ANSWERS.items() for call in calls]


@pytest.mark.parametrize(("client", "call"), CALLS, ids=[f"{client[1]}: {call}" for client, call in CALLS])
def test_a_call_of_an_official_client(client: tuple[str, str], call: str, ask: Ask, served: Served) -> None:
    answer, expected = ask(*client)[call], ANSWERS[client][call]
    if isinstance(expected, Numbers):
        _compare(answer, served.answers[expected.model], expected.part)
    else:
        assert answer == expected


def _compare(answer: Any, outputs: Mapping[str, Any], part: str) -> None:
    """Compare numbers with ONNX Runtime's."""
    assert not isinstance(answer, str), answer
    if part == "predictions":
        answer = {name: [row[name] for row in answer["predictions"]] for name in outputs}
    elif part == "outputs":
        answer = answer["outputs"]
    elif part:
        answer, outputs = answer.get(part) if isinstance(answer, dict) else answer, {part: outputs[part]}
        answer = {part: np.array(answer).reshape(np.array(outputs[part]).shape)}
    assert set(answer) == set(outputs)
    for name, array in outputs.items():
        np.testing.assert_allclose(answer[name], array, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("client", ANSWERS, ids=[client[1] for client in ANSWERS])
def test_no_call_is_left_unchecked(client: tuple[str, str], ask: Ask) -> None:
    assert set(ask(*client)) == set(ANSWERS[client])


def test_the_page_names_every_call() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .* \|$", PAGE.read_text(), re.MULTILINE)
    assert {(package, call.replace("`", "")) for package, call in rows} == {(client[1], call) for client, call in CALLS}
