"""A model without a framework, and a server over it on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from transload.models.signature import Array, Bounds, Signature, TensorSpec
from transload.serving.checked_session import CheckedSession
from transload.serving.server import tfserving_grpc
from transload.serving.server.embedded import EmbeddedServer
from transload.serving.server.http_server import HttpServer
from transload.serving.server.repository.model_repository import Repository
from transload.serving.server.repository.served_version import OpenedSession

TWO = Signature(
    (TensorSpec("b", "float32", ("batch", 2)), TensorSpec("a", "int64", ("batch",))),
    (TensorSpec("sum", "float32", ("batch", 2)), TensorSpec("kept", "int64", ("batch",))),
)
ONE = Signature((TensorSpec("x", "float32", ("batch", 2)),), (TensorSpec("y", "float32", ("batch", 2)),))

_STEPS = (("height", Bounds(32, 128, 32)),)
STEPS = Signature(
    (TensorSpec("x", "float32", ("batch", "height"), _STEPS),), (TensorSpec("y", "float32", ("batch", "height")),)
)


class NumpySession(CheckedSession):
    """sum = b + a, kept = a; or y = 2 x. Counts who is in it, and does what a test asks."""

    def __init__(self, signature: Signature) -> None:
        super().__init__("numpy", signature, "cuda:3", (IndexError,))
        self.inside = self.most_inside = self.runs = 0
        self.act: Callable[[], None] = lambda: None
        self.released = False

    def _answer(self, values: Sequence[Array]) -> list[Array]:
        self.runs += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            self.act()
            if len(values) == 1:
                return [values[0] * np.float32(2)]
            return [values[0] + values[1][:, None].astype(np.float32), values[1].copy()]
        finally:
            self.inside -= 1

    def _release(self) -> None:
        self.released = True


@dataclass
class Served:
    session: NumpySession
    server: EmbeddedServer
    repository: Repository
    addresses: dict[str, str] = field(default_factory=dict)


def serve(signature: Signature, other_sessions: Mapping[str, Signature] | None = None) -> Served:
    """Serve a model, as `other_sessions` too."""
    session = NumpySession(signature)
    model = Repository()
    sessions = {name: NumpySession(other) for name, other in (other_sessions or {}).items()}
    model.add_opened("m", OpenedSession(session, "unknown", other_sessions=sessions))
    rest = HttpServer(model, "127.0.0.1", 0)
    server = EmbeddedServer(model, tfserving_grpc.GrpcServer(model, "127.0.0.1", 0), rest, "127.0.0.1")
    return Served(session, server, model, server.addresses())


@pytest.fixture
def two() -> Iterator[Served]:
    """Two inputs, two outputs."""
    served = serve(TWO)
    yield served
    served.server.close()


@pytest.fixture
def steps() -> Iterator[Served]:
    """One input, with a height of 32, 64, 96 or 128."""
    served = serve(STEPS)
    yield served
    served.server.close()


@pytest.fixture
def one() -> Iterator[Served]:
    """One input, one output."""
    served = serve(ONE)
    yield served
    served.server.close()


@pytest.fixture
def one_session() -> Callable[[], NumpySession]:
    """Make a session of one input and one output."""
    return lambda: NumpySession(ONE)


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], Any]], threading.Thread]]:
    """Run something beside the test; it is waited for."""
    started: list[threading.Thread] = []

    def run(act: Callable[[], Any]) -> threading.Thread:
        thread = threading.Thread(target=act)
        thread.start()
        started.append(thread)
        return thread

    yield run
    for thread in started:
        thread.join(60)


def wait_for(what: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@pytest.fixture
def until() -> Callable[..., None]:
    return wait_for
