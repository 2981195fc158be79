"""Artifacts of the contract's model in every format, and processes that hold a session over one."""

from __future__ import annotations

import importlib.util
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from transload.models.formats import FORMATS
from transload.pipeline.workers.interpreters import lacking
from transload.serving.runtimes.runtime_table import RUNTIMES

HERE = Path(__file__).parent
MAKER = {"source": "torch", "pt2": "torch", "torchscript": "torch", "onnx": "onnx", "keras": "keras"}


def skip_where_it_lacks(name: str) -> None:
    """Skip a runtime on request whose extra, or whose GPU build, is not installed here. All others have to run."""
    runtime = RUNTIMES[name]
    if runtime.extra and (reason := lacking(runtime)):
        pytest.skip(f"{name} {reason}")
    if "cpu" not in runtime.devices:
        pytest.skip(f"{name} runs on a GPU alone")


class Raised(Exception):
    """What an act in the other process raised: type and text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


class Host:
    """The test's end of session_host.py."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            argv = [sys.executable, str(HERE / "session_host.py"), str(theirs.fileno())]
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        self._link = ours
        self._stream = ours.makefile("rwb")

    def __getattr__(self, act: str) -> Callable[..., Any]:
        return partial(self._ask, act)

    def _ask(self, act: str, *args: Any) -> Any:
        pickle.dump((act, args), self._stream)
        self._stream.flush()
        reply = pickle.load(self._stream)  # noqa: S301  (from the process that we started)
        if reply[0] == "error":
            raise Raised(*reply[1:])
        return reply[1]

    def end(self) -> None:
        self._stream.close()
        self._link.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@contextmanager
def hosting() -> Iterator[Host]:
    host = Host()
    try:
        yield host
    finally:
        host.end()


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of the contract's model in a format (or "source"); each framework makes its own, once, when asked."""
    root = tmp_path_factory.mktemp("artifacts")
    done: set[str] = set()

    def find(form: str) -> Path:
        maker = form if form in FORMATS and FORMATS[form].package else MAKER.get(form, "tensorflow")
        if maker not in done:
            argv = [sys.executable, str(HERE / "artifact_maker.py"), maker, str(root)]
            made = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=300)
            assert made.returncode == 0, made.stderr
            done.add(maker)
        return root / form

    return find


@pytest.fixture(scope="session")
def contract() -> Any:
    """The module contract.py."""
    spec = importlib.util.spec_from_file_location("contract", HERE / "contract.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def available() -> Callable[[str], None]:
    """`available(name)`, which skips a test of a runtime that this machine cannot have."""
    return skip_where_it_lacks


@pytest.fixture(scope="session")
def host() -> Callable[[], Any]:
    """`with host() as process:`, a process that holds what a test asks it to."""
    return hosting


@pytest.fixture(scope="module")
def shared_host() -> Iterator[Callable[[str], Host]]:
    """`shared_host(name)`, a process for all tests of a module that name it: it loads its framework once."""
    hosts: dict[str, Host] = {}
    with ExitStack() as stack:

        def find(name: str) -> Host:
            if name not in hosts:
                hosts[name] = stack.enter_context(hosting())
            return hosts[name]

        yield find
