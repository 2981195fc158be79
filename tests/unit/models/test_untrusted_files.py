"""What is refused of a stranger's file before it is read, and what of its records."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.models import untrusted_files
from transload.models.errors import BadRequest, StepFailed
from transload.models.signature import TensorSpec
from transload.models.untrusted_files import check_plain, check_result, read_json


def test_a_pipe_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "p")
    with pytest.raises(BadRequest, match="p is no file but a pipe, a socket or a device"):
        check_plain(tmp_path)


def test_a_device_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m").symlink_to("/dev/zero")
    with pytest.raises(BadRequest, match="no file but a pipe"):
        check_plain(tmp_path / "m")


def test_a_file_that_says_it_has_a_terabyte_is_refused_and_a_large_whole_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"x" * 1_000_000)
    check_plain(path)
    os.truncate(path, 1 << 40)
    with pytest.raises(BadRequest, match=r"is said to have 1\.1e\+03 GB, of which the disk holds next to nothing"):
        check_plain(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [("[" * 100_000, "nested too deeply"), ("9" * 5000, "digits"), ("x" * 2000, "larger than 0 MiB")],
)
def test_a_document_that_is_too_deep_or_too_large_is_a_value_error(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_json(path, 1000 if "x" in content else 1 << 20)


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7}, {"dtype": ["float32"]}, {"shape": "abc"}, {"shape": [1.5]}, {"shape": [None]}, {"shape": [True]},
        {"shape": [1 << 60]}, {"shape": [1] * 65}, {"shape": [["a"]]}, {"bounds": {"n": ["a", 2]}},
        {"bounds": {"n": [1]}},
        {"values": "ab"}, {"values": [1]}, {"values": [True, 2]}, {"name": "y\nPASS"}, {"shape": ["n\u2028"]},
        {"name": "y" * 2000}, {"name": "a\x1b[2J"}, {"name": "a\u202eb"},
    ],
)  # fmt: skip
def test_a_tensor_of_a_record_has_the_types_and_names_of_one(change: dict[str, Any]) -> None:
    row: dict[str, Any] = {"name": "x", "dtype": "float32", "shape": ["n", 4]}
    assert TensorSpec.from_json(row).shape == ("n", 4)
    with pytest.raises(ValueError, match=r"name|axis|axes|bounds|values|tensor"):
        TensorSpec.from_json({**row, **change})


def test_an_error_is_one_line_whatever_names_are_in_it() -> None:
    error = BadRequest("the output y\nPASS  7 of 7\u2028 \x1b[1m\u202e is none", fix="a\r\nb")
    assert str(error) == "the output y\\nPASS  7 of 7\\u2028 \\u202e is none\n  fix: a\\r\\nb"


def nested(folder: Path) -> None:
    folder.joinpath(*"a" * untrusted_files.MOST_DEPTH, "b").mkdir(parents=True)


def listening(folder: Path) -> None:
    os.chdir(folder)  # a path of more than 108 characters cannot be bound
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "link to a file": (lambda folder: (folder / "a").symlink_to("/etc/passwd"), "'a', a link"),
    "link to nothing": (lambda folder: (folder / "a").symlink_to("gone"), "'a', a link"),
    "link to a folder": (lambda folder: (folder / "a").symlink_to("/etc", target_is_directory=True), "'a', a link"),
    "link to itself": (lambda folder: (folder / "a").symlink_to("."), "'a', a link"),
    "deep link": (lambda folder: (folder / "d" / "a").symlink_to("/etc/passwd"), "'d/a', a link"),
    "hard link": (lambda folder: os.link(folder / "d" / "f", folder / "a"), "a file that has another name, too"),
    "pipe": (lambda folder: os.mkfifo(folder / "a"), "'a', a pipe, a socket or a device"),
    "socket": (listening, "'s', a pipe, a socket or a device"),
    "set-uid": (lambda folder: (folder / "d" / "f").chmod(0o4755), "'d/f', a program that runs as its owner"),
    "line break": (lambda folder: (folder / "a\nb").touch(), r"'a\nb', a name with characters"),
    "no unicode": (lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).touch(), r"'\udcff', a name"),
    "depth": (nested, "more than a result may hold"),
}  # fmt: skip


@pytest.fixture
def result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "out"
    (folder / "d").mkdir(parents=True)
    (folder / "d" / "f").write_text("content")
    return folder


@pytest.mark.parametrize("kind", FAULTS)
def test_a_result_is_made_of_plain_files_and_folders_alone(kind: str, result: Path) -> None:
    check_result(result)
    plant, content = FAULTS[kind]
    plant(result)
    with pytest.raises(StepFailed) as error:
        check_result(result)
    assert error.value.what.startswith("the step's result is refused, for it holds ")
    assert content in error.value.what


def test_a_result_has_a_limit_of_files_and_of_bytes(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in {"MOST_FILES": 1, "MOST_RESULT_BYTES": 6}.items():
        with monkeypatch.context() as patch:
            patch.setattr(untrusted_files, name, limit)
            with pytest.raises(StepFailed, match="more than a result may hold"):
                check_result(result)
