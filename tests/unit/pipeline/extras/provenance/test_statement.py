"""What a statement says, in the words of in-toto and SLSA."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.pipeline.extras.provenance.build_facts import _without_folders
from transload.pipeline.extras.provenance.statement import make_statement
from transload.pipeline.extras.provenance.statement_file import read_statement
from transload.pipeline.result.schema import GateRow, Verdict

from .statement_samples import BUILD, card, write_stated

DIGESTS = {"model.onnx": "1" * 64, "README.md": "2" * 64}


def test_a_statement_names_every_file_and_what_went_in(tmp_path: Path) -> None:
    statement = make_statement(DIGESTS, card(tmp_path / "onnx"), BUILD)
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1",
    )  # fmt: skip
    assert statement["subject"] == [
        {"name": "README.md", "digest": {"sha256": "2" * 64}}, {"name": "model.onnx", "digest": {"sha256": "1" * 64}},
    ]  # fmt: skip
    definition, details = (statement["predicate"][name] for name in ("buildDefinition", "runDetails"))
    assert definition["externalParameters"] == {
        "command": "convert", "model": "net.py:Net", "target": "onnx", "options": {"convert": {"targets": ["onnx"]}},
    }  # fmt: skip
    assert definition["internalParameters"] == {"route": ["torch.export", "torch.onnx-dynamo"]}
    assert [row["digest"] for row in definition["resolvedDependencies"]] == [
        {"transload_sha256": "a" * 64}, {"sha256": "b" * 64},
    ]  # fmt: skip
    assert details["builder"]["version"] == {"transload": "0.1.0", "python": "3.11.7", "torch": "2.13.0"}
    assert details["metadata"] == {}


def test_a_machine_has_a_key_that_changes_with_it(tmp_path: Path) -> None:
    own = card(tmp_path / "onnx")
    other = replace(BUILD, environment=replace(BUILD.environment, cpu="another"))
    keys = [make_statement(DIGESTS, own, build)["predicate"]["runDetails"]["builder"]["id"] for build in (BUILD, other)]
    assert all(key.startswith("urn:transload:machine:") for key in keys)
    assert keys[0] != keys[1]


def test_a_run_has_its_id_and_its_start(tmp_path: Path) -> None:
    build = replace(BUILD, command="run", run_id="20260101-net", started_at="2026-01-01T00:00:00+00:00")
    metadata = make_statement(DIGESTS, card(tmp_path / "onnx"), build)["predicate"]["runDetails"]["metadata"]
    assert metadata == {"invocationId": "20260101-net", "startedOn": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("status", "verdicts", "expected"),
    [
        ("verified", {}, "pass"),
        ("degraded", {"onnx": Verdict.PASS}, "pass"),
        ("failed", {"onnx": Verdict.PASS}, "fail"),
        ("unverified", {}, "inconclusive"),
        ("verified", {"onnx": Verdict.FAIL}, "fail"),
        ("verified", {"tflite": Verdict.FAIL}, "pass"),  # another artifact's row
    ],
)
def test_the_verdict_is_that_of_the_status_and_of_the_own_rules(
    tmp_path: Path, status: str, verdicts: dict[str, Verdict], expected: str
) -> None:
    gate = tuple(GateRow("latency_p99", 0.1, 0.2, verdict, name, "onnxruntime") for name, verdict in verdicts.items())
    part = make_statement(DIGESTS, card(tmp_path / "onnx", status=status), BUILD, gate)["predicate"][
        "transload_verdict"
    ]
    assert (part["verdict"], part["status"]) == (expected, status)
    assert [row["rule"] for row in part["gate"]] == ["latency_p99"] * ("onnx" in verdicts)


def test_absolute_paths_lose_their_folders() -> None:
    options = {"model": {"weights": "/home/somebody/w.pt", "recipe": "src/net.py:Net"}, "data": ["~/x.npz", "hf:/a/b"]}
    assert _without_folders(options) == {
        "model": {"weights": "w.pt", "recipe": "src/net.py:Net"}, "data": ["x.npz", "hf:b"],
    }  # fmt: skip


def test_the_same_is_written_twice_and_sha256sum_takes_the_list(tmp_path: Path) -> None:
    first, second = (write_stated(tmp_path / name) for name in "ab")
    assert (first / "provenance.json").read_bytes() == (second / "provenance.json").read_bytes()
    subprocess.run(["sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS"], cwd=first, check=True)
    assert "provenance.json" in (first / "SHA256SUMS").read_text()


BROKEN = {
    "": "Expecting value: line 1 column 1 (char 0)",
    "[]": "list indices must be integers or slices, not str",
    "{}": "it lacks '_type'",
    '{"_type": "x"}': "its type is 'x', and not https://in-toto.io/Statement/v1",
    '{"payloadType": "text/plain"}': "its payload is 'text/plain', and no in-toto statement",
    '{"payloadType": "application/vnd.in-toto+json"}': "it is no DSSE envelope",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_statement_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "provenance.json").write_text(text)
    with pytest.raises(BadRequest) as caught:
        read_statement(tmp_path)
    assert caught.value.what == f"{tmp_path}/provenance.json is no statement that can be read: {BROKEN[text]}"


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ({"name": "../x", "digest": {"sha256": "1" * 64}}, "the subject '../x' is no name of a file in the folder"),
        ({"name": "/x", "digest": {"sha256": "1" * 64}}, "the subject '/x' is no name of a file in the folder"),
        ({"name": "x", "digest": {"sha256": "1"}}, "the subject 'x' is named twice, or its sha256 is none"),
        ({"name": "x", "digest": {}}, "it lacks 'sha256'"),
    ],
)
def test_a_subject_of_another_form_is_refused(tmp_path: Path, subject: dict[str, object], reason: str) -> None:
    folder = write_stated(tmp_path / "onnx")
    document = json.loads((folder / "provenance.json").read_text())
    (folder / "provenance.json").write_text(json.dumps({**document, "subject": [subject]}))
    with pytest.raises(BadRequest) as caught:
        read_statement(folder)
    assert caught.value.what.endswith(reason)
