"""The part that all sessions share: feeds are checked before a runtime sees them, outputs are named in the record's
order, and foreign errors become ours."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from ..models.errors import BadRequest, SessionLost, SizeRefused, TransloadError
from ..models.library_messages import first_line
from ..models.signature import STRINGS, Array, Signature, TensorSpec, check_feeds

_WORDS = 240  # characters of a foreign message that a sentence can carry; the whole of it is in the log, as the cause
# What TensorFlow puts before the line that says what is wrong, and lines of Python's, which led there.
_EMPTY = ("Graph execution error", "Detected at node", "<stack traces unavailable>", 'File "')

# What ONNX Runtime puts around that: numbers of its own, the file once more, the line of its source and the condition
# there, or its function with all its types. And TensorFlow: functions and operators by names of its own.
_AROUND = re.compile(
    r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Non-zero status code returned while running |Load model from .*? failed:)?"
    r"|Status Message: (/\S+:\d+ .*? was false\. )?"
    r"|/\S+\.(?:h|cc):\d+ [^()]*(?:\(\))?\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? "
    r"(\[ONNXRuntimeError\] : \d+ : \w+ : )?(\S+\.(?:h|cc):\d+ \w+ )?"
    r"|\{\{function_node \S+\}\} ?|\s*\[Op:\S+\]( name:.*)?$"
)


def first_words(error: object) -> str:
    """Return the first meaningful line of a foreign error, or of its text, cut to what a sentence can carry."""
    text = _AROUND.sub("", first_line(error, sys.maxsize, skip=_EMPTY, nothing=type(error).__name__))
    return text if len(text) <= _WORDS else f"{text[:_WORDS]}..."


class SizeExcluded(RuntimeError):
    """A call at sizes that an exported program excludes."""


@contextmanager
def answering(runtime: str, argument_errors: tuple[type[BaseException], ...] = ()) -> Iterator[None]:
    """Callers of a session catch our errors, never a runtime's own: see `session_error`."""
    try:
        yield
    except TransloadError:
        raise
    except Exception as error:
        raise session_error(error, runtime, argument_errors) from error


def session_error(
    error: Exception, runtime: str, argument_errors: tuple[type[BaseException], ...] = ()
) -> TransloadError:
    """Map a runtime's error to ours.
    `argument_errors` are those by which the runtime says that a value is at fault, such as an index out of range:
    nothing is lost by them. Any other means that feeds which fit the signature got no answer."""
    if isinstance(error, argument_errors):
        return BadRequest(f"{runtime} refuses these values: {first_words(error)}", fix="send other values")
    lost = SizeRefused if isinstance(error, SizeExcluded) else SessionLost
    return lost(
        f"{runtime} gave no answer to inputs that fit the signature: {first_words(error)}",
        fix="open the session again, or try another runtime",
    )


class FeedCheck:
    """check_feeds in a microsecond, if dtypes and shapes equal those of the last call.
    The whole check costs more than a small model does, and a figure would show it."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self._specs = specs
        self._names = [spec.name for spec in specs]
        self._last: list[object] | None = None

    def __call__(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the feeds in the signature's order. Raises BadRequest where they do not fit."""
        kinds: list[object] = [(name, value.dtype, value.shape) for name, value in feeds.items()]
        if kinds != self._last:
            check_feeds(self._specs, feeds)
            self._last = kinds
        return [feeds[name] for name in self._names]


def smallest_feeds(signature: Signature) -> dict[str, Array]:
    """Return zeros and empty strings for the inputs, at the smallest sizes that the signature has."""
    sizes = {axis: bounds.filled.low for axis, bounds in signature.bounds.items()}
    return {
        spec.name: np.full(
            [sizes.get(axis, 1) if isinstance(axis, str) else axis for axis in spec.shape],
            b"" if spec.dtype == STRINGS else 0,
            spec.dtype,
        )
        for spec in signature.inputs
    }


class CheckedSession(ABC):
    """The part of a Session that does not depend on what answers. One caller at a time.
    `argument_errors` are those of `answering`."""

    def __init__(
        self, runtime: str, signature: Signature, device: str, argument_errors: tuple[type[BaseException], ...] = ()
    ) -> None:
        self.signature = signature
        self.device = device
        self._runtime = runtime
        self._argument_errors = argument_errors
        self._check = FeedCheck(signature.inputs)
        self._outputs = tuple(spec.name for spec in signature.outputs)
        self._closed = False

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """See serving.session.Session.run."""
        if self._closed:
            raise SessionLost(f"the {self._runtime} session is closed", fix="open it again")
        values = self._check(feeds)
        try:  # not `answering`, whose generator costs a microsecond and more
            answers = self._answer(values)
        except TransloadError:
            raise
        except Exception as error:
            raise session_error(error, self._runtime, self._argument_errors) from error
        return dict(zip(self._outputs, answers, strict=True))

    def bind(self, feeds: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
        """See serving.session.BindingSession.bind."""
        return partial(self._answer, self._check(feeds))

    def close(self) -> None:
        """See serving.session.Session.close."""
        if not self._closed:
            self._closed = True
            self._release()

    @abstractmethod
    def _answer(self, values: Sequence[Array]) -> Sequence[Array]:
        """Return the outputs in the record's order, in memory that nobody else uses. `values` are in the record's order
        and fit it; they are not written to."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of the runtime's own objects. Called once."""
