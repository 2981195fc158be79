"""What a case of the corpus is: files in a folder of its own, the command that reads them, and what has to come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

CANARY = b"canary-3f9c27a1d84e4b0f-" * 3  # the content of the file that no case may read
OUT = "out"
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x)
"""


class Outcome(StrEnum):
    """What a case has to end in."""

    REFUSED = "refused"  # exit status 2 and one sentence
    HARMLESS = "harmless"  # any exit status of a verdict: the file is taken, and does nothing but compute


Content: TypeAlias = str | bytes | Callable[[], str | bytes]  # a call where it is made at need: it takes seconds


@dataclass(frozen=True)
class Place:
    """The folder of a case: `here` is where the command runs; beside it lies what nothing in the files may reach."""

    folder: Path

    @property
    def here(self) -> Path:
        """The folder that holds the hostile files, and in which the command runs."""
        return self.folder / "here"

    @property
    def outside(self) -> Path:
        """A folder with the canary file alone. Whatever else appears in it was written by a case."""
        return self.folder / "outside"

    @property
    def secret(self) -> Path:
        """The canary file."""
        return self.outside / "secret"

    @property
    def marker(self) -> Path:
        """The file that a payload writes."""
        return self.outside / "executed"

    def make(self) -> None:
        """Make the folders and the canary file."""
        self.here.mkdir(parents=True)
        self.outside.mkdir()
        self.secret.write_bytes(CANARY)

    def write(self, name: str, content: Content) -> Path:
        """Write a file below `here`."""
        path = self.here / name
        if callable(content):
            content = content()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
        return path

    def write_sparse(self, name: str, head: bytes, size: int) -> Path:
        """Write a file that is said to have `size` bytes, of which the disk holds the first alone."""
        path = self.write(name, head)
        with path.open("r+b") as file:
            file.truncate(size)
        return path


@dataclass(frozen=True)
class Case:
    """A case."""

    name: str  # "onnx/data at an absolute path": the format before the slash
    aim: str  # what the files try
    build: Callable[[Place], object]
    words: tuple[str, ...]  # the command line, without the program
    outcome: Outcome = Outcome.REFUSED


def convert(model: str, target: str, *more: str) -> tuple[str, ...]:
    """Return the command line of `convert`."""
    return ("convert", model, "--to", target, "--out", OUT, "--quiet", *more)
