"""tuning.json: it holds for one payload on one machine, lies with the user, and is no part of the artifact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.artifact import TUNING, write_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format, Target
from transload.models.signature import Signature, parse_input
from transload.models.store import digest_of
from transload.pipeline.measure.bench import tuned_settings as module
from transload.pipeline.measure.bench.tuned_settings import TunedSettings, keep_settings, place_of, tuned_settings
from transload.serving.runtimes.runtime_table import RUNTIMES
from transload.serving.runtimes.tuning_file import (
    BatchInBound,
    bound_batch,
    read_tuning,
    tuning_document,
    tuning_path,
)

RUNTIME = RUNTIMES["onnxruntime"]
WON = TunedSettings({"threads": 2, "allow_spinning": False}, 0.5, (0.4, 0.6), 1)


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    folder = tmp_path / "onnx"
    folder.mkdir()
    (folder / Format.ONNX.spec.payload).write_bytes(b"a model")
    spec = parse_input("x=float32[batch,4]")
    write_artifact(folder, Target(Format.ONNX), Signature((spec,), (replace(spec, name="y"),)))
    return folder


def keep(folder: Path, tuned: TunedSettings = WON) -> Path:
    return keep_settings(folder, place_of(folder, RUNTIME, "cpu"), tuned, 1)


def test_settings_hold_where_they_were_tuned(artifact: Path) -> None:
    assert keep(artifact) == artifact / TUNING
    assert tuned_settings(artifact, RUNTIME, "cpu", None) == WON
    assert tuned_settings(artifact, RUNTIME, "cpu", 2) == WON
    assert tuned_settings(artifact, RUNTIME, "cpu", 1).settings == {}
    assert tuned_settings(artifact, RUNTIME, "cuda:0", None).settings == {}
    assert tuned_settings(artifact, RUNTIMES["oip-grpc"], "cpu", None).settings == {}


def test_settings_do_not_hold_for_another_payload_processor_or_library(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(artifact)
    for name, value in (("cpu_model", lambda: "other"), ("core_count", lambda: 999), ("version_of", lambda _: "0.1")):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, value)
            assert tuned_settings(artifact, RUNTIME, "cpu", None).settings == {}
    assert tuned_settings(artifact, RUNTIME, "cpu", None) == WON
    (artifact / Format.ONNX.spec.payload).write_bytes(b"another model")
    assert tuned_settings(artifact, RUNTIME, "cpu", None).settings == {}
    assert tuning_document(artifact) is None


def test_a_second_search_replaces_the_first_and_keeps_other_devices(artifact: Path) -> None:
    keep(artifact)
    keep_settings(artifact, place_of(artifact, RUNTIME, "cuda"), WON, 1)
    keep(artifact, TunedSettings())
    assert [(entry.place.device, entry.settings) for entry in read_tuning(artifact)] == [
        ("cuda", WON.settings),
        ("cpu", {}),
    ]


def test_behind_a_link_the_file_lies_beside_the_link(artifact: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(artifact)
    assert tuning_path(link) == tmp_path / "link.tuning.json"
    keep(link)
    assert not (artifact / TUNING).exists()
    assert tuned_settings(link, RUNTIME, "cpu", None) == WON
    assert tuning_path(tmp_path / "model.onnx") == tmp_path / "model.onnx.tuning.json"


def test_the_file_is_no_part_of_the_artifact(artifact: Path) -> None:
    before = digest_of(artifact, without=(TUNING,))
    keep(artifact)
    assert digest_of(artifact, without=(TUNING,)) == before != digest_of(artifact)


def test_a_broken_file_is_refused_and_written_anew(artifact: Path) -> None:
    (artifact / TUNING).write_text('{"schema": 1, "entries": [{"place": 3}]}')
    with pytest.raises(BadRequest, match="cannot be read"):
        tuned_settings(artifact, RUNTIME, "cpu", None)
    keep(artifact)
    assert tuned_settings(artifact, RUNTIME, "cpu", None) == WON


def test_a_strangers_file_cannot_name_settings_that_do_not_exist(artifact: Path) -> None:
    keep(artifact)
    text = (artifact / TUNING).read_text()
    (artifact / TUNING).write_text(text.replace("allow_spinning", "log_file"))
    with pytest.raises(BadRequest, match="onnxruntime has no setting 'log_file'"):
        tuned_settings(artifact, RUNTIME, "cpu", None)


def test_a_copy_elsewhere_takes_the_entries_along(artifact: Path) -> None:
    keep(artifact)
    assert '"allow_spinning": false' in (tuning_document(artifact) or "")


def test_the_batch_within_a_bound_holds_under_its_settings_and_threads(artifact: Path) -> None:
    place = place_of(artifact, RUNTIME, "cpu")
    bound = BatchInBound(bound_s=0.01, batch=16, p99_s=0.009, throughput_per_s=2e3, threads=2)
    keep_settings(artifact, place, WON, 1, bound)
    assert tuned_settings(artifact, RUNTIME, "cpu", None).batch_in_bound(2) == 16
    assert tuned_settings(artifact, RUNTIME, "cpu", None).batch_in_bound(1) is None
    assert tuned_settings(artifact, RUNTIME, "cpu", 1).batch_in_bound(1) is None  # WON has 2
    assert tuned_settings(artifact, RUNTIME, "cuda:0", None).batch_in_bound(2) is None
    keep_settings(artifact, place, TunedSettings({}), 1, bound)
    assert tuned_settings(artifact, RUNTIME, "cpu", 2).batch_in_bound(2) == 16


def test_the_batch_within_a_bound_is_that_of_the_payload(artifact: Path) -> None:
    place = place_of(artifact, RUNTIME, "cpu")
    assert bound_batch(artifact) is None
    bound = BatchInBound(bound_s=0.01, batch=16, p99_s=0.009, throughput_per_s=2e3)
    keep_settings(artifact, place, TunedSettings({}), 1, bound)  # the defaults won
    assert bound_batch(artifact) == 16
    (artifact / Format.ONNX.spec.payload).write_bytes(b"another model")
    assert bound_batch(artifact) is None
