"""A log is linked where its row names it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from transload.pipeline.result.run_folder import links
from transload.pipeline.result.schema import RouteStatus, TriedRow

from ..report import samples


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
