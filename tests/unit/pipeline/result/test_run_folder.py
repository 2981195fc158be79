"""A log is linked where its row names it; an artifact's row says what its file stores."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from transload.converters.conversion_records import StoredPrecision, StoredWeights
from transload.models.artifact import write_artifact
from transload.models.formats import parse_target
from transload.models.signature import Signature, TensorSpec
from transload.models.store import Stored
from transload.pipeline.plan.artifact_rows import artifact_row, copies_by_slug
from transload.pipeline.plan.router import TargetResult
from transload.pipeline.plan.run_plan import Route
from transload.pipeline.result.run_folder import links, publish_artifacts
from transload.pipeline.result.schema import RouteStatus, Status, TriedRow, Verdict, WeightsRow

from ..show import samples


def test_logs_and_scripts_are_linked_by_the_rows_that_they_belong_to(tmp_path: Path) -> None:
    (tmp_path / "repeat").mkdir()
    (tmp_path / "repeat" / "train.sh").touch()
    result = samples.result()
    artifact, drift, latency = result.artifacts[0], result.drift[0], result.latency[0]
    tried = (
        TriedRow(("a",), RouteStatus.WRONG, "no", "logs/verify.x.a.log"),
        TriedRow(artifact.route, RouteStatus.VERIFIED, "yes", "logs/verify.x.b.log"),
    )
    result = replace(
        result,
        artifacts=(replace(artifact, tried=tried), replace(artifact, name="lost", route=(), tried=tried[:1])),
        drift=(replace(drift, log="logs/validate.log"), replace(drift, runtime="other", log="logs/other.log")),
        latency=(replace(latency, artifact=drift.artifact, runtime=drift.runtime, log="logs/bench.log"), latency),
    )
    assert links(tmp_path, result) == (
        {
            artifact.name: "logs/verify.x.b.log",
            "lost": "logs/verify.x.a.log",
            f"{drift.artifact} in {drift.runtime}": "logs/bench.log",
            f"{drift.artifact} in other": "logs/other.log",
        },
        {"train": "repeat/train.sh"},
    )


@pytest.mark.parametrize(
    ("dtype", "verdict", "status"),
    [
        ("int8", Verdict.PASS, Status.VERIFIED),
        ("float32", Verdict.PASS, Status.UNVERIFIED),
        ("float32", Verdict.FAIL, Status.FAILED),
    ],
)
def test_a_copy_that_holds_nothing_of_its_precision_is_never_verified(
    tmp_path: Path, dtype: str, verdict: Verdict, status: Status
) -> None:
    target = parse_target("onnx:int8")
    (tmp_path / "model.onnx").touch()
    specs = (TensorSpec("x", "float32", ("batch", 2)),)
    write_artifact(tmp_path, target, Signature(specs, specs))
    stored = Stored("k", "d", tmp_path, {}, tmp_path / "log", 1.0, cached=False)
    precision = StoredPrecision(weights=(StoredWeights(dtype=dtype, tensors=2, bytes=64),))
    row = artifact_row(
        TargetResult(target, stored, Route(()), precision=precision),
        [replace(samples.drift("onnx:int8", "onnxruntime", 30.0), verdict=verdict)],
    )
    assert row.status is status
    assert row.weights == (WeightsRow(dtype, 2, 64),)


def test_a_runs_artifacts_are_plain_files_that_the_store_shares(tmp_path: Path) -> None:
    """A copy of the run's folder is whole, and the store's object is not needed for it."""
    target, objects, run = parse_target("saved-model"), tmp_path / "objects", tmp_path / "run"
    specs = (TensorSpec("x", "float32", ("batch", 2)),)
    (objects / "made" / "saved_model" / "variables").mkdir(parents=True)
    (objects / "made" / "saved_model" / "variables" / "v").write_text("weights")
    write_artifact(objects / "made", target, Signature(specs, specs))
    (objects / "source").mkdir()
    (objects / "source" / "source.json").write_text("{}")
    run.mkdir()
    made, source = (
        Stored("k", "d", objects / name, {}, tmp_path / "log", 1.0, cached=False) for name in ("made", "source")
    )
    for _ in range(2):  # again, in place of the first
        results = [TargetResult(target, made, Route(())), TargetResult(target, None, None)]
        publish_artifacts(run, source, copies_by_slug(results))
    assert not any(path.is_symlink() for path in run.rglob("*"))
    weights = run / "artifacts" / "saved-model" / "saved_model" / "variables" / "v"
    assert weights.samefile(objects / "made" / "saved_model" / "variables" / "v")
    shutil.rmtree(objects)
    assert weights.read_text() == "weights"
    assert (run / "artifacts" / "source" / "source.json").is_file()
