"""What a run says of an artifact, and which artifact of a run is taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format, parse_target
from transload.models.signature import Signature, TensorSpec
from transload.models.store import digest_of
from transload.pipeline.result.verified_artifact import find_artifact

SIGNATURE = Signature((TensorSpec("x", "float32", (3,)),), (TensorSpec("y", "float32", (3,)),))
ORDER = (Format.ONNX, Format.TFLITE)


def write_run(folder: Path, *targets: str, document: str = "convert.json", **fields: Any) -> Path:
    """A folder as `convert` leaves it, or with artifacts/ as `run` does."""
    rows = []
    for text in targets:
        target = parse_target(text)
        home = folder / ("artifacts" if document == "run.json" else ".") / target.slug
        home.mkdir(parents=True)
        (home / target.format.spec.payload).write_text(text)
        artifact = write_artifact(home, target, SIGNATURE)
        path = str(artifact.path.relative_to(folder))
        row = {"name": text, "format": str(target.format), "precision": str(target.precision), "path": path}
        rows.append({**row, "status": "verified", "sha256": digest_of(artifact.path)})
    (folder / document).write_text(json.dumps({"artifacts": rows, **fields}))
    return folder


def change_row(run: Path, **fields: Any) -> None:
    document = json.loads((run / "convert.json").read_text())
    document["artifacts"][0] |= fields
    (run / "convert.json").write_text(json.dumps(document))


@pytest.mark.parametrize("document", ["convert.json", "run.json"])
def test_the_best_artifact_of_a_run_is_that_of_the_first_format_in_full_precision(
    tmp_path: Path, document: str
) -> None:
    run = write_run(tmp_path / "made", "torchscript", "tflite", "onnx:fp16", "onnx", document=document)
    home = run / "artifacts" if document == "run.json" else run
    assert find_artifact(run, ORDER).folder.resolve() == (home / "onnx").resolve()
    assert find_artifact(run, ORDER[1:]).folder.resolve() == (home / "tflite").resolve()


def tolerance(artifact: str, sqnr_db: float | None) -> dict[str, Any]:
    return {"artifact": artifact, "values": "samples", "tolerance": {"sqnr_db": sqnr_db}}


def test_status_tolerance_and_samples_come_from_the_run(tmp_path: Path) -> None:
    probes = [
        tolerance("onnx", 90.0), tolerance("onnx", 101.5), tolerance("onnx", None), tolerance("tflite", 120.0),
        {**tolerance("onnx", 130.0), "values": "image nan"},
    ]  # fmt: skip
    run = write_run(tmp_path / "made", "onnx", "tflite", probes=probes)
    (run / "repeat").mkdir()
    (run / "repeat" / "a.json").write_text(json.dumps({"job": {"inputs": {"data": str(tmp_path / "gone")}}}))
    (run / "repeat" / "b.json").write_text(json.dumps({"job": {"inputs": {"data": str(tmp_path / "data")}}}))
    assert find_artifact(run / "onnx", ORDER).samples is None
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.npz").touch()
    verified = find_artifact(run / "onnx", ORDER)
    assert (verified.status, verified.least_db, verified.samples) == (
        "verified", 101.5, tmp_path / "data" / "test.npz",
    )  # fmt: skip


def test_an_artifact_without_a_run_says_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", "onnx")
    (run / "convert.json").unlink()
    verified = find_artifact(run / "onnx", ORDER)
    assert (verified.status, verified.least_db, verified.samples) == (None, None, None)


def test_what_failed_or_changed_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", "onnx")
    change_row(run, status="failed")
    with pytest.raises(BadRequest, match=r"made/onnx failed in its run"):
        find_artifact(run / "onnx", ORDER)
    with pytest.raises(BadRequest, match=r"made has nothing, and none of it is onnx or tflite"):
        find_artifact(run, ORDER)
    change_row(run, status="degraded")
    assert find_artifact(run, ORDER).status == "degraded"
    (run / "onnx" / "model.onnx").write_text("another")
    with pytest.raises(BadRequest, match=r"made/onnx has changed since it was verified"):
        find_artifact(run, ORDER)


def test_folders_that_are_neither_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is neither an artifact's folder nor that of a run"):
        find_artifact(tmp_path / "none", ORDER)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(BadRequest, match=r"run.json cannot be read: "):
        find_artifact(tmp_path, ORDER)
    run = write_run(tmp_path / "made", "torchscript")
    with pytest.raises(BadRequest) as error:
        find_artifact(run, ORDER)
    assert error.value.what.endswith("made has torchscript, and none of it is onnx or tflite")
    assert error.value.fix == "run or convert again with --to onnx"


@pytest.mark.parametrize(
    "fields",
    [
        {"artifacts": {"a": 1}}, {"artifacts": "ab"}, {"drift": [{}]}, {"drift": 7}, {"probes": [[]]},
        {"probes": [tolerance("onnx", 1.0) | {"tolerance": {"sqnr_db": "60"}}]},
        {"probes": [tolerance("onnx", 1.0) | {"tolerance": []}]},
    ],
)  # fmt: skip
def test_a_document_of_another_form_is_refused(fields: dict[str, Any], tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", "onnx")
    document = json.loads((run / "convert.json").read_text())
    (run / "convert.json").write_text(json.dumps(document | fields))
    with pytest.raises(BadRequest, match=r"made/convert\.json cannot be read: "):
        find_artifact(run, ORDER)


@pytest.mark.parametrize(
    "change", [{"status": "fine"}, {"format": 7}, {"path": ["a"]}, {"path": "a\0b"}, {"sha256": 1}, {"name": None}]
)
def test_a_row_of_another_form_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", "onnx")
    change_row(run, **change)
    with pytest.raises(BadRequest, match=r"made/convert\.json cannot be read: "):
        find_artifact(run / "onnx", ORDER)


@pytest.mark.parametrize("name", ["gone", "n" * 300])
def test_a_payload_that_cannot_be_found_has_changed(name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", "onnx")
    change_row(run, path=f"onnx/{name}")
    with pytest.raises(BadRequest, match=r"made/onnx has changed since it was verified"):
        find_artifact(run / "onnx", ORDER)


@pytest.mark.parametrize(
    "script",
    [
        "[]",
        "nothing",
        "[" * 5000,
        '{"job": 1}',
        '{"job": {"inputs": {"data": "/%s"}}}' % ("a" * 300),
        '{"job": {"inputs": {"data": [1]}}}',
    ],
)
def test_a_script_of_another_form_is_refused(script: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "made", "onnx")
    (run / "repeat").mkdir()
    (run / "repeat" / "a.json").write_text(script)
    with pytest.raises(BadRequest, match=r"the scripts in .*made/repeat cannot be read: "):
        find_artifact(run, ORDER)


@pytest.mark.parametrize("path", [f"{'a' * 256}/model.onnx", f"{'é' * 200}/model.onnx", f"onnx/{'a/' * 600}"])
def test_a_path_that_no_file_system_takes_is_refused(tmp_path: Path, path: str) -> None:
    run = write_run(tmp_path / "made", "onnx")
    change_row(run, path=path)
    with pytest.raises(BadRequest, match="a folder has a longer name than file systems take"):
        find_artifact(run, ORDER)
