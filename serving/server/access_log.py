"""The access log: one line of JSON per request, without what it carried."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime

import orjson

from ...models.errors import BadRequest
from .metrics import RequestRecord

_MOST_CHARACTERS = 256  # of a text that the client chose


class AccessLog:
    """A file that is appended to. A line that cannot be written is lost; the request is answered all the same.
    Raises BadRequest where the file cannot be opened."""

    def __init__(self, path: str) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
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
        with suppress(OSError):
            os.write(self._file, line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
