"""A payload that is broken becomes one sentence that names the file, in every runtime, and the process lives on."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.serving.runtimes.runtime_table import RUNTIMES

HARM: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) * 2 // 3],
    "garbage": lambda data: random.Random(1).randbytes(len(data)),  # noqa: S311  (no secret)
    "empty": lambda data: b"",
}
SAVED_MODEL_FILES = ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")


@pytest.fixture(scope="module", params=[name for name, runtime in RUNTIMES.items() if not runtime.served])
def opened(
    request: pytest.FixtureRequest, available: Callable[[str], None], shared_host: Callable[[str], Any]
) -> tuple[str, Any]:
    available(request.param)
    return request.param, shared_host(RUNTIMES[request.param].requires[0])


@pytest.mark.parametrize("harm", HARM)
def test_a_broken_payload_is_one_sentence(
    opened: tuple[str, Any], harm: str, artifact: Callable[[str], Path], tmp_path: Path
) -> None:
    name, process = opened
    runtime = RUNTIMES[name]
    for at, file in enumerate(SAVED_MODEL_FILES if name.startswith("tensorflow") else ("",)):
        folder = tmp_path / str(at)
        shutil.copytree(artifact(runtime.takes[0]), folder)
        payload = folder / (runtime.takes[0]).spec.payload
        broken = payload / file
        broken.write_bytes(HARM[harm](broken.read_bytes()))
        with pytest.raises(Exception, match=r"^BadRequest: ") as caught:
            process.hold(runtime.entry, (folder, "cpu", 1))
        error: Any = caught.value  # a BadRequest's twin, made by the test's end of the process
        what, _, fix = error.text.partition("\n  fix: ")
        assert what.startswith(f"{name} cannot open {payload}: ")
        assert "\n" not in what
        assert "execution error" not in what
        assert fix.startswith("make the artifact again")


def test_a_payload_that_is_gone_is_one_sentence(
    opened: tuple[str, Any], artifact: Callable[[str], Path], tmp_path: Path
) -> None:
    name, process = opened
    form = RUNTIMES[name].takes[0]
    folder = tmp_path / "artifact"
    shutil.copytree(artifact(form), folder, ignore=shutil.ignore_patterns(form.spec.payload))
    with pytest.raises(Exception, match=r"^BadRequest: ") as caught:
        process.hold(RUNTIMES[name].entry, (folder, "cpu", 1))
    error: Any = caught.value
    assert error.text == f"{folder / form.spec.payload} is not there\n  fix: make the artifact again"


def test_a_payload_of_another_model_is_one_sentence(
    opened: tuple[str, Any], artifact: Callable[[str], Path], tmp_path: Path
) -> None:
    """The record names an input that the payload does not have."""
    name, process = opened
    form = RUNTIMES[name].takes[0]
    if "torch" in RUNTIMES[name].requires:
        return  # PyTorch's payloads carry no names: their order is all there is
    folder = tmp_path / "artifact"
    shutil.copytree(artifact(form), folder)
    record = folder / "artifact.json"
    record.write_text(record.read_text().replace('"ids"', '"other"'))
    with pytest.raises(Exception, match=r"BadRequest: .* has the inputs .*, and its record names values, other, keep"):
        process.hold(RUNTIMES[name].entry, (folder, "cpu", 1))


def test_a_gpu_that_is_not_there_is_refused_or_told(opened: tuple[str, Any], artifact: Callable[[str], Path]) -> None:
    """Never a session that calls itself cuda and runs on the CPU. (A machine with a GPU has `make gpu-check`.)"""
    name, process = opened
    arguments = (artifact(RUNTIMES[name].takes[0]), "cuda:9", 1)
    if "torch" in RUNTIMES[name].requires:
        with pytest.raises(
            Exception, match=r"ToolMissing: PyTorch finds \d CUDA devices here, and cuda:9 was asked for"
        ):
            process.hold(RUNTIMES[name].entry, arguments)
    else:
        process.hold(RUNTIMES[name].entry, arguments)
        assert process.look("device") == "cpu"


def test_the_session_opens_where_nothing_is_broken(opened: tuple[str, Any], artifact: Callable[[str], Path]) -> None:
    """Else the tests above would pass over a runtime that opens nothing."""
    name, process = opened
    if name == "aotinductor":
        return  # it compiles while it opens: half a minute, in test_sessions.py
    process.hold(RUNTIMES[name].entry, (artifact(RUNTIMES[name].takes[0]), "cpu", 1))
    assert process.look("device") == "cpu"
