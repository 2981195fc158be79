"""Bundles of the contract's model, and what is in them at work: our own server, and the code that runs without us."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.api import bundle

PROGRAM = [sys.executable, "-P", "-m", "transload"]


@contextmanager
def serving(words: list[str], program: list[str] = PROGRAM, **environment: str) -> Iterator[str]:
    """`transload serve` with these words; its REST address."""
    env = {**os.environ, **environment}
    process = subprocess.Popen([*program, *words], env=env, stdout=subprocess.PIPE, text=True)
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


@pytest.mark.parametrize(
    "form",
    ["onnx", *(pytest.param(form, marks=pytest.mark.slow) for form in ("saved-model", "torchscript", "tflite"))],
)
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


@pytest.mark.slow
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


def ask_standalone(task: str, folder: Path, requests: list[Any]) -> list[Any]:
    """The answers of a bundle's files to infer requests, in a process that has no transload."""
    argv = [sys.executable, "-P", str(Path(__file__).parent / "standalone_host.py"), task, str(folder)]
    done = subprocess.run(
        argv, input="".join(json.dumps(request) + "\n" for request in requests), cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def request_of(feeds: Any) -> dict[str, Any]:
    kinds = {"float32": "FP32", "int64": "INT64", "bool": "BOOL"}
    rows = [
        {"name": name, "shape": value.shape, "datatype": kinds[value.dtype.name], "data": value.reshape(-1).tolist()}
        for name, value in feeds.items()
    ]
    return {"inputs": rows}


def arrays_of(answer: Any, contract: Any) -> dict[str, Any]:
    import numpy as np

    wanted = contract.answers_to(contract.feeds_of(1))
    return {
        row["name"]: np.array(row["data"], wanted[row["name"]].dtype).reshape(row["shape"]) for row in answer["outputs"]
    }


@pytest.mark.parametrize("form", ["saved-model", "onnx", "torchscript", "tflite"])
def test_the_runtime_of_bundles_answers_as_the_model_does(
    artifact: Callable[[str], Path], contract: Any, tmp_path: Path, form: str
) -> None:
    from transload.serving.bundles.bundle_templates import RUNTIME, standalone

    folder = tmp_path / "1"
    shutil.copytree(artifact(form), folder)
    (folder / f"{RUNTIME}.py").write_text(standalone(RUNTIME))
    calls = [contract.feeds_of(batch, seed) for seed, batch in enumerate((1, 2, 5, 1))]
    good, nested = request_of(calls[0]), request_of(calls[1])
    nested["inputs"][0]["data"] = calls[1]["values"].tolist()
    wrong = [{**good, "inputs": good["inputs"][:2]}, {"input": 1}, request_of({**calls[0], "ids": calls[0]["keep"]})]
    wrong[2]["inputs"][1] |= {"datatype": "INT64", "data": [0.5] * 4, "shape": [1, 4]}
    requests = [*map(request_of, calls), nested, *wrong, request_of({**calls[0], "keep": calls[1]["keep"]})]
    answers = ask_standalone("runtime", folder, requests)
    for answer, feeds in zip(answers, [*calls, calls[1]], strict=False):
        contract.same(arrays_of(answer, contract), contract.answers_to(feeds))
    assert [answer.get("error") for answer in answers[5:]] == [
        "the model takes values, ids, keep, got values, ids",
        "no infer request of the Open Inference Protocol: KeyError('inputs')",
        "ids holds values that are no INT64",
        "keep is bool[2], expected bool['batch']",
    ]


def test_tritons_model_answers_as_the_model_does(write: Callable[..., Path], contract: Any) -> None:
    folder = write("tflite", "triton", name="contract") / "model_repository" / "contract" / "1"
    feeds = contract.feeds_of(3)
    good, wrong = ask_standalone("triton", folder, [request_of(feeds), request_of({**feeds, "ids": feeds["ids"][:2]})])
    contract.same(arrays_of(good, contract), contract.answers_to(feeds))
    assert wrong == {"error": "ids is int64[2, 4], expected int64['batch', 4]"}


def unpack_mar(folder: Path, out: Path) -> Path:
    with zipfile.ZipFile(folder / "model_store" / "contract.mar") as mar:
        mar.extractall(out)  # noqa: S202  (written by us)
    return out


def unpack_tar(folder: Path, out: Path) -> Path:
    with tarfile.open(folder / "model.tar.gz") as tar:
        tar.extractall(out, filter="data")
    return out


CODE: list[tuple[str, str, Callable[[Path, Path], Path]]] = [
    ("torchserve", "torchscript", unpack_mar),
    ("sagemaker", "torchscript", unpack_tar),
    ("sagemaker", "onnx", unpack_tar),
    ("ray-serve", "onnx", lambda folder, out: folder),
]


@pytest.mark.parametrize("case", CODE, ids=[f"{row[0]}-{row[1]}" for row in CODE])
def test_the_code_of_a_bundle_answers_as_the_model_does(
    write: Callable[..., Path], contract: Any, tmp_path: Path, case: tuple[str, str, Callable[[Path, Path], Path]]
) -> None:
    system, form, unpack = case
    folder = unpack(write(form, system, name="contract", version=3), tmp_path / "unpacked")
    feeds = contract.feeds_of(3)
    requests = [request_of(feeds), request_of({**feeds, "ids": feeds["ids"][:2]})]
    good, wrong = ask_standalone(system, folder, requests)
    contract.same(arrays_of(good, contract), contract.answers_to(feeds))
    assert (good["status"], wrong) == (200, {"error": "ids is int64[2, 4], expected int64['batch', 4]", "status": 400})
    assert system != "ray-serve" or (good["model_name"], good["model_version"]) == ("contract", "3")


def test_vertex_ais_container_serves_what_the_check_expects(write: Callable[..., Path], tmp_path: Path) -> None:
    """entrypoint.sh runs the real command, with the paths and the host of this machine."""
    folder = write("onnx", "vertex", name="contract")
    script = (folder / "entrypoint.sh").read_text()
    here = {
        "exec transload": "exec " + " ".join(PROGRAM), "/opt/model": str(folder / "artifact"), "0.0.0.0": "127.0.0.1",  # noqa: S104
        "8500": "0",
    }  # fmt: skip
    for text, replacement in here.items():
        assert text in script
        script = script.replace(text, replacement)
    with serving(["-c", script], program=["sh"], AIP_HTTP_PORT="0", AIP_HEALTH_ROUTE="/v2/health/ready") as address:
        status, said = check(folder, address)
        assert status == 0, said
        with urllib.request.urlopen(f"http://{address}/v2/health/ready") as reply:
            assert reply.status == 200


def test_an_artifact_without_a_run_has_the_limit_of_its_precision(artifact: Any, tmp_path: Path) -> None:
    shutil.copytree(artifact("onnx"), tmp_path / "made" / "onnx-fp16")
    record = tmp_path / "made" / "onnx-fp16" / "artifact.json"
    record.write_text(record.read_text().replace('"target": "onnx"', '"target": "onnx:fp16"'))
    folders: Any = {"runs": tmp_path / "runs", "store": tmp_path / "store"}
    full = bundle(artifact("onnx"), system="docker", out=tmp_path / "full", **folders)
    half = bundle(record.parent, system="docker", out=tmp_path / "half", **folders)
    limits = [(done.status, done.tolerance.least_db, done.tolerance.most_unequal) for done in (full, half)]
    assert limits == [(None, 60.0, 0.0), (None, 40.0, 0.1)]


def test_the_command_says_what_it_bundled(artifact: Any, tmp_path: Path) -> None:
    words = ["bundle", str(artifact("onnx")), "--for", "docker", "--out", "out", "--quiet"]
    done = subprocess.run([*PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"bundled {artifact('onnx')} (onnx) for docker in out\n"
        "golden samples: 3 calls, random inputs that fit its signature; tolerance: 60.0 dB\n"
        "note: no run beside it says that it was verified, and the check compares with its answers all the same\n"
        "out/README.md says how to start it; then check it: out/check.sh http://127.0.0.1:8501\n"
    )
    words[3] = "tfserving"
    done = subprocess.run([*PROGRAM, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {artifact('onnx')} is of the format onnx, and tfserving takes saved-model\n")
