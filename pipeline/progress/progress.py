"""The progress of a run: one line per stage with its time, and while a stage goes on a line that lives on a terminal.

That line says which stage, which model, which steps and for how many seconds. Elsewhere a long stage says from time to
time where it is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from ...models.library_messages import one_line
from .live_line import MovingStage, live_text, name_of_model, name_of_step, still_text
from .terminal_text import columns_of, fit_terminal, is_rewritable
from .timeline import Timeline

TRAIN = "train"  # the step of a training
_TAIL_BYTES = 4096  # of a log, in which its last line lies
_TICK_S = 0.2  # between two pictures of the live line
_EPOCH_S = 10.0  # between two lines of a training there
_REMINDER_S = 30.0  # between two lines of a long stage where there is no terminal
_CLEAR = "\r\x1b[K"  # go to the line's beginning, and clear it


@dataclass
class Stage:
    """A stage of a run that is under way."""

    name: str
    total: int = 0
    done: int = 0
    note: str = ""  # the text of its closing line
    step: str = ""  # what was said last
    started_s: float = 0.0
    epoch: str = ""  # the epoch of a training that a line told last, and when
    epoch_s: float = 0.0


@dataclass
class _Screen:
    """The output stream, which the progress of several models shares, and the thread that keeps its live line."""

    stream: TextIO
    quiet: bool
    reminds: bool = True
    clock: Callable[[], float] = time.monotonic
    lock: threading.RLock = field(default_factory=threading.RLock)
    noted: set[str] = field(default_factory=set)
    moving: list[tuple[Progress, Stage]] = field(default_factory=list)  # stages under way, the last one is shown
    shown: str = ""  # the live line
    frame: int = 0
    reminded_s: float = 0.0
    ended: threading.Event | None = None  # of the thread

    def open(self, part: Progress, stage: Stage) -> None:
        """Show a stage until it is closed."""
        if self.quiet:
            return
        with self.lock:
            self.moving.append((part, stage))
            self.picture()
            if self.ended is None:
                self.reminded_s, self.ended = self.clock(), threading.Event()
                threading.Thread(target=self._keep, args=(self.ended,), name="live-line", daemon=True).start()

    def close(self, stage: Stage, text: str) -> None:
        """Replace a stage by a line that stays."""
        with self.lock:
            for part in [part for part, moving in self.moving if moving is stage]:
                self._tell_epoch(part, stage, 0.0)
            self.moving = [pair for pair in self.moving if pair[1] is not stage]
            if not self.moving and self.ended is not None:
                self.ended.set()
                self.ended = None
            self.line(text)

    def raise_up(self, stage: Stage) -> None:
        """Show this stage from now on, of several."""
        with self.lock:
            self.moving.sort(key=lambda pair: pair[1] is stage)
            self.picture()

    def line(self, text: str) -> None:
        """Write a line that stays."""
        if self.quiet:
            return
        with self.lock:
            clear = _CLEAR if self.shown else ""
            self.shown = ""
            self._write(f"{clear}{fit_terminal(one_line(text), self.stream)}\n")
            self.picture()

    def picture(self) -> None:
        """Show where the last stage is; only a terminal gets it."""
        if not self.moving or not is_rewritable(self.stream):
            return
        part, stage = self.moving[-1]
        moving = part.describe(stage, self.clock(), more_models=len(self.moving) - 1)
        text = one_line(live_text(moving, columns_of(self.stream) - 1, self.frame, self.stream.encoding or "ascii"))
        if text != self.shown:
            self.shown = text
            self._write(f"{_CLEAR}{text}")

    def _keep(self, ended: threading.Event) -> None:
        """Keep the line alive until the last stage has ended."""
        while not ended.wait(_TICK_S):
            with self.lock:
                if ended.is_set():
                    return
                self.frame += 1
                try:
                    self.picture()
                    self._remind()
                except (OSError, ValueError):  # the terminal is gone; what the command says next meets that, too
                    return

    def _tell_epoch(self, part: Progress, stage: Stage, least_s: float) -> None:
        """Write where a training is, unless that or an epoch a short time before stands there already."""
        epoch = "" if not self.reminds or is_rewritable(self.stream) else part.epoch_in(stage)
        if epoch not in ("", stage.epoch) and (not stage.epoch or self.clock() - stage.epoch_s >= least_s):
            stage.epoch, stage.epoch_s = epoch, self.clock()
            self.reminded_s = self.clock()
            part.line(f"{TRAIN:<10} {epoch}")

    def _remind(self) -> None:
        for part, stage in self.moving:
            self._tell_epoch(part, stage, _EPOCH_S)
        if not self.reminds or is_rewritable(self.stream) or self.clock() - self.reminded_s < _REMINDER_S:
            return
        self.reminded_s = self.clock()
        for part, stage in self.moving:
            self.line(still_text(part.describe(stage, self.clock())))

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


class Progress:
    """Stages on a stream: a line that lives on a terminal, plain lines elsewhere, nothing if quiet."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False, reminds: bool = True) -> None:
        """`reminds`: without a terminal, a long stage says from time to time where it is."""
        self._screen = _Screen(stream or sys.stderr, quiet, reminds)
        self._head = ""
        self._model = ""
        self._steps: Timeline | None = None
        self._log: Callable[[str], Path] | None = None
        self._open: Stage | None = None
        self.timeline = Timeline()

    @property
    def quiet(self) -> bool:
        """Whether nothing is shown."""
        return self._screen.quiet

    def of(self, name: str, width: int = 0) -> Progress:
        """Return the progress of one of several models: each of its lines begins with the name."""
        part = copy(self)
        part._head = f"{name:<{width}}  "
        return part

    def follow(self, steps: Timeline, model: str, log: Callable[[str], Path] | None = None) -> None:
        """Show the steps that run, and the model, in the live line from now on. `log` returns the log of a step."""
        self._steps, self._model, self._log = steps, "" if self._head else name_of_model(model), log

    def epoch_in(self, stage: Stage) -> str:
        """Return the last epoch in the log of a training that a stage has really done; "" without one."""
        spans = (*self._steps.running, *self._steps.spans) if self._steps and self._log else ()
        if self._log is None or not any(span.name == TRAIN and span.started_s >= stage.started_s for span in spans):
            return ""
        with suppress(OSError), self._log(TRAIN).open("rb") as log:
            log.seek(-min(_TAIL_BYTES, log.seek(0, 2)), 2)
            lines = log.read().decode(errors="replace").splitlines(keepends=True)
            return next((line.strip() for line in lines[::-1] if line.startswith("epoch ") and line.endswith("\n")), "")
        return ""

    @contextmanager
    def stage(self, name: str, total: int = 0) -> Iterator[Stage]:
        """Open a stage until the end of the block. Set `note` on it for its closing line."""
        stage = self._open = Stage(name, total, started_s=time.monotonic())
        text = f"{self._head}{name:<10} stopped"
        try:
            self._screen.open(self, stage)
            with self.timeline.span(name, is_stage=True):
                yield stage
            text = f"{self._head}{name:<10} {time.monotonic() - stage.started_s:6.1f} s  {stage.note}".rstrip()
        except BaseException:
            text = f"{self._head}{name:<10} stopped after {time.monotonic() - stage.started_s:.1f} s"
            raise
        finally:
            self._open = None
            self._screen.close(stage, text)

    def step(self, text: str) -> None:
        """Count a step of the stage as done. Called from several threads; a lost update is harmless."""
        if stage := self._open:
            stage.done += 1
            stage.step = text
            self._screen.raise_up(stage)

    def note(self, text: str, *, once: str = "") -> None:
        """Write a sentence that the user should see, and that ends nothing.
        `once`: its subject, on which the commands of several models write one sentence."""
        with self._screen.lock:
            if once and once in self._screen.noted:
                return
            self._screen.noted.add(once)
        self._screen.line(f"{self._head}note: {text}")

    def line(self, text: str) -> None:
        """Write a line of the progress of another process."""
        self._screen.line(f"{self._head}{text}")

    def describe(self, stage: Stage, now_s: float, more_models: int = 0) -> MovingStage:
        """Return where a stage is, in words. `more_models`: how many other models are under way."""
        names = (name_of_step(span.name) for span in self._steps.running) if self._steps else ()
        running = tuple(filter(None, (self.epoch_in(stage), *(name for name in names if name != stage.name))))
        count = f"{stage.done}/{stage.total}" if stage.total else ""
        # A step that is done is told of as long as nothing else runs.
        steps = running or ((stage.step,) if stage.step else ())
        return MovingStage(self._head, stage.name, self._model, count, steps, now_s - stage.started_s, more_models)
