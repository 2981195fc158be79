"""One place turns what was raised into a sentence and an exit status."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from transload.models.errors import ERRORS, Exit, TransloadError
from transload.pipeline.cli.output.error_output import BUG, guarded


def raising(error: BaseException) -> Callable[[Sequence[str] | None], int]:
    def do(argv: Sequence[str] | None) -> int:
        raise error

    return do


@pytest.mark.parametrize("kind", ERRORS.values(), ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_two_lines_and_its_own_status(
    kind: type[TransloadError], capsys: pytest.CaptureFixture[str]
) -> None:
    status = guarded(raising(kind("it broke", fix="mend it")), None)
    assert (status, *capsys.readouterr()) == (kind.exit_code, "", "error: it broke\n  fix: mend it\n")


SAID = [
    (KeyboardInterrupt(), 130, "stopped; run the same command again to go on from here\n"),
    (
        OSError(errno.ENOSPC, "No space left on device", "runs/1/run.json"), 2,
        "error: the disk under runs/1/run.json is full\n  fix: free some space, or name a folder elsewhere\n",
    ),
    (OSError(errno.EDQUOT, "x"), 2, "error: the disk is full\n  fix: free some space, or name a folder elsewhere\n"),
    (
        PermissionError(errno.EACCES, "Permission denied", "runs"), 2,
        "error: runs cannot be used: permission denied\n  fix: mend its permissions, or name another place\n",
    ),
    (
        OSError(errno.EROFS, "Read-only file system", "/mnt/x"), 2,
        "error: /mnt/x cannot be used: read-only file system\n  fix: mend its permissions, or name another place\n",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("error", "status", "text"), SAID, ids=lambda value: type(value).__name__)
def test_what_comes_from_outside_is_a_sentence(
    error: BaseException, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (guarded(raising(error), None), *capsys.readouterr()) == (status, "", text)


def test_a_bug_is_one_sentence_and_a_file_with_the_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert guarded(raising(KeyError("lost")), None) == BUG
    assert BUG not in set(Exit)
    (file,) = tmp_path.iterdir()
    assert capsys.readouterr().err == (
        f"error: a bug in transload: KeyError: 'lost'\n  fix: report it with {file}, which holds the traceback\n"
    )
    assert re.search(r"Traceback .*raise error.*KeyError: 'lost'", file.read_text(), re.DOTALL)


def test_a_bug_on_a_full_disk_still_shows_its_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert guarded(raising(KeyError("lost")), None) == BUG
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("error: a bug in transload: KeyError: 'lost'\n  fix: report it with the lines above\n")


def transload(*words: str, stdout: int) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "transload", *words]
    # Buffered, as a user has it: what is left in the buffer shows up once more when the interpreter ends.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(argv, stdout=stdout, stderr=subprocess.PIPE, text=True, env=env, check=False)


def test_a_reader_that_goes_away_is_no_error_to_talk_about() -> None:
    read, write = os.pipe()
    os.close(read)
    done = transload("formats", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_output_that_cannot_be_written_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = transload("formats", stdout=full.fileno())
    assert (done.returncode, done.stderr) == (
        2,
        "error: the disk is full\n  fix: free some space, or name a folder elsewhere\n",
    )


LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "zoo:breast-cancer-mlp", "--to", "onnx", "--out", LONG], ["validate", LONG], ["serve", LONG],
        ["convert", "zoo:breast-cancer-mlp", "--to", "onnx", "--out", "b", "--store", LONG], ["run", f"{LONG}.toml"],
        ["run", "zoo:breast-cancer-mlp", "--out", LONG], ["store", "ls", "--store", LONG], ["verify", LONG],
        ["compare", LONG, LONG], ["history", LONG], ["bundle", LONG, "--for", "docker", "--out", "x"], ["new", LONG],
        ["record", LONG, "--mlflow", "http://127.0.0.1:9"], ["locate", LONG], ["store", "ls", "--store", "loop/x"],
    ],
)  # fmt: skip
def test_a_name_that_no_file_can_have_is_wrong_use(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transload.pipeline.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    assert main(words) == Exit.USAGE
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert re.match("  fix: ", second)


def test_a_file_name_with_line_ends_stays_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError(errno.ENAMETOOLONG, "File name too long", f"{tmp_path}/x\n::error::y\x1b[2J")
    assert guarded(raising(error), None) == Exit.USAGE
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_json_of_strangers_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from transload.pipeline.cli.output.render import print_json, print_lines

    document = {"a\x9b": ["\x7f\u202e\ud800\u2028##[error]x", "caf\u00e9", "a\nPASS"]}
    print_json(document)
    text = capsys.readouterr().out
    assert json.loads(text) == document
    assert text.replace("\n", "").isprintable()
    assert "##[" not in text
    print_lines(["a\nPASS  b", "\x1b[2Jc"])
    assert capsys.readouterr().out == "a\\nPASS  b\n\\x1b[2Jc\n"
