"""What an interpreter says of itself depends on it and on the user, not on the worker that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transload.models.user_python import describe_python
from transload.models.user_python.inside.inspect_python import MARK

PROGRAM = Path(describe_python.__file__).parent / "inside" / "inspect_python.py"
BASE = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def answer(python: Path, home: Path) -> dict[str, Any]:
    done = subprocess.run(
        [python, "-B", PROGRAM], env={"HOME": str(home), "PATH": os.defpath}, capture_output=True, text=True, check=True
    )
    record: dict[str, Any] = json.loads(done.stdout.rpartition(MARK)[2])
    return record


@pytest.fixture
def user_site(tmp_path: Path) -> Path:
    """The folder of `pip install --user` below a home, with one package."""
    site = tmp_path / "home" / ".local" / "lib" / BASE.name / "site-packages"
    (site / "mine-1.0.dist-info").mkdir(parents=True)
    (site / "mine-1.0.dist-info" / "METADATA").write_text("Name: mine\nVersion: 1.0\n")
    return site


def test_a_home_without_packages_is_no_part_of_the_record(tmp_path: Path) -> None:
    for python in (Path(sys.executable), BASE):
        records = [answer(python, tmp_path / name) for name in ("one", "two")]
        assert records[0] == records[1]


def test_the_packages_of_the_user_are_part_of_it_where_the_interpreter_reads_them(
    user_site: Path, tmp_path: Path
) -> None:
    before, after = answer(BASE, tmp_path / "empty"), answer(BASE, tmp_path / "home")
    assert (before["user_base"], after["user_base"]) == ("", str(tmp_path / "home" / ".local"))
    assert str(user_site) in after["packages"]
    assert before["digest"] != after["digest"]


def test_an_environment_without_the_users_packages_has_none_of_them(user_site: Path, tmp_path: Path) -> None:
    assert sys.prefix != sys.base_prefix, "the tests run in a virtual environment"
    assert answer(Path(sys.executable), tmp_path / "home")["user_base"] == ""
