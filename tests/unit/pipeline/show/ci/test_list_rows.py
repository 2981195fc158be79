"""The rows of a list of models for a CI: every target once, every lack once, with its line in the list."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from transload.pipeline.cli import main
from transload.pipeline.commands.model_list.list_row import failures_of_gate, rows_of_drift
from transload.pipeline.plan.models_file import read_models_file
from transload.pipeline.result.failure_kinds import FailureKind
from transload.pipeline.result.list_records import ListCommand, ListResult, ModelRow, RowState, decide_list
from transload.pipeline.result.schema import GateRow, Status, Verdict
from transload.pipeline.show.ci.ci_rows import CiOutcome, CiRow, count_once
from transload.pipeline.show.ci.junit_file import junit_text
from transload.pipeline.show.ci.list_rows import rows_of_list
from transload.pipeline.show.ci.sarif_file import sarif_text

from ...commands.model_list.list_samples import failure, row, target
from .test_ci_files import compared

LIST = """[defaults]
to = ["onnx"]

[[model]]
source = "net.py:Net"

[[model]]
name = "other"
pipeline = "other.toml"

[sweep]
models = [
  "zoo:digits-cnn",
]
"""
NAMES = ("net-Net", "other", "digits-cnn")
PASS, FAIL, OPEN = CiOutcome.PASS, CiOutcome.FAIL, CiOutcome.INCONCLUSIVE


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models.toml").write_text(LIST)
    (tmp_path / "net.py").write_text("def Net():\n    return None\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(*models: ModelRow) -> list[CiRow]:
    """Return the rows of a list with these models, and passing ones in place of the others of the file."""
    named = {model.name: model for model in models}
    rows = tuple(named.get(name) or row(name) for name in NAMES)
    verdict, status = decide_list(rows)
    result = ListResult(1, "0", ListCommand.CONVERT, verdict, status, "2026-01-01T00:00:00+00:00", 1.0, rows, ())
    return rows_of_list(result, read_models_file(Path("models.toml")), Path("models.toml"))


def told(rows: list[CiRow]) -> list[tuple[str, CiOutcome, str, int]]:
    """Return the rows that do not pass, with their lines."""
    return [
        (ci_row.name, ci_row.outcome, ci_row.place.uri, ci_row.place.line)
        for ci_row in rows
        if ci_row.outcome is not PASS and ci_row.place
    ]


@pytest.mark.usefixtures("project")
def test_each_target_of_each_model_is_a_case_and_a_models_time_stands_once() -> None:
    both = replace(row("net-Net"), targets=(target(), target("tflite", Status.DEGRADED)))
    rows = rows_of(both)
    assert [(ci_row.name, ci_row.outcome, ci_row.seconds) for ci_row in rows] == [
        ("net-Net: onnx", PASS, 1.5), ("net-Net: tflite", PASS, 0.0), ("other: onnx", PASS, 1.5),
        ("digits-cnn: onnx", PASS, 1.5),
    ]  # fmt: skip
    root = ET.fromstring(junit_text(rows, "convert"))  # noqa: S314  (it was written here)
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "time")} == {
        "tests": "4", "failures": "0", "errors": "0", "time": "4.500",
    }  # fmt: skip


@pytest.mark.usefixtures("project")
def test_a_model_that_cannot_be_taken_leads_to_its_line() -> None:
    refused = failure("there is no digits-cnn", kind=FailureKind.INPUT, step="load the model", target=None)
    rows = rows_of(*(row(name, refused, status=2) for name in NAMES))
    assert told(rows) == [
        ("net-Net", FAIL, "models.toml", 5), ("other", FAIL, "models.toml", 9), ("digits-cnn", FAIL, "models.toml", 13),
    ]  # fmt: skip
    assert rows[0].message == "load the model: there is no digits-cnn; fix: write it otherwise"
    named = replace(refused, message="making the model raised RuntimeError at net.py:2: no")
    assert told(rows_of(row("net-Net", named, status=2))) == [("net-Net", FAIL, "net.py", 2)]


@pytest.mark.usefixtures("project")
def test_a_target_that_fails_says_why_and_is_told_once() -> None:
    lost = replace(target("tflite", Status.FAILED), path=None, note="no route")
    model = replace(row("net-Net", failure("aten.x is not known"), status=4), targets=(target(), lost))
    rows = rows_of(model)
    assert told(rows) == [("net-Net: tflite", FAIL, "models.toml", 5)]
    assert rows[1].message == "failed: aten.x is not known; fix: write it otherwise"


@pytest.mark.usefixtures("project")
def test_a_release_rule_that_is_not_kept_is_told_once_for_its_copy() -> None:
    gate = [
        GateRow("drift", "60 dB", "20 dB", Verdict.FAIL, "onnx", "onnxruntime"),
        GateRow("size", "1 KB", "2 KB", Verdict.FAIL, "onnx", None),
        GateRow("latency_p99 batch=8", "1 ms", "unsure", Verdict.INCONCLUSIVE, "onnx", "openvino"),
    ]
    targets = rows_of_drift([compared(Verdict.FAIL)], gate)
    rows = rows_of(replace(row("net-Net", *failures_of_gate(gate), status=1), targets=targets))
    names = {ci_row.name: (ci_row.rule, ci_row.outcome) for ci_row in rows if ci_row.suite == "gate"}
    assert names == {
        "net-Net: drift of onnx in onnxruntime": ("drift", FAIL), "net-Net: size of onnx": ("size", FAIL),
        "net-Net: latency_p99 batch=8 of onnx in openvino": ("latency_p99", OPEN),
    }  # fmt: skip
    results = json.loads(sarif_text(count_once(rows), "validate", 1))["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["drift", "size", "latency_p99"], "and not once more as a target"
    assert len({ci_row.name for ci_row in rows}) == len(rows)


def test_a_rule_of_a_pipeline_file_leads_to_its_key(project: Path) -> None:
    (project / "other.toml").write_text("[gate]\nverified = true\nsize = 1000\n")
    gate = [GateRow("size", 1000.0, 2000.0, Verdict.FAIL, "onnx", None)]
    rows = rows_of(replace(row("other", *failures_of_gate(gate), status=1), targets=(target(),)))
    assert told(rows) == [("other: size of onnx", FAIL, "other.toml", 3)]


@pytest.mark.usefixtures("project")
def test_a_model_that_does_not_pass_is_never_told_as_one_that_does() -> None:
    silent = replace(row("net-Net", status=1))  # no target and no failure says why
    left = row("other", state=RowState.NOT_STARTED)
    rows = rows_of(silent, replace(left, targets=()))
    assert told(rows) == [("net-Net", FAIL, "models.toml", 5), ("other", OPEN, "models.toml", 9)]
    assert [ci_row.message for ci_row in rows if ci_row.suite == "models"] == [
        "the verdict is fail, with exit status 1", "not started",
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["convert", "validate", "run"])
@pytest.mark.parametrize(("text", "line"), [("[[model]]\nsauce = 1\n", 2), ("[[model]\n", 1)])
def test_a_wrong_list_is_the_only_row_with_its_line(project: Path, command: str, text: str, line: int) -> None:
    (project / "models.toml").write_text(text)
    assert main([command, "models.toml", "--out", "o", "--junit", "j.xml", "--sarif", "s.sarif"]) == 2
    assert len(list(ET.fromstring((project / "j.xml").read_bytes()).iter("testcase"))) == 1  # noqa: S314
    (result,) = json.loads((project / "s.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "models.toml", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": line},
    }  # fmt: skip
