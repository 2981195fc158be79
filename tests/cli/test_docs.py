"""The commands in the README, in CONTRIBUTING.md and in docs/ do what the page says.

A ```console block is preceded by a comment that says what becomes of it:

    <!-- run -->             run here, in an empty folder; what is printed is compared, `...` stands for anything
    <!-- run: exit 2 -->     the same, and the last command ends with that status
    <!-- run: slow -->       the same, but only by `pytest -m slow`
    <!-- not run: WHY -->    read only
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*?) -->\n+)?^```(?P<kind>console|sh|bash|shell)\n(?P<body>.*?)^```$", re.M | re.S
)
MARK = re.compile(r"run|run: slow|run: exit (\d+)|not run: \S.*")


@dataclass(frozen=True)
class Block:
    """Commands of one page, and what they print."""

    page: str
    line: int
    kind: str
    mark: str | None
    body: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def status(self) -> int:
        found = MARK.fullmatch(self.mark or "")
        return int(found[1]) if found and found[1] else 0

    @property
    def script(self) -> str:
        return "\n".join(line.removeprefix("$ ") for line in self.body.splitlines() if line.startswith("$ "))

    @property
    def printed(self) -> str:
        return "".join(f"{line}\n" for line in self.body.splitlines() if not line.startswith("$ "))


def blocks(page: str, text: str) -> list[Block]:
    return [
        Block(page, text[: found.start("kind")].count("\n") + 1, found["kind"], found["mark"], found["body"])
        for found in BLOCK.finditer(text)
    ]


def agrees(said: str, printed: str) -> bool:
    """Whether `printed` tells of `said`; a line `...` stands for any lines, and `...` in a line for any text."""
    if not printed:
        return True
    lines = [
        ".*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*?") + r"\s*?" for line in printed.splitlines()
    ]
    return re.fullmatch("\n".join(lines), said.rstrip("\n"), re.S) is not None


BLOCKS = [block for page in PAGES for block in blocks(str(page.relative_to(ROOT)), page.read_text())]
TO_RUN = [
    pytest.param(block, id=block.name, marks=[pytest.mark.slow] if block.mark == "run: slow" else [])
    for block in BLOCKS
    if block.mark and block.mark.startswith("run")
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_every_block_of_commands_says_whether_it_is_run(block: Block) -> None:
    assert block.mark is not None
    assert MARK.fullmatch(block.mark)
    assert block.kind == "console", "write ```console with a $ before each command"
    assert block.script


@pytest.mark.parametrize("block", TO_RUN)
def test_documented_commands_do_what_the_page_says(block: Block, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "120"}
    done = subprocess.run(
        ["bash", "-c", block.script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == block.status, said
    assert agrees(said, block.printed), said


def test_links_lead_to_files_that_are_there() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())]
    assert [(page.name, link) for page, link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_the_reader_of_blocks_and_of_outputs() -> None:
    page = "text\n\n<!-- run: exit 2 -->\n```console\n$ false\n$ x\nout\n```\n\n```sh\nls\n```\n"
    marked, bare = blocks("p.md", page)
    assert (marked.line, marked.status, marked.script, marked.printed) == (4, 2, "false\nx", "out\n")
    assert (bare.mark, bare.kind) == (None, "sh")
    assert agrees("a\nb\nc\n", "a\n...\nc\n")
    assert agrees("took 3 s\n", "took ... s\n")
    assert not agrees("a\nb\n", "a\n")
    assert not agrees("a\n", "b\n")
