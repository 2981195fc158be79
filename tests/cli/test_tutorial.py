"""The tutorial, from top to bottom, in one folder: every command does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_docs import agrees, blocks

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
FILE = re.compile(r"^```(?:python|toml)\n# (?P<name>\S+)\n(?P<body>.*?)^```$", re.M | re.S)


def write_files(folder: Path) -> list[str]:
    """Write the files that the page shows; return their names."""
    names = []
    for match in FILE.finditer(PAGE):
        (folder / match["name"]).write_text(match["body"])
        names.append(match["name"])
    return names


def test_the_page_shows_its_files(tmp_path: Path) -> None:
    assert write_files(tmp_path) == ["net.py", "train.py", "recipe.py", "release.toml"]
    for name in ("net.py", "train.py", "recipe.py"):
        compile((tmp_path / name).read_text(), name, "exec")


@pytest.mark.slow
def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    write_files(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "120"}
    for block in blocks("docs/tutorial.md", PAGE):
        done = subprocess.run(
            ["bash", "-c", block.script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert agrees(said, block.printed), said
