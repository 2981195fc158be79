"""The protocol of every runtime: a loaded model that answers, in this process or behind a socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ..models.probes.thresholds import Hear
from ..models.signature import Array, Signature


class Session(Protocol):
    """One loaded artifact. Not thread-safe: one caller at a time."""

    @property
    def signature(self) -> Signature:
        """Names, dtypes and shapes as the artifact's record has them."""

    @property
    def device(self) -> str:
        """Where the arithmetic really runs: "cpu" or "cuda:0", read back from the runtime and not from the request."""

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the outputs by name, in the signature's order. The arrays belong to the caller: no later run changes
        them, and the feeds are not written to.
        Raises BadRequest where the feeds do not fit the signature; nothing is lost by it. Raises SessionLost where the
        model no longer answers."""

    def close(self) -> None:
        """Let go of everything. Safe to call twice."""


@runtime_checkable
class BindingSession(Session, Protocol):
    """A session that can check feeds ahead of a call."""

    def bind(self, feeds: Mapping[str, Array]) -> Callable[[], Sequence[Array]]:
        """Check these feeds, and return the runtime's own call on them: a measurement holds nothing else. It gives the
        outputs in the signature's order, and raises the runtime's own errors. Raises BadRequest as `run` does."""


@runtime_checkable
class SeveralSignatures(Session, Protocol):
    """A session over a file with further signatures: a SavedModel's."""

    other_sessions: Mapping[str, Session]  # by the names of their signatures; they end with this one


def other_sessions_of(session: Session) -> Mapping[str, Session]:
    """Return the sessions of the further signatures of a session's file, none where it has none."""
    return session.other_sessions if isinstance(session, SeveralSignatures) else {}


@runtime_checkable
class WideningSession(Session, Protocol):
    """A session that can answer in float64: PyTorch's, whose answers are then the truth for every float32 copy."""

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:
        """Answer in float64 from now on. There is no way back. Raises SessionLost where the model cannot be widened.
        `noise` is the relative standard deviation of a random error in the result of every operator, drawn from `seed`;
        -noise makes the opposite errors."""


@runtime_checkable
class WatchedSession(Session, Protocol):
    """A session whose operators can be seen: PyTorch's."""

    def watch(self, feeds: Mapping[str, Array], hear: Hear) -> None:
        """Answer once, and tell `hear` of each call of an operator: its place in the answer, its kind, the values that
        it reads, and the numbers among its arguments and small constants. The arrays are valid during the call."""
