"""`make setup` refuses an interpreter that does not fit, before it touches anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = ("bash", "cat", "cksum", "dirname", "env", "grep")


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    """A folder with the script, and a PATH with no Python on it."""
    for name in (".ci/setup", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    return tmp_path


def fake_python(checkout: Path, name: str, version: str) -> str:
    program = checkout / "bin" / name
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return str(program)


def setup(checkout: Path, python: str = "", extras: str = "cpu,dev") -> tuple[int, str]:
    path = {**os.environ, "PATH": str(checkout / "bin")}
    argv = [str(checkout / ".ci" / "setup"), python, extras]
    done = subprocess.run(argv, env=path, capture_output=True, text=True, check=False)
    assert not (checkout / ".venv").exists()
    return done.returncode, done.stderr


NAME_ONE = "make setup PYTHON=/path/to/python3.11"


def test_a_named_interpreter_that_does_not_fit(checkout: Path) -> None:
    old = fake_python(checkout, "python3.9", "3.9")
    assert setup(checkout, old) == (
        2,
        f"error: {old} is Python 3.9, and transload needs 3.11, 3.12 or 3.13\n  fix: name another one: {NAME_ONE}\n",
    )


def test_an_interpreter_that_is_too_new(checkout: Path) -> None:
    assert setup(checkout, fake_python(checkout, "python3.14", "3.14"))[0] == 2


def test_a_named_interpreter_that_does_not_run(checkout: Path) -> None:
    assert setup(checkout, "/no/python") == (
        2,
        f"error: /no/python does not run\n  fix: name a Python 3.11, 3.12 or 3.13: {NAME_ONE}\n",
    )


def test_no_fit_interpreter_on_path(checkout: Path) -> None:
    fake_python(checkout, "python3", "3.10")
    assert setup(checkout) == (
        2,
        f"error: no Python 3.11, 3.12 or 3.13 is on PATH\n  fix: install one, or name it: {NAME_ONE}\n",
    )


def test_extras_that_exclude_each_other(checkout: Path) -> None:
    assert setup(checkout, extras="cpu,gpu") == (
        2,
        "error: the extras cpu and gpu exclude each other, got cpu,gpu\n  fix: choose one: make setup EXTRAS=gpu,dev\n",
    )
