"""The access log: one line of JSON per request, without what it carried."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import orjson

from ...models.errors import BadRequest
from .metrics import RequestRecord

_MOST_CHARACTERS = 256  # of a text that the client chose


class AccessLog:
    """A file that is appended to. A line that cannot be written is lost, which `warn` is told once; the request is
    answered all the same. A file of more than `limit_bytes` is kept as FILE.1, and a new one begun.
    Raises BadRequest where the file cannot be opened."""

    def __init__(
        self, path: str, *, limit_bytes: int | None = None, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        self._path, self._limit_bytes, self._warn = path, limit_bytes, warn
        self._faults: dict[str, str | None] = {}  # that were told, by what cannot be done; "" of one that is over
        self._line_start = b""  # a new line, where the last one was written in part
        try:
            self._file = _open(path)
        except OSError as error:
            raise BadRequest(
                f"the access log {path} cannot be written: {error.strerror}", fix="name another file"
            ) from error

    def add(self, record: RequestRecord) -> None:
        """Write the line of a request that has its answer. One call of the system, so that lines do not mix."""
        line = orjson.dumps(
            {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "protocol": record.protocol,
                "method": record.method[:_MOST_CHARACTERS],
                "model": record.model[:_MOST_CHARACTERS],
                "version": record.version[:_MOST_CHARACTERS],
                "status": record.status,
                "bytes_in": record.bytes_in,
                "bytes_out": record.bytes_out,
                "milliseconds": round(1000 * (time.perf_counter() - record.start), 3),
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        line, self._line_start = self._line_start + line, b""
        try:
            is_whole = os.write(self._file, line) == len(line)
            self._line_start = b"" if is_whole else b"\n"
            self._tell("written", "" if is_whole else os.strerror(errno.ENOSPC))
        except OSError as error:
            self._tell("written", error.strerror)

    def reopen(self) -> bool:
        """Go on in the file of this name, a new one where it was renamed or removed; return whether it can be opened.
        No line is lost meanwhile."""
        try:
            file = _open(self._path)
        except OSError as error:
            self._tell("opened", error.strerror)
            return False
        os.dup2(file, self._file, inheritable=False)  # in one step: requests write meanwhile
        os.close(file)
        self._tell("opened", "")
        return True

    def check(self) -> None:
        """Begin a new file where this one was renamed, removed, or has grown to the limit. Called once a second."""
        try:
            opened = os.fstat(self._file)
            if not stat.S_ISREG(opened.st_mode):
                return
            named = Path(self._path).stat()
            is_same = (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
            if is_same and (self._limit_bytes is None or opened.st_size <= self._limit_bytes):
                return
            if is_same:
                Path(self._path).replace(f"{self._path}.1")
        except FileNotFoundError:
            is_same = False
        except OSError as error:
            self._tell("opened", error.strerror)
            return
        if self.reopen() and not is_same:
            self._say(f"the access log {self._path} was renamed or removed, and is begun anew")

    def _tell(self, action: str, fault: str | None) -> None:
        """Say why the log cannot be written or opened, once until it can."""
        if fault and fault != self._faults.get(action):
            self._say(f"the access log {self._path} cannot be {action}: {fault}; requests are answered all the same")
        self._faults[action] = fault

    def _say(self, sentence: str) -> None:
        with suppress(OSError):  # stderr may be on the same disk
            self._warn(sentence)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
