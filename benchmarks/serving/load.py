"""Requests per second of 8 clients, by h2load (nghttp2): a client in C costs less than the servers do."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

from wire_requests import WireRequest

CLIENTS = 8
NO_CLIENT = "h2load is not installed (Debian: nghttp2-client)"
_RATE = re.compile(r"finished in [\d.]+m?s, ([\d.]+) req/s")
_COUNTS = re.compile(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx")
_BYTES = re.compile(r"\((\d+)\) data")


def is_installed() -> bool:
    """Whether h2load is here."""
    return shutil.which("h2load") is not None


def measure_rate(request: WireRequest, port: int, seconds: float, reply_bytes: int, folder: Path) -> float:
    """Return the requests per second. Raises ValueError where a reply is no answer: its status is not 200, or it is not
    as long as one that was checked (`reply_bytes`, with gRPC's frame)."""
    body = request.body
    if request.protocol == "grpc":
        body = struct.pack(">BI", 0, len(body)) + body
        fields = {"content-type": "application/grpc", "te": "trailers"}
    else:
        fields = request.headers
    data = folder / f"{request.shape}.body"
    data.write_bytes(body)
    words = [
        "h2load", f"--clients={CLIENTS}", "--threads=1", "--max-concurrent-streams=1",
        f"--duration={1000 * seconds:.0f}ms",
        "--warm-up-time=200ms", f"--data={data}", *([] if request.protocol == "grpc" else ["--h1"]),
        *(f"--header={name}: {value}" for name, value in fields.items()), f"http://127.0.0.1:{port}{request.path}",
    ]  # fmt: skip
    text = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    rate, counts, size = _RATE.search(text), _COUNTS.search(text), _BYTES.search(text)
    if not rate or not counts or not size:
        raise ValueError(text)
    answered, *others = (int(count) for count in counts.groups())
    if any(others) or not answered or int(size[1]) % reply_bytes:  # bytes: those of the warm-up too
        raise ValueError(f"{answered} replies of {reply_bytes} bytes, {size[1]} bytes came; others: {others}\n{text}")
    return float(rate[1])
