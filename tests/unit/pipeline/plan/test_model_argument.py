"""Which model a MODEL argument names, by the form of its text and the files at its path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format, Target
from transload.models.signature import Signature, parse_input
from transload.pipeline.plan.model_argument import ModelKind, kind_of, start_of

SIGNATURE = Signature((parse_input("x=float32[batch,4]"),), (parse_input("y=float32[batch,3]"),))


def test_the_folder_that_a_command_left_names_the_artifacts_in_it(tmp_path: Path) -> None:
    for name in ("onnx", "tflite-int8"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "artifact.json").touch()
    with pytest.raises(BadRequest) as caught:
        kind_of(str(tmp_path))
    assert caught.value.fix == f"name one of {tmp_path}/onnx, {tmp_path}/tflite-int8"


def test_a_url_is_no_model_to_convert_or_to_compare_with() -> None:
    with pytest.raises(BadRequest) as caught:
        kind_of("grpc://localhost:8500/v1/models/m")
    assert str(caught.value) == (
        "grpc://localhost:8500/v1/models/m is served elsewhere, and only validate and bench take it, as a candidate\n"
        "  fix: name the model itself, or an artifact of it"
    )


@pytest.mark.parametrize(
    ("argument", "kind", "start"),
    [
        ("zoo:digits-cnn", ModelKind.CODE, None),
        ("net.py", ModelKind.CODE, None),
        ("lib/net.py:Net", ModelKind.CODE, None),
        ("package.module:make", ModelKind.CODE, None),
        ("m.onnx", Format.ONNX, Target(Format.ONNX)),
        ("M.ONNX", Format.ONNX, Target(Format.ONNX)),
        ("m.pt2", Format.PT2, Target(Format.PT2)),
        ("made", ModelKind.ARTIFACT, Target(Format.ONNX)),
    ],
)
def test_the_form_of_an_argument_names_its_kind(
    argument: str, kind: ModelKind | Format, start: Target | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m.onnx", "M.ONNX", "m.pt2"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "model.onnx").write_bytes(b"x")
    write_artifact(tmp_path / "made", Target(Format.ONNX), SIGNATURE)
    assert kind_of(argument) is kind
    assert start_of(argument) == start


@pytest.mark.parametrize("text", ["a" * 300 + ".onnx", "x" * 5000])
def test_a_name_that_no_file_system_takes_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^[ax.onnx]{,200} cannot be looked for: File name too long\n"):
        kind_of(text)


PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize("name", ["m.html", "m.onnx", "m.pt", "m.pt2", "m.tflite", "m.keras", "m.bin"])
def test_a_page_in_place_of_a_model_is_called_a_page(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PAGE)
    with pytest.raises(BadRequest) as caught:
        kind_of(str(tmp_path / name))
    assert caught.value.what == f"{tmp_path / name} is a web page"
    assert caught.value.fix == "download the file itself; the page may ask for a login"


def test_a_pointer_of_git_lfs_in_place_of_a_model_says_how_it_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(POINTER)
    with pytest.raises(BadRequest) as caught:
        kind_of(str(tmp_path / "m.onnx"))
    assert caught.value.what == f"{tmp_path / 'm.onnx'} is a pointer of Git LFS, and not the file itself"
    assert caught.value.fix == "fetch it: git lfs pull"


def test_a_pipe_is_not_read_to_know_its_kind(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    assert kind_of(str(tmp_path / "m.onnx")) is Format.ONNX
