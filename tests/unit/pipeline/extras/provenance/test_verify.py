"""`transload verify`: what differs, who signed, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import transload
from transload.models.artifact import BESIDE
from transload.models.errors import BadRequest, Exit, StepFailed
from transload.models.store import digest_of
from transload.pipeline.cli import main
from transload.pipeline.commands.verify import SignatureState, verify
from transload.pipeline.extras.provenance.statement import statement_text
from transload.pipeline.result.schema import GateRow, Verdict
from transload.pipeline.show.card.card_folder import write_card

from .statement_samples import BUILD, card, write_stated


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_stated(tmp_path / "onnx")


def edit(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text("other")  # type: ignore[return-value]


CHANGES: dict[str, tuple[Callable[[Path], object], dict[str, tuple[str, ...]]]] = {
    "payload": (edit("model.onnx"), {"changed": ("model.onnx",)}),
    "card": (edit("README.md"), {"changed": ("README.md",)}),
    "missing": (lambda folder: (folder / "requirements.txt").unlink(), {"missing": ("requirements.txt",)}),
    "added": (edit("weights.bin"), {"unlisted": ("weights.bin",)}),
    "linked folder": (lambda folder: (folder / "assets").symlink_to("/usr"), {"unlisted": ("assets",)}),
    "list": (
        lambda folder: (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.onnx\n"),
        {"relisted": ("README.md", "artifact.json", "card.json", "model.onnx", "provenance.json", "requirements.txt")},
    ),
}


def test_an_untouched_folder_passes(folder: Path) -> None:
    result = verify(folder)
    assert result.decided == (Verdict.PASS, Exit.PASS)
    assert (result.signature, result.is_as_stated) == (SignatureState.NONE, True)


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_differs_is_named_and_ends_in_1(folder: Path, change: str) -> None:
    do, expected = CHANGES[change]
    do(folder)
    result = verify(folder)
    named = ("changed", "missing", "unlisted", "relisted")
    differences = {name: getattr(result, name) for name in named if getattr(result, name)}
    assert differences == expected
    assert result.decided == (Verdict.FAIL, Exit.FAIL)


@pytest.mark.parametrize("name", ["tuning.json", "made_from.json"])
def test_what_no_sum_covers_fails_even_where_it_belongs_to_this_machine(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_text("{}")
    result = verify(folder)
    assert (result.decided[1], result.unlisted) == (Exit.FAIL, (name,))
    assert main(["verify", str(folder)]) == 1
    assert ("fix: tuning.json" in capsys.readouterr().out) is (name == "tuning.json")


def test_the_record_of_the_source_is_covered_and_may_be_left_out(tmp_path: Path) -> None:
    own = card(tmp_path / "onnx")
    (tmp_path / "onnx" / "made_from.json").write_text("{}")
    write_card(tmp_path / "onnx", own, partial(statement_text, card=own, build=BUILD))
    assert verify(tmp_path / "onnx").decided[1] is Exit.PASS
    (tmp_path / "onnx" / "made_from.json").write_text('{"root": "/elsewhere"}')
    assert verify(tmp_path / "onnx").changed == ("made_from.json",)
    (tmp_path / "onnx" / "made_from.json").unlink()
    assert verify(tmp_path / "onnx").decided[1] is Exit.PASS


def test_a_link_fails_whatever_it_leads_to(folder: Path, tmp_path: Path) -> None:
    (folder / "model.onnx").rename(tmp_path / "elsewhere.onnx")
    (folder / "model.onnx").symlink_to(tmp_path / "elsewhere.onnx")
    result = verify(folder)
    assert (result.decided[1], result.linked, result.changed) == (Exit.FAIL, ("model.onnx",), ())


RELEASED = replace(
    BUILD, run_id="20261121-net", parameters={"model": {"version": "1.4"}},
    dependencies=(
        *BUILD.dependencies, {"name": "git", "digest": {"gitCommit": "c0ffee" * 6 + "abcd"}}, {"name": 3, "digest": []},
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pins", "holds"),
    [
        ({"model": "net.py:Net"}, True), ({"model": "a" * 64}, True), ({"model": "b" * 12}, True),
        ({"model": "b" * 11}, False), ({"model": "w.pt"}, False), ({"model": "net.py"}, False), ({"model": ""}, False),
        ({"version": "1.4"}, True), ({"version": "20261121-net"}, True), ({"version": "c0ffeec"}, True),
        ({"version": "1"}, False), ({"version": "1.3"}, False),
        ({"version": "c0ffee"}, False), ({"version": ""}, False),
        ({"model": "net.py:Net", "version": "1.3"}, False), ({"model": "other", "version": "1.4"}, False),
    ],
)  # fmt: skip
def test_what_is_expected_is_pinned(tmp_path: Path, pins: dict[str, str], holds: bool) -> None:
    folder = write_stated(tmp_path / "onnx", build=RELEASED)
    result = verify(folder, **pins)  # type: ignore[arg-type]
    assert result.decided[1] is (Exit.PASS if holds else Exit.FAIL)
    assert bool(result.unexpected) is not holds


def test_a_pin_on_what_is_not_stated_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(folder), "--version", "1.4"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "NOT EXPECTED  the version is not stated, and 1.4 was expected" in lines


def test_a_replay_without_golden_samples_is_refused(folder: Path) -> None:
    with pytest.raises(BadRequest, match="holds no golden samples"):
        verify(folder, replay=True)


def test_what_changed_while_it_was_stated_is_refused(tmp_path: Path) -> None:
    own = card(tmp_path / "onnx")
    digest = digest_of(tmp_path / "onnx", without=BESIDE)
    write_card(tmp_path / "onnx", own, digest=digest)
    write_card(tmp_path / "onnx", own, digest=digest)  # with a card beside it, too
    (tmp_path / "onnx" / "artifact.json").write_text("{}")
    with pytest.raises(StepFailed, match="was changed in the store"):
        write_card(tmp_path / "onnx", own, digest=digest)


def test_a_folder_without_a_list_of_digests_passes(folder: Path) -> None:
    (folder / "SHA256SUMS").unlink()
    assert verify(folder).decided[1] is Exit.PASS


@pytest.mark.parametrize(
    ("status", "gate", "expected"),
    [
        ("degraded", Verdict.PASS, Exit.PASS),
        ("failed", Verdict.PASS, Exit.FAIL),
        ("verified", Verdict.FAIL, Exit.FAIL),
        ("unverified", Verdict.PASS, Exit.INCONCLUSIVE),
    ],
)
def test_the_artifacts_own_verdict_counts(tmp_path: Path, status: str, gate: Verdict, expected: Exit) -> None:
    rows = (GateRow("latency_p99", 0.1, 0.2, gate, "onnx", None),)
    assert verify(write_stated(tmp_path / "onnx", gate=rows, status=status)).decided[1] is expected


def test_a_statement_of_another_tool_decides_nothing(folder: Path) -> None:
    document = json.loads((folder / "provenance.json").read_text())
    del document["predicate"]["transload_verdict"]
    (folder / "provenance.json").write_text(json.dumps(document))
    (folder / "SHA256SUMS").unlink()
    assert verify(folder).decided[1] is Exit.INCONCLUSIVE


def test_the_command_prints_a_sentence_and_ends_with_the_status(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "made from:  net.py:Net (transload_sha256 aaaaaaaaaaaaaaaa)" in lines
    assert "signature:  none: who changes a file can change the statement" in lines
    assert lines[-1] == "PASS  every file is as the statement has it"
    (folder / "model.onnx").write_text("other")
    assert main(["verify", str(folder), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"], document["changed"], document["files"]) == ("fail", ["model.onnx"], 5)


def test_from_python_the_answer_is_that_of_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "model.onnx").write_text("other")
    result = transload.verify(str(folder))
    assert (result.decided, result.changed) == ((Verdict.FAIL, Exit.FAIL), ("model.onnx",))
    assert main(["verify", str(folder), "--json"]) == result.decided[1]
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(result.document))
    with pytest.raises(BadRequest) as caught:
        transload.verify(folder, key=folder / "none.pub")
    assert main(["verify", str(folder), "--key", str(folder / "none.pub")]) == 2
    assert capsys.readouterr().err == f"error: {caught.value}\n"


def test_no_statement_is_inconclusive(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "provenance.json").unlink()
    assert main(["verify", str(folder)]) == 3
    expected = "INCONCLUSIVE  there is no provenance.json: nothing says what made it"
    assert capsys.readouterr().out.splitlines()[-1] == expected


def test_what_is_no_artifact_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(BadRequest) as caught:
            verify(place)
        assert caught.value.what == f"{place} is no artifact's folder"


def test_inspect_says_whether_there_is_a_statement(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(folder)]) == 0
    assert "statement:  not signed (transload verify)" in capsys.readouterr().out.splitlines()
