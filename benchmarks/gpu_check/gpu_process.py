"""Handles of measured processes, as the rounds of pipeline/measure/bench/ ask them: `worker(method, **options)`."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transload.models.errors import SessionLost

WORKER = Path(__file__).resolve().parent / "gpu_worker.py"


class WorkerProcess:
    """One process of gpu_worker.py. Every answer has a time limit, and no answer ends the process."""

    def __init__(
        self, name: str, log: Path, *, command: tuple[str, ...] = (sys.executable, "-u", str(WORKER)),
        environ: Mapping[str, str] = os.environ, left_s: Callable[[], float] = lambda: float("inf"),
    ) -> None:  # fmt: skip
        self.name, self._left_s = name, left_s
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=dict(environ),
                start_new_session=True,  # it may start processes itself (torch.compile): they end with it
            )  # fmt: skip
        self._log = log
        self.pid = self._process.pid
        self._pending = b""

    def send(self, method: str, **options: Any) -> None:
        """Ask, and do not wait. Raises SessionLost where the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write((json.dumps({"method": method, "options": options}) + "\n").encode())
            self._process.stdin.flush()
        except OSError as error:
            raise self._lost(f"its process ended ({error.strerror})") from error

    def receive(self, timeout_s: float) -> Any:
        """Wait for the answer to the oldest request. Raises SessionLost with the sentence of what went wrong."""
        line = self._line(min(timeout_s, self._left_s()))
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise self._lost("its answer is no JSON") from error
        if "error" in answer:
            raise SessionLost(answer["error"], fix=f"see {self._log}")
        return answer["value"]

    def __call__(self, method: str, **options: Any) -> Any:
        """Ask and wait, as long as a batch may take at most."""
        self.send(method, **options)
        return self.receive(timeout_s=240)

    def close(self) -> None:
        """End the process and those that it started, at once: nothing of them is needed any more."""
        process = self._process
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        end = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise self._lost("it gave no answer in time")
                data = os.read(self._process.stdout.fileno(), 1 << 20)
                if not data:
                    raise self._lost(f"its process ended with {self._process.wait()}")
                self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _lost(self, sentence: str) -> SessionLost:
        return SessionLost(sentence, fix=f"see {self._log}")
