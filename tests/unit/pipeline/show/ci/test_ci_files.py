"""The files for a CI: every row is told, in a form that its readers take, with the line that it comes from."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from transload.models.errors import BadRequest, ToolMissing
from transload.pipeline.cli import main
from transload.pipeline.result.compare.change_records import Change, FigureChange, FigureKind, RunComparison
from transload.pipeline.result.schema import (
    ArtifactRow,
    DriftRow,
    GateRow,
    LeftOutRow,
    LocatedRow,
    RouteStatus,
    SmallestRow,
    Status,
    Tolerance,
    TriedRow,
    Verdict,
)
from transload.pipeline.show.ci.ci_files import ci_files
from transload.pipeline.show.ci.ci_rows import (
    CiOutcome,
    CiRow,
    count_once,
    row_of_error,
    rows_of_comparison,
    rows_of_drift,
    rows_of_run,
    rows_of_targets,
)
from transload.pipeline.show.ci.junit_file import junit_text
from transload.pipeline.show.ci.sarif_file import sarif_text
from transload.pipeline.show.ci.source_places import SourcePlace, SourcePlaces

PIPELINE = """[model]
recipe = "net.py:Net"

[convert]
targets = [
  "onnx",
  "tflite:int8",
]

[gate]
size = 1000
"""
NET = "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n"
NOWHERE = SourcePlaces()
# The part of SARIF 2.1.0 that is written here, in the words of the standard's sections 3.13 to 3.59.
TEXT: dict[str, Any] = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}},
}
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "run": {
            "type": "object",
            "required": ["tool"],
            "additionalProperties": False,
            "properties": {
                "tool": {
                    "type": "object",
                    "required": ["driver"],
                    "properties": {
                        "driver": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "version": {"type": "string"},
                                "rules": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": {
                                        "type": "object",
                                        "required": ["id"],
                                        "properties": {"shortDescription": TEXT},
                                    },
                                },
                            },
                            "additionalProperties": False,
                        }
                    },
                },
                "automationDetails": {"type": "object", "properties": {"id": {"type": "string"}}},
                "invocations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["executionSuccessful"],
                        "properties": {"executionSuccessful": {"type": "boolean"}, "exitCode": {"type": "integer"}},
                        "additionalProperties": False,
                    },
                },
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
        },
        "result": {
            "type": "object",
            "required": ["message", "locations"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": TEXT,
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "locations": {
                    "type": "array",
                    "minItems": 1,  # of GitHub, which refuses the file otherwise
                    "items": {
                        "type": "object",
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "required": ["artifactLocation", "region"],
                                "properties": {
                                    "artifactLocation": {
                                        "required": ["uri"],
                                        "properties": {"uri": {"type": "string", "format": "uri-reference"}},
                                    },
                                    "region": {"properties": {"startLine": {"type": "integer", "minimum": 1}}},
                                },
                            }
                        },
                    },
                },
            },
        },
    },
}


def artifact(name: str, status: Status = Status.VERIFIED) -> ArtifactRow:
    made = status is not Status.FAILED
    tried = TriedRow(
        ("step",), RouteStatus.VERIFIED if made else RouteStatus.FAILED, "agrees to 90 dB" if made else "no"
    )
    path = f"{name}/model" if made else None
    route = ("step",) if made else ()
    return ArtifactRow(name, name, "fp32", path, None, None, status, route, (tried,), 2.5, None, ())


def compared(verdict: Verdict, batch: int = 1) -> DriftRow:
    return DriftRow("onnx", "onnxruntime", batch, 8, 0.5, 0.1, 0.9, 20.0, 0, Tolerance(60.0, None), verdict, None)


DRIFT_RULE = GateRow("drift", "SQNR at least 60 dB", "SQNR 20 dB at batch 1", Verdict.FAIL, "onnx", "onnxruntime")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cases(text: bytes) -> dict[str, ET.Element]:
    root = ET.fromstring(text)  # noqa: S314  (it was written here)
    return {case.get("name", ""): case for case in root.iter("testcase")}


def test_each_target_is_a_case_with_its_reason_and_time() -> None:
    rows = rows_of_targets(
        [artifact("onnx"), artifact("tflite", Status.FAILED), artifact("pt2", Status.UNVERIFIED)],
        NOWHERE,
        smallest=[SmallestRow("tflite", ("step",), 1, "aten.x fails", "repeat/x.py", "")],
    )
    found = {row.name: (row.outcome, row.message, row.seconds) for row in rows}
    assert found == {
        "onnx": (CiOutcome.PASS, "verified: agrees to 90 dB", 2.5),
        "tflite": (CiOutcome.FAIL, "failed: no; at its smallest: aten.x fails", 2.5),
        "pt2": (CiOutcome.INCONCLUSIVE, "unverified: agrees to 90 dB", 2.5),
    }


def test_comparisons_and_rules_are_cases_and_the_place_is_told_once_in_sarif() -> None:
    located = [LocatedRow("onnx", "onnxruntime", "aten.flip in layer, net.py:3")]
    rows = list(
        rows_of_drift([compared(Verdict.FAIL), compared(Verdict.FAIL, 2)], [DRIFT_RULE], NOWHERE, located=located)
    )
    assert [row.name for row in rows] == [
        "onnx in onnxruntime at batch 1", "onnx in onnxruntime at batch 2", "drift of onnx in onnxruntime",
    ]  # fmt: skip
    assert rows[0].message == (
        "onnx in onnxruntime: SQNR 20 dB at batch 1, limit SQNR at least 60 dB; located: aten.flip in layer, net.py:3"
    )
    results = json.loads(sarif_text(count_once(rows), "validate", 1))["runs"][0]["results"]
    assert [result["message"]["text"].partition(":")[0] for result in results] == ["drift of onnx in onnxruntime"]


def test_a_comparison_that_no_rule_sums_up_is_told() -> None:
    rows = list(rows_of_drift([compared(Verdict.FAIL)], [], NOWHERE))
    assert len(json.loads(sarif_text(rows, "validate", 1))["runs"][0]["results"]) == 1


def test_figures_of_two_runs_are_cases() -> None:
    changes = (Change.WORSE, Change.BETTER, Change.NOT_COMPARED, Change.INCONCLUSIVE)
    figures = tuple(
        FigureChange("onnx", "onnxruntime", at, FigureKind.LATENCY, 1.0, 2.0, 2.0, None, 0.05, change, "because")
        for at, change in enumerate(changes, 1)
    )
    rows = list(rows_of_comparison(RunComparison("a", "b", (), (), (), figures)))
    assert [row.outcome for row in rows] == [
        CiOutcome.FAIL, CiOutcome.PASS, CiOutcome.SKIPPED, CiOutcome.INCONCLUSIVE,
    ]  # fmt: skip
    assert rows[0].name == "latency of onnx in onnxruntime at batch 1"
    assert rows[0].message == "onnx in onnxruntime at batch 1: latency is worse: because"


ROWS = [
    CiRow(suite="targets", name="a", rule="target", outcome=CiOutcome.PASS, message="fine", seconds=1.5),
    CiRow(
        suite="gate", name="b & <c>", rule="latency_p99", outcome=CiOutcome.FAIL, message="bell \x07 and \ud800",
        place=SourcePlace(Path("/elsewhere/a b.toml"), 3),
    ),
    CiRow(suite="gate", name="d", rule="latency_p99", outcome=CiOutcome.INCONCLUSIVE, message="open"),
    CiRow(suite="gate", name="e", rule="size", outcome=CiOutcome.SKIPPED, message="left out"),
]  # fmt: skip


def test_junit_counts_what_it_holds() -> None:
    root = ET.fromstring(junit_text(ROWS, "run"))  # noqa: S314
    assert root.attrib == {"name": "transload run", "tests": "4", "failures": "1", "errors": "1", "time": "1.500"}
    counts = [
        (suite.get("name"), *(suite.get(name) for name in ("tests", "failures", "errors", "skipped"))) for suite in root
    ]
    assert counts == [("targets", "1", "0", "0", "0"), ("gate", "3", "1", "1", "1")]
    told = {
        name: [(child.tag, child.get("message")) for child in case]
        for name, case in cases(junit_text(ROWS, "run")).items()
    }
    assert told == {
        "a": [("system-out", None)],
        "b & <c>": [("failure", r"bell \x07 and \ud800")],
        "d": [("error", "open")],
        "e": [("skipped", "left out")],
    }
    failure = cases(junit_text(ROWS, "run"))["b & <c>"].find("failure")
    assert failure is not None
    assert (failure.text or "").splitlines()[-1] == "/elsewhere/a b.toml:3"


def test_sarif_is_of_the_standards_form_and_holds_what_does_not_pass() -> None:
    document = json.loads(sarif_text(ROWS[:1] + ROWS[2:], "run", 3))
    jsonschema.Draft202012Validator(SARIF).validate(document)
    (run,) = document["runs"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [("latency_p99", "warning")]
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 3}]  # it came to a verdict
    assert run["tool"]["driver"]["rules"][run["results"][0]["ruleIndex"]]["id"] == "latency_p99"


def test_an_alert_keeps_its_fingerprint_when_its_numbers_change() -> None:
    texts = [sarif_text([replace(ROWS[2], message=message)], "run", 3) for message in ("1 ms", "2 ms")]
    marks = {json.loads(text)["runs"][0]["results"][0]["partialFingerprints"]["transloadRow/v1"] for text in texts}
    assert len(marks) == 1


PLACES = {
    ("target", "tflite:int8", "it failed"): ("pipeline.toml", 7),  # the item of the list
    ("target", "pt2", "it failed"): ("pipeline.toml", 5),  # that is not in the list
    ("size", "onnx", "size: 2 KB, limit 1 KB"): ("pipeline.toml", 11),
    ("drift", "onnx", "aten.flip, net.py:5 (`pass`)"): ("net.py", 5),
    ("drift", "onnx", "aten.flip, other.py:5"): ("net.py", 4),  # no such file: where the model begins
    ("no_worse latency", "onnx", "slower"): ("net.py", 4),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_row_leads_to_the_line_that_it_comes_from(project: Path, case: tuple[str, str, str]) -> None:
    place = SourcePlaces(project / "pipeline.toml", "net.py:Net").of_rule(*case)
    assert place is not None
    assert (place.uri, place.line) == PLACES[case]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout at `real`, which is the working folder, and a link to it."""
    root = tmp_path / "real"
    (root / ".git").mkdir(parents=True)
    (root / "sub dir").mkdir()
    (tmp_path / "link").symlink_to(root)
    (root / "sub dir" / "inner.py").touch()
    (root / "alias.py").symlink_to("sub dir/inner.py")
    (tmp_path / "outer.py").touch()
    (root / "outer.py").symlink_to(tmp_path / "outer.py")
    monkeypatch.chdir(root / "sub dir")
    return tmp_path


@pytest.mark.parametrize(
    ("named", "path", "uri"),
    [
        ("net.py", "sub dir/net.py", "sub%20dir/net.py"),
        ("../sub dir/../net.py", "net.py", "net.py"),
        ("{}/link/net.py", "net.py", "net.py"),
        ("{}/link/../real/net.py", "net.py", "net.py"),
        ("{}/real/alias.py", "sub dir/inner.py", "sub%20dir/inner.py"),
        ("{}/real/outer.py", "outer.py", "outer.py"),  # git knows the link, not where it leads
        ("../../other/../net.py", "{}/net.py", "file://{}/net.py"),
        ("{}/100% a#b?.py", "{}/100% a#b?.py", "file://{}/100%25%20a%23b%3F.py"),
        ("100%25 a#b?.py", "sub dir/100%25 a#b?.py", "sub%20dir/100%2525%20a%23b%3F.py"),
        ("../C:\\new\\net.py", "C:\\new\\net.py", "C%3A%5Cnew%5Cnet.py"),
        ("../\udcff.py", "\udcff.py", "%FF.py"),  # a name that is not UTF-8
    ],
)
def test_a_path_is_told_from_the_root_of_the_repository(repository: Path, named: str, path: str, uri: str) -> None:
    place = SourcePlace(Path(named.replace("{}", str(repository))), 3)
    assert (place.path, place.uri) == (path.replace("{}", str(repository)), uri.replace("{}", str(repository)))
    row = replace(ROWS[1], place=place)
    document = json.loads(sarif_text([row], "run", 1))
    checker = jsonschema.Draft202012Validator(SARIF, format_checker=jsonschema.FormatChecker())
    checker.validate(document)
    location = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": place.uri, **({} if place.uri.startswith("file:") else {"uriBaseId": "%SRCROOT%"})}
    assert b":3</failure>" in junit_text([row], "run")


def test_a_working_folder_outside_the_repository_changes_no_path(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert SourcePlace(repository / "link" / "sub dir" / "net.py", 1).path == "sub dir/net.py"


@pytest.mark.parametrize("folder", ["", "src"])
@pytest.mark.parametrize("model", ["pkg.nets.model:Net", "{}pkg/nets/model.py:Net", "./{}pkg/../pkg/nets/model.py:Net"])
def test_a_model_is_found_as_a_file_and_as_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, model: str
) -> None:
    nets = tmp_path / folder / "pkg" / "nets"
    nets.mkdir(parents=True)
    for package in (nets, nets.parent):
        (package / "__init__.py").touch()
    (nets / "model.py").write_text(NET)
    (nets.parent / "layers.py").touch()
    for twin in (nets, nets.parent):
        (twin / "twin.py").touch()
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    places = SourcePlaces(model=model.replace("{}", f"{folder}/" if folder else ""))
    base = f"{folder}/pkg" if folder else "pkg"
    lines = [places.of_rule("drift", "onnx", text) for text in ("no line", "aten.flip, layers.py:7", "twin.py:2")]
    assert [(place.uri, place.line) for place in lines if place] == [
        (f"{base}/nets/model.py", 4), (f"{base}/layers.py", 7), (f"{base}/nets/twin.py", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("model", ["made/onnx", "net.onnx", "http://127.0.0.1:1/v1/x", "no.such:Net", "timm:vit"])
def test_what_is_no_code_has_no_line(model: str, project: Path) -> None:
    (project / "made" / "onnx").mkdir(parents=True)
    assert SourcePlaces(model=model).of_rule("target", "onnx", "no") is None


def test_a_recipe_of_the_zoo_has_no_line() -> None:
    assert SourcePlaces(model="zoo:digits-cnn").of_rule("target", "onnx", "no") is None


def test_an_error_is_the_only_row_and_names_the_line_of_the_pipeline_file(project: Path) -> None:
    with pytest.raises(BadRequest), ci_files("run", project / "out" / "j.xml", project / "s.sarif"):
        raise BadRequest("pipeline.toml, line 7: unknown key 'x'", fix="did you mean 'y'?")
    failure = cases((project / "out" / "j.xml").read_bytes())["transload run"].find("failure")
    assert failure is not None
    assert failure.get("message") == "pipeline.toml, line 7: unknown key 'x'; fix: did you mean 'y'?"
    (run,) = json.loads((project / "s.sarif").read_text())["runs"]
    location = run["results"][0]["locations"][0]["physicalLocation"]
    assert location == {
        "artifactLocation": {"uri": "pipeline.toml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7},
    }
    assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 2}]


def test_an_error_without_a_line_has_no_place() -> None:
    assert row_of_error(ToolMissing("no torch", fix="install it"), name="x").place is None


def test_a_place_that_cannot_be_written_stops_the_command(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "net.py:Net", "--to", "onnx", "--out", "made", "--junit", str(project)]) == 2
    expected = f"error: {project} is a folder, and --junit writes a file\n  fix: name another file with --junit\n"
    assert capsys.readouterr().err == expected
    assert not (project / "made").exists()


def test_a_broken_pipeline_file_is_told_to_the_ci(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pipeline.toml").write_text(PIPELINE.replace("size", "siz"))
    assert main(["run", "pipeline.toml", "--sarif", "s.sarif"]) == 2
    result = json.loads((project / "s.sarif").read_text())["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 11}
    assert "did you mean 'size'?" in result["message"]["text"]


def test_a_target_that_was_left_out_is_skipped() -> None:
    from transload.pipeline.show.ci.ci_rows import _left_out

    (row,) = _left_out([LeftOutRow("onnx:int8", "nothing of it is reduced")])
    assert (row.outcome, row.message) == (CiOutcome.SKIPPED, "nothing of it is reduced")


def test_all_rows_of_a_run_are_told(project: Path) -> None:
    from ..samples import result

    run = result()
    rows = rows_of_run(run, SourcePlaces(project / "pipeline.toml"))
    expected = len(run.artifacts) + len(run.drift) + len(run.gate) + len(run.left_out)
    assert len(rows) == expected
    assert len(cases(junit_text(rows, "run"))) == expected  # no two cases have one name
    document = json.loads(sarif_text(rows, "run", 1))
    jsonschema.Draft202012Validator(SARIF).validate(document)
    assert all("locations" in told for told in document["runs"][0]["results"])
