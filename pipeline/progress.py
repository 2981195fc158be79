"""What a run says while it works: one line per stage with its time, and inside a stage what is being done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO


@dataclass
class Stage:
    """A stage of a run, open."""

    name: str
    total: int = 0
    done: int = 0
    note: str = ""  # the words for its end


@dataclass
class Progress:
    """Shows stages on a stream: a line that is rewritten on a terminal, plain lines elsewhere, nothing if quiet."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    _open: Stage | None = None
    _width: int = 0

    @property
    def _live(self) -> bool:
        return self.stream.isatty() and not self.quiet

    @contextmanager
    def stage(self, name: str, total: int = 0) -> Iterator[Stage]:
        """A stage, from here to the end of the block. Set `note` on it for its closing line."""
        stage = self._open = Stage(name, total)
        started = time.monotonic()
        self._show(f"{name:<10} ...")
        try:
            yield stage
        except BaseException:
            self._line(f"{name:<10} stopped after {time.monotonic() - started:.1f} s")
            raise
        finally:
            self._open = None
        self._line(f"{name:<10} {time.monotonic() - started:6.1f} s  {stage.note}".rstrip())

    def step(self, text: str) -> None:
        """One of the stage's steps is done. Called from several threads; a lost update is harmless."""
        if self._open:
            self._open.done += 1
            count = f"{self._open.done}/{self._open.total} " if self._open.total else ""
            self._show(f"{self._open.name:<10} {count}{text}")

    def _show(self, text: str) -> None:
        """A line that the next one replaces; only a terminal gets it."""
        if self._live:
            shown = text[:100]
            self.stream.write(f"\r{shown:<{self._width}}")
            self._width = len(shown)
            self.stream.flush()

    def _line(self, text: str) -> None:
        if self.quiet:
            return
        blank = f"\r{'':<{self._width}}\r" if self._live else ""
        self._width = 0
        self.stream.write(f"{blank}{text}\n")
        self.stream.flush()
