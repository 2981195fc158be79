"""Repositories as users have them, converted by the commands in their own README, as a stranger would type them.

tests/projects/ holds three: a research repository whose packages are called like ours, a Lightning project, and a
fine-tuned transformer in a local folder. Each is copied, trained for a moment, and converted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECTS = Path(__file__).parents[1] / "projects"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def commands(readme: Path) -> list[str]:
    """What a page tells one to type, line by line."""
    lines = "".join(BLOCK.findall(readme.read_text())).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def typed(command: str, here: Path) -> subprocess.CompletedProcess[str]:
    """A line as a shell takes it, with this Python and its programs first on PATH."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    if command.startswith("python"):
        environment["PYTHONPATH"] = str(PROJECTS / ".site")
    return subprocess.run(["sh", "-c", command], cwd=here, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["research", "lightning", "finetune"])
def test_a_repository_converts_by_the_commands_of_its_readme(name: str, tmp_path: Path) -> None:
    here = Path(shutil.copytree(PROJECTS / name, tmp_path / name))
    for command in commands(here / "README.md"):
        done = typed(command, here)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    (document,) = (json.loads(file.read_text()) for file in here.rglob("convert.json"))
    assert [row["status"] for row in document["artifacts"]] == ["verified"] * len(document["artifacts"])
    assert len(document["artifacts"]) == 3
