"""The embedded server and the codec, held against TensorFlow's own stubs and tensors, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.signature import DTYPES

HERE = Path(__file__).parent
SCALE = np.array([0.5, -3.0, 7.0], np.float32)
VALUES = np.arange(12, dtype=np.float32).reshape(2, 2, 3)


def run(script: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *args], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def seen(artifact: Callable[[str], Path], host: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """What the official client found."""
    with host() as server:
        options = {"folder": str(artifact("saved-model")), "name": "tiny", "device": "cpu", "threads": 1}
        server.hold("transload.serving.server.embedded:open_server", options)
        at = server.call("addresses", ())
        yield json.loads(run("official_client.py", at["grpc"], at["rest"], "tiny"))


def test_the_official_stubs_predict(seen: dict[str, Any]) -> None:
    outputs = seen["predict"]["outputs"]
    zeta = np.stack([VALUES[0] * SCALE, -VALUES[1]])
    np.testing.assert_allclose(outputs["zeta"], zeta, rtol=1e-6)
    np.testing.assert_array_equal(outputs["alpha"], np.arange(8).reshape(2, 4) * 2 + 1)
    np.testing.assert_allclose(outputs["count"], VALUES.sum((1, 2)), rtol=1e-6)
    assert seen["predict"]["version"] == 1


def test_values_as_a_list_give_the_same_answers(seen: dict[str, Any]) -> None:
    """perf_analyzer sends float_val."""
    assert seen["predict"]["float_val"] == seen["predict"]["outputs"]


def test_rest_gives_the_same_answers(seen: dict[str, Any]) -> None:
    for name, value in seen["predict"]["outputs"].items():
        np.testing.assert_allclose(seen["rest"]["outputs"][name], value, rtol=1e-6)


def test_the_official_stubs_read_metadata_and_status(seen: dict[str, Any]) -> None:
    assert seen["metadata"] == {
        "values": ["float32", [-1, 2, 3]],
        "ids": ["int64", [-1, 4]],
        "keep": ["bool", [-1]],
        "zeta": ["float32", [-1, 2, 3]],
        "alpha": ["int64", [-1, 4]],
        "count": ["float32", [-1]],
        "same": ["float32", [-1, 2, 3]],
        "scale": ["float32", [3]],
    }
    assert seen["status"] == ["AVAILABLE"]


def test_the_official_stubs_read_an_error(seen: dict[str, Any]) -> None:
    assert seen["refusal"] == ["NOT_FOUND", "Servable not found for request: Latest(nope)"]


def test_our_codec_and_tensorflows_agree_to_the_last_bit() -> None:
    assert int(run("codec_against_tensorflow.py")) == len(DTYPES) * 7 * 5


def test_the_placement_of_a_run_can_be_read_back(artifact: Callable[[str], Path]) -> None:
    """What tells a GPU from the CPU: it must see the operators that compute, after all optimisation."""
    found = json.loads(run("tensorflow_placement.py", str(artifact("saved-model"))).splitlines()[-1])
    assert {"Mul", "Sum"} <= {kind for kind, _ in found}
    assert all(device.endswith("CPU:0") for _, device in found)


def test_each_signature_of_a_saved_model_answers_the_official_stubs(tmp_path: Path) -> None:
    assert json.loads(run("several_signatures.py", str(tmp_path)).splitlines()[-1]) == {
        "scale": ["scale", [[3, 6, 9]]],
        "text": [1, 3, 0],
        "value": ["value", 15],
        "scores": [3, 5, 7],
    }
