"""Bundles of the contract's model, and what is in them at work: our own server, and the code that runs without us."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.api import bundle

PROGRAM = [sys.executable, "-P", "-m", "transload"]


@contextmanager
def serving(words: list[str]) -> Iterator[str]:
    """`transload serve` with these words; its REST address."""
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().split("http://")[1].split("/")[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def check(folder: Path, *words: str) -> tuple[int, str]:
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run([folder / "check.sh", *words], env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def write(artifact: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """Write the bundle of the contract's model in a format for a system; return its folder."""

    def write(form: str, system: str, **options: Any) -> Path:
        out = tmp_path / f"{system}-{form}"
        bundle(
            artifact(form), system=system, out=out, runs=tmp_path / "runs", store=tmp_path / "store", **options
        )  # fmt: skip
        return out

    return write


@pytest.mark.parametrize("form", ["saved-model", "onnx", "torchscript", "tflite"])
def test_the_image_serves_what_the_check_expects(write: Callable[..., Path], form: str) -> None:
    """The Dockerfile's own words are given to the command, with the paths and ports of this machine."""
    folder = write(form, "docker", name="contract")
    words = json.loads((folder / "Dockerfile").read_text().split("CMD ")[1])
    here = {"/opt/model": str(folder / "artifact"), "8500": "0", "8501": "0", "0.0.0.0": "127.0.0.1"}  # noqa: S104
    with serving([here.get(word, word) for word in words]) as address:
        status, said = check(folder, address)
        assert status == 0, said
        assert re.findall(r"^pass  (\w+) ", said, re.M) == ["zeta", "alpha", "count", "same", "scale"]
        golden = json.loads((folder / "golden.json").read_text())
        for call in golden["calls"]:
            zeta = call["outputs"][0]
            zeta["base64"] = zeta["base64"].replace(zeta["base64"][:4], "AAAA", 1)
        (folder / "golden.json").write_text(json.dumps(golden))
        status, said = check(folder, address)
        assert (status, said.splitlines()[0][:10]) == (1, "FAIL  zeta")


def test_the_same_check_passes_for_tf_servings_bundle(write: Callable[..., Path], artifact: Any) -> None:
    folder = write("saved-model", "tfserving", name="contract", version=3)
    assert (folder / "models" / "contract" / "3" / "saved_model.pb").is_file()
    with serving(
        ["serve", str(artifact("saved-model")), "--name", "contract", "--rest-port", "0", "--grpc-port", "0"]
    ) as address:
        status, said = check(folder, f"http://{address}")
    assert status == 0, said


def test_two_bundles_of_one_artifact_are_the_same(write: Callable[..., Path], tmp_path: Path) -> None:
    folder = write("onnx", "docker")
    folder.rename(tmp_path / "first")
    second = write("onnx", "docker")
    names = sorted(str(path.relative_to(second)) for path in second.rglob("*") if path.is_file())
    first = {name: (tmp_path / "first" / name).read_bytes() for name in names}
    assert first == {name: (second / name).read_bytes() for name in names}


def test_samples_of_the_user_are_the_golden_ones(write: Callable[..., Path], contract: Any, tmp_path: Path) -> None:
    import base64

    import numpy as np

    feeds = contract.feeds_of(7, seed=5)
    np.savez(tmp_path / "mine.npz", **feeds)
    golden = json.loads((write("onnx", "docker", data=tmp_path / "mine.npz") / "golden.json").read_text())
    values = [call["inputs"][0] for call in golden["calls"]]
    assert [row["shape"] for row in values] == [[1, 2, 3], [1, 2, 3], [3, 2, 3]]
    content = b"".join(base64.b64decode(row["base64"]) for row in values)
    assert content == feeds["values"][:5].tobytes()


def test_wrong_formats_names_and_folders_are_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is of the format torchscript, and tfserving takes saved-model"):
        write("torchscript", "tfserving")
    with pytest.raises(BadRequest, match="no system is called 'heroku'"):
        write("onnx", "heroku")
    with pytest.raises(BadRequest, match="the name 'a/b' fits no URL"):
        write("onnx", "docker", name="a/b")
    (tmp_path / "docker-onnx").mkdir()
    (tmp_path / "docker-onnx" / "mine.txt").write_text("mine")
    with pytest.raises(BadRequest, match="docker-onnx is there already"):
        write("onnx", "docker")
    assert [path.name for path in tmp_path.iterdir() if path.name != "docker-onnx"] == []
