"""When the stages and steps of a run went on, and what speaks against them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class TimelineSpan:
    """A stretch of time: a stage of the run, or a step that was really done."""

    name: str
    started_s: float  # of the monotonic clock
    seconds: float = 0.0
    is_stage: bool = False
    doubts: tuple[str, ...] = ()  # may be set until the span ends


@dataclass
class Timeline:
    """The spans of a run, in the order in which they ended. Thread-safe."""

    clock: Callable[[], float] = time.monotonic
    spans: list[TimelineSpan] = field(default_factory=list)
    _running: list[TimelineSpan] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def running(self) -> tuple[TimelineSpan, ...]:
        """What is going on now, in the order in which it began."""
        with self._lock:
            return tuple(self._running)

    @contextmanager
    def span(self, name: str, *, is_stage: bool = False) -> Iterator[TimelineSpan]:
        """Record what goes on until the end of the block. An exception is a doubt of the span, in its own words."""
        span = TimelineSpan(name, self.clock(), is_stage=is_stage)
        with self._lock:
            self._running.append(span)
        try:
            yield span
        except Exception as error:
            span.doubts = (*span.doubts, str(getattr(error, "what", "")) or type(error).__name__)
            raise
        finally:
            span.seconds = self.clock() - span.started_s
            with self._lock:
                self._running = [other for other in self._running if other is not span]
                self.spans.append(span)


def stage_of(span: TimelineSpan, spans: Iterable[TimelineSpan]) -> str:
    """Return the name of the stage that was under way when a span began; its own of a stage, "" between stages."""
    if span.is_stage:
        return span.name
    for stage in spans:
        if stage.is_stage and stage.started_s <= span.started_s <= stage.started_s + stage.seconds:
            return stage.name
    return ""
