"""Verdicts and exit statuses of the commands' results, case by case."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from transload.models.errors import BadRequest, Exit, StepFailed, ToolMissing, TransloadError
from transload.models.formats import parse_target
from transload.pipeline.commands.bench import BenchResult
from transload.pipeline.commands.convert import ConvertedModel, ConvertManyResult, ConvertResult
from transload.pipeline.commands.doctor import Diagnosis, State, exit_code
from transload.pipeline.commands.inspect import InspectedArtifact
from transload.pipeline.commands.locate import LocateAllResult, LocateResult
from transload.pipeline.commands.verify import SignatureState, VerifyResult
from transload.pipeline.extras.provenance.statement_file import StatementFile
from transload.pipeline.locate.locate_records import CaptureFacts
from transload.pipeline.result.schema import LatencyRow, LoadRow, Status, Verdict
from transload.pipeline.show.card.card_folder import DigestCheck
from transload.pipeline.show.card.card_records import Card

from ..show import samples

PASSED = (Verdict.PASS, Exit.PASS)
FAILED = (Verdict.FAIL, Exit.FAIL)
OPEN = (Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE)
HERE = Path("here")


def stated(verdict: Verdict | None) -> StatementFile:
    """A statement with this verdict; another tool's where it is None."""
    record = None if verdict is None else SimpleNamespace(verdict=verdict)
    return StatementFile({}, {}, cast("Any", record), None)


def verified(statement: StatementFile | None, signature: SignatureState, **rest: Any) -> VerifyResult:
    return VerifyResult(HERE, statement, signature, **{"key_wanted": False, **rest})


@pytest.mark.parametrize(
    ("verdict", "decided"),
    [(Verdict.PASS, PASSED), (Verdict.FAIL, FAILED), (Verdict.INCONCLUSIVE, OPEN), (None, OPEN)],
)
@pytest.mark.parametrize("signature", [SignatureState.NONE, SignatureState.VALID, SignatureState.UNCHECKED])
def test_a_statement_passes_its_verdict_on(
    verdict: Verdict | None, signature: SignatureState, decided: tuple[Verdict, Exit]
) -> None:
    assert verified(stated(verdict), signature).decided == decided


def test_no_statement_says_nothing() -> None:
    assert verified(None, SignatureState.NONE).decided == OPEN
    assert verified(None, SignatureState.NONE, changed=("model.onnx",)).decided == FAILED


@pytest.mark.parametrize("difference", ["changed", "missing", "unlisted", "relisted", "linked"])
def test_each_difference_of_a_file_fails(difference: str) -> None:
    result = verified(stated(Verdict.PASS), SignatureState.VALID, **{difference: ("model.onnx",)})
    assert (result.is_as_stated, result.decided) == (False, FAILED)


@pytest.mark.parametrize(
    ("signature", "rest", "decided"),
    [
        (SignatureState.WRONG, {}, FAILED),
        (SignatureState.VALID, {"unexpected": ("version 1.0 was expected",)}, FAILED),
        (SignatureState.VALID, {"replayed": "output y differs"}, FAILED),
        (SignatureState.VALID, {"replayed": ""}, PASSED),
        (SignatureState.NONE, {"key_wanted": True}, OPEN),
        (SignatureState.VALID, {"key_wanted": True}, PASSED),
    ],
)
def test_what_else_speaks_against_an_artifact(
    signature: SignatureState, rest: Mapping[str, Any], decided: tuple[Verdict, Exit]
) -> None:
    result = verified(stated(Verdict.PASS), signature, **rest)
    assert (result.is_as_stated, result.decided) == (True, decided)


def timed(server: str | None, p50_s: float | None) -> LatencyRow:
    return cast("LatencyRow", SimpleNamespace(server=server, p50_s=p50_s))


def loaded(server: str | None, requests: int) -> LoadRow:
    return cast("LoadRow", SimpleNamespace(server=server, requests=requests))


@pytest.fixture
def _plain_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rows be as small as the verdict needs them."""
    monkeypatch.setattr("transload.pipeline.commands.bench.answered", lambda row: row.p50_s is not None)


@pytest.mark.usefixtures("_plain_rows")
@pytest.mark.parametrize(
    ("latency", "load", "decided"),
    [
        ([timed(None, 0.1)], [], PASSED),
        ([timed(None, 0.1)], [loaded("remote", 1)], PASSED),
        ([timed(None, None), timed(None, 0.1)], [], (Verdict.FAIL, Exit.TOOLCHAIN)),
        ([timed(None, 0.1)], [loaded("embedded", 0)], (Verdict.FAIL, Exit.TOOLCHAIN)),
        ([timed("remote", None), timed(None, 0.1)], [], (Verdict.INCONCLUSIVE, Exit.TOOLCHAIN)),
        ([timed("remote", None), timed(None, None)], [], (Verdict.FAIL, Exit.TOOLCHAIN)),
        ([], [loaded("remote", 0)], (Verdict.INCONCLUSIVE, Exit.TOOLCHAIN)),
    ],
)
def test_a_measurement_fails_by_what_was_silent_alone(
    latency: list[LatencyRow], load: list[LoadRow], decided: tuple[Verdict, Exit]
) -> None:
    assert BenchResult(tuple(latency), HERE, load=tuple(load)).decided == decided


def located(*, departs: bool, target: str = "onnx") -> LocateResult:
    return LocateResult(CaptureFacts(calls=1, agreement_db=90.0, departs=departs), None, HERE, parse_target(target))


def test_a_copy_that_departs_fails_and_an_int8_file_can_keep_layers_in_float() -> None:
    assert located(departs=False).decided == PASSED
    assert located(departs=True).decided == FAILED
    keeps = {(departs, target): located(departs=departs, target=target).can_keep_float
             for departs in (False, True) for target in ("onnx", "tflite", "onnx:int8", "tflite:int8")}  # fmt: skip
    assert [case for case, can in keeps.items() if can] == [(True, "tflite:int8")]


@pytest.mark.parametrize(
    ("departs", "unlocated", "left_out", "decided"),
    [
        ([False, False], [], [], PASSED),
        ([False, True], [], [], FAILED),
        ([False], ["a"], [], OPEN),
        ([False], ["a", "b"], ["a"], OPEN),
        ([False], ["a"], ["a"], PASSED),
        ([True], ["a"], [], FAILED),
    ],
)
def test_one_of_several_that_departs_fails_all(
    departs: list[bool], unlocated: list[str], left_out: list[str], decided: tuple[Verdict, Exit]
) -> None:
    results = tuple(located(departs=diverging) for diverging in departs)
    assert LocateAllResult(results, dict.fromkeys(unlocated, "why"), HERE, left_out).decided == decided


def converted(status: Status = Status.VERIFIED, size: int | None = 1) -> ConvertedModel:
    return ConvertedModel("a", "zoo:a", HERE, ConvertResult((samples.artifact("onnx", size, status),), HERE))


def refused(error: TransloadError | None) -> ConvertedModel:
    return ConvertedModel("a", "zoo:a", HERE, None, error)


BAD, MISSING = BadRequest("no", fix="do"), ToolMissing("no", fix="do")
ROWS: list[tuple[list[ConvertedModel], tuple[Verdict, Exit]]] = [
    ([converted()], PASSED),
    ([converted(), converted(Status.UNVERIFIED)], OPEN),
    ([converted(Status.UNVERIFIED), converted(Status.FAILED)], FAILED),
    ([converted(Status.FAILED), converted(size=None)], (Verdict.FAIL, Exit.TOOLCHAIN)),
    ([converted(size=None), refused(BAD)], (Verdict.FAIL, Exit.USAGE)),
    ([refused(None), converted()], (Verdict.FAIL, Exit.USAGE)),
    ([converted(), refused(MISSING)], (Verdict.FAIL, MISSING.exit_code)),
    ([refused(StepFailed("no", fix="do"))], (Verdict.FAIL, StepFailed.exit_code)),
]


@pytest.mark.parametrize(("models", "decided"), ROWS)
def test_the_worst_of_several_models_decides(models: list[ConvertedModel], decided: tuple[Verdict, Exit]) -> None:
    assert ConvertManyResult(tuple(models), HERE).decided == decided


@pytest.mark.parametrize(
    ("states", "status"),
    [([], Exit.PASS), ([State.OK, State.NOTE, State.WARN], Exit.PASS), ([State.FAIL, State.OK], Exit.USAGE)],
)
def test_a_machine_fails_where_one_part_fails(states: list[State], status: Exit) -> None:
    assert exit_code(Diagnosis("python", "python", state, "") for state in states) is status


@pytest.mark.parametrize(
    ("card_sha256", "digests", "changed", "status"),
    [
        (None, None, False, Exit.PASS),
        ("now", None, False, Exit.PASS),
        ("then", None, True, Exit.FAIL),
        ("now", DigestCheck(1), False, Exit.PASS),
        ("now", DigestCheck(1, changed=("a",)), False, Exit.FAIL),
        (None, DigestCheck(1, missing=("a",)), False, Exit.FAIL),
        ("now", DigestCheck(1, unlisted=("a",)), False, Exit.PASS),
    ],
)
def test_an_artifact_that_has_changed_is_not_sound(
    card_sha256: str | None, digests: DigestCheck | None, changed: bool, status: Exit
) -> None:
    card = None if card_sha256 is None else cast("Card", SimpleNamespace(sha256=card_sha256))
    inspected = InspectedArtifact(HERE, cast("Any", None), "now", 1, card, digests)
    assert (inspected.payload_changed, inspected.status) == (changed, status)
