"""The progress of a run: one line per stage with its time, and inside a stage the step that is being done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import TextIO

from .timeline import Timeline

_COLUMNS = 100


@dataclass
class Stage:
    """A stage of a run that is under way."""

    name: str
    total: int = 0
    done: int = 0
    note: str = ""  # the text of its closing line


@dataclass
class _Screen:
    """The output stream, which the progress of several models shares."""

    stream: TextIO
    quiet: bool
    lock: threading.Lock = field(default_factory=threading.Lock)
    width: int = 0  # of the line that the next line replaces
    noted: set[str] = field(default_factory=set)

    def show(self, text: str) -> None:
        """Show a line that the next line replaces; only a terminal gets it."""
        if not self._live:
            return
        with self.lock:
            shown = text[:_COLUMNS]
            self.stream.write(f"\r{shown:<{self.width}}")
            self.width = len(shown)
            self.stream.flush()

    def line(self, text: str) -> None:
        """Write a line that stays."""
        if self.quiet:
            return
        with self.lock:
            blank = f"\r{'':<{self.width}}\r" if self._live else ""
            self.width = 0
            self.stream.write(f"{blank}{text}\n")
            self.stream.flush()

    @property
    def _live(self) -> bool:
        return self.stream.isatty() and not self.quiet


class Progress:
    """Stages on a stream: a line that is rewritten on a terminal, plain lines elsewhere, nothing if quiet."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._screen = _Screen(stream or sys.stderr, quiet)
        self._head = ""
        self._open: Stage | None = None
        self.timeline = Timeline()

    def of(self, name: str, width: int = 0) -> Progress:
        """Return the progress of one of several models: each of its lines begins with the name."""
        part = copy(self)
        part._head = f"{name:<{width}}  "
        return part

    @contextmanager
    def stage(self, name: str, total: int = 0) -> Iterator[Stage]:
        """Open a stage until the end of the block. Set `note` on it for its closing line."""
        stage = self._open = Stage(name, total)
        started = time.monotonic()
        self._screen.show(f"{self._head}{name:<10} ...")
        try:
            with self.timeline.span(name, is_stage=True):
                yield stage
        except BaseException:
            self._screen.line(f"{self._head}{name:<10} stopped after {time.monotonic() - started:.1f} s")
            raise
        finally:
            self._open = None
        self._screen.line(f"{self._head}{name:<10} {time.monotonic() - started:6.1f} s  {stage.note}".rstrip())

    def step(self, text: str) -> None:
        """Count a step of the stage as done. Called from several threads; a lost update is harmless."""
        if self._open:
            self._open.done += 1
            count = f"{self._open.done}/{self._open.total} " if self._open.total else ""
            self._screen.show(f"{self._head}{self._open.name:<10} {count}{text}")

    def note(self, text: str, *, once: str = "") -> None:
        """Write a sentence that the user should see, and that ends nothing.
        `once`: its subject, on which the commands of several models write one sentence."""
        with self._screen.lock:
            if once and once in self._screen.noted:
                return
            self._screen.noted.add(once)
        self._screen.line(f"{self._head}note: {text}")
