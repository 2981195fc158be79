"""Bodies of REST requests and answers: gzip in both directions, and the limit on their size."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from .metrics import RequestRecord
from .serving_error import invalid

if TYPE_CHECKING:
    from starlette.requests import Request

_DROPPED = 8  # times the limit, that is read of a body that is too long
_CHUNK = 1 << 20  # that is decompressed before other requests get a turn
_GZIP_FORMAT = 31  # zlib's wbits: a gzip header and the largest window
_LEAST_COMPRESSED = 1 << 10
_LEVEL = 1  # numbers as text shrink to a half at any level


async def read_body(request: Request, most: int, record: RequestRecord) -> bytes | None:
    """Return the body of a request, decompressed, or None where it is longer than `most` bytes, sent or decompressed.
    A longer one is read and dropped for a while, for clients look for an answer only when they have sent it.
    Raises ServingError INVALID_ARGUMENT where its encoding is unknown or broken."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise invalid(f"Content-Encoding: {encoding} is neither gzip nor identity")
    unpack = zlib.decompressobj(_GZIP_FORMAT) if encoding == "gzip" else None
    parts: list[bytes] = []
    length = 0
    async for part in request.stream():
        record.bytes_in += len(part)
        if record.bytes_in > _DROPPED * most:
            return None
        if length > most:
            continue
        if unpack is None:
            parts.append(part)
            length += len(part)
        else:
            length = await _unpack(unpack, part, parts, length, most)
        if length > most:
            parts.clear()
    if unpack is not None and length <= most and not (unpack.eof and not unpack.unused_data):
        raise invalid("the body of the request is no complete gzip stream")
    return b"".join(parts) if length <= most else None


async def _unpack(unpack: zlib._Decompress, part: bytes, parts: list[bytes], length: int, most: int) -> int:
    """Append what `part` decompresses to, in chunks; return the length of all parts. It stops beyond `most`."""
    while part and length <= most:
        try:
            chunk = unpack.decompress(part, _CHUNK)
        except zlib.error as error:
            raise invalid(f"the body of the request is no gzip stream: {error}") from error
        part = unpack.unconsumed_tail
        parts.append(chunk)
        length += len(chunk)
        if part:
            await asyncio.sleep(0)
    return length


def wants_gzip(request: Request, content: bytes) -> bool:
    """Whether the client takes gzip, and the answer is long enough for it to pay."""
    if len(content) < _LEAST_COMPRESSED:
        return False
    for item in request.headers.get("accept-encoding", "").split(","):
        coding, _, weight = item.replace(" ", "").lower().partition(";q=")
        if coding == "gzip":
            return not weight or weight.strip("0.") != ""
    return False


def compress(content: bytes) -> bytes:
    """Return content as a gzip stream."""
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP_FORMAT)
    return packer.compress(content) + packer.flush()
