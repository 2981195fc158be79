"""Settings verify as well as the defaults do, or are dropped; kept ones are read, also behind a protocol."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format, Precision, Target
from transload.models.signature import Signature, parse_input
from transload.models.store import Stored
from transload.pipeline.measure import tuned_bench
from transload.pipeline.measure.bench.tuned_settings import TunedSettings, keep_settings, place_of
from transload.pipeline.measure.bench_subject import BenchSubject
from transload.pipeline.measure.tuned_bench import SettingsReference, SettingsVerifier, with_kept_settings
from transload.pipeline.options.request import BenchSection
from transload.pipeline.result.schema import Verdict
from transload.serving.runtimes.runtime_table import RUNTIMES

STORED = Stored("", "", Path(), {}, Path(), 0.0, cached=True)
ONNX = Target(Format.ONNX)
TUNED = BenchSubject(
    ("onnx", "onnxruntime"), STORED, RUNTIMES["onnxruntime"], target=ONNX, tuned=TunedSettings({"threads": 2})
)
ANY = cast("Any", None)
PASS, OPEN, FAIL = Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL


def verify(monkeypatch: pytest.MonkeyPatch, default: Verdict, tuned: Verdict) -> str | None:
    def check_settings(context: Any, inputs: Any, checked: Any, servers: Any) -> tuple[Verdict, str]:
        return (tuned if checked.settings else default), "12 dB"

    monkeypatch.setattr(tuned_bench, "check_settings", check_settings)
    verifier = SettingsVerifier(ANY, ANY, lambda _: SettingsReference(ANY, Precision.FP32))
    return verifier(TUNED)


@pytest.mark.parametrize(
    ("default", "tuned", "sentence"),
    [
        (PASS, PASS, None),
        (OPEN, OPEN, None),
        (FAIL, PASS, None),
        (PASS, OPEN, "its answers verify no longer: 12 dB"),
        (PASS, FAIL, "its answers do not verify: 12 dB"),
        (FAIL, FAIL, "its answers do not verify: 12 dB"),
    ],
)
def test_settings_verify_as_well_as_the_defaults_or_are_dropped(
    monkeypatch: pytest.MonkeyPatch, default: Verdict, tuned: Verdict, sentence: str | None
) -> None:
    assert verify(monkeypatch, default, tuned) == sentence


def test_settings_without_a_reference_are_dropped() -> None:
    def reference_of(_: BenchSubject) -> SettingsReference:
        raise BadRequest("the model gave no answer", fix="none")

    assert SettingsVerifier(ANY, ANY, reference_of)(TUNED) == "it could not be verified: the model gave no answer"


def test_kept_settings_are_used_in_process_and_by_our_server(tmp_path: Path) -> None:
    (tmp_path / Format.ONNX.spec.payload).write_bytes(b"a model")
    spec = parse_input("x=float32[batch,4]")
    write_artifact(tmp_path, ONNX, Signature((spec,), (replace(spec, name="y"),)))
    keep_settings(tmp_path, place_of(tmp_path, RUNTIMES["onnxruntime"], "cpu"), TunedSettings({"threads": 2}), 1)

    def settings(runtime: str, section: BenchSection) -> object:
        context = cast("Any", SimpleNamespace(device="cpu", request=SimpleNamespace(bench=section)))
        subject = BenchSubject(("onnx", runtime), STORED, RUNTIMES[runtime], target=ONNX, model=tmp_path)
        return with_kept_settings(context, subject).tuned.settings

    assert settings("onnxruntime", BenchSection()) == {"threads": 2}
    assert settings("oip-grpc", BenchSection()) == {"threads": 2}
    assert settings("onnxruntime", BenchSection(threads=1)) == {}
