"""Servers as processes of their own: ours and the echoes, each on free ports of the loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from transload.serving.server.tfserving_launch import free_ports

HERE = Path(__file__).resolve().parent
TRANSLOAD = (sys.executable, "-P", "-m", "transload")
START_S = 90


@dataclass(frozen=True)
class Ports:
    """Where a server listens."""

    grpc: int = 0
    http: int = 0


@dataclass(frozen=True)
class Command:
    """How to start a server: the words, and what to add to the environment."""

    words: list[str]
    ports: Ports | None = None  # None: it prints them, gRPC's first
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def running(command: Command, folder: Path) -> Iterator[Ports]:
    """Run a server, and end it with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **command.environment}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command.words, cwd=folder, env=environment, stdout=subprocess.PIPE if command.ports is None else log,
            stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            yield command.ports or _printed(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _printed(process: subprocess.Popen[str]) -> Ports:
    assert process.stdout is not None
    numbers = [int(word) for word in process.stdout.readline().split()]
    return Ports(*numbers) if len(numbers) == 2 else Ports(numbers[0], numbers[0])


def wait_for(answer: Callable[[], object], limit_s: float = START_S) -> float:
    """Ask until there is an answer; return the seconds that took. Raises the last error after `limit_s`."""
    start = time.perf_counter()
    while True:
        try:
            answer()
            return time.perf_counter() - start
        except Exception:
            if time.perf_counter() - start > limit_s:
                raise
            time.sleep(0.002)


def echo(kind: str) -> Command:
    """Return a server that sends back what it gets: "grpc" or "asgi"."""
    return Command([sys.executable, "-P", str(HERE / "echo_servers.py"), kind])


def own_echo() -> Command:
    """Return an echo over the HTTP connection of `transload serve`."""
    return Command([sys.executable, "-P", str(HERE / "own_echo.py")])


def embedded(artifact: Path) -> Command:
    """Return the embedded server with its session in the same process, as `transload bench` opens it."""
    return Command([sys.executable, "-P", str(HERE / "embedded_server.py"), str(artifact)])


def serve(artifact: Path) -> Command:
    """Return `transload serve`."""
    grpc_port, http_port = free_ports(2)
    ports = ["--grpc-port", str(grpc_port), "--rest-port", str(http_port)]
    return Command([*TRANSLOAD, "serve", str(artifact), *ports], Ports(grpc_port, http_port))
