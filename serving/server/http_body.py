"""Bodies of HTTP requests and replies: gzip in both directions, and deflate in requests, as tritonclient sends it."""

from __future__ import annotations

import zlib

from .http_messages import Headers
from .serving_error import invalid

_GZIP_FORMAT = 31  # zlib's wbits: a gzip header and the largest window
_FORMATS = {b"gzip": _GZIP_FORMAT, b"deflate": zlib.MAX_WBITS}
_LEAST_COMPRESSED = 1 << 10
_LEVEL = 1  # numbers as text shrink to a half at any level


def unpack(headers: Headers, body: bytes, most: int) -> bytes | None:
    """Return a body decompressed, or None where it is then longer than `most` bytes.
    Raises ServingError INVALID_ARGUMENT where its encoding is unknown or broken."""
    if b"content-encoding" not in headers:
        return body
    encoding = headers[b"content-encoding"].strip().lower()
    if encoding == b"identity":
        return body
    if encoding not in _FORMATS:
        raise invalid(f"Content-Encoding: {encoding.decode('latin-1')} is none of gzip, deflate, identity")
    unpacker = zlib.decompressobj(_FORMATS[encoding])
    try:
        unpacked = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise invalid(f"the body of the request is no {encoding.decode()} stream: {error}") from error
    if len(unpacked) > most:
        return None
    if not unpacker.eof or unpacker.unused_data:
        raise invalid(f"the body of the request is no complete {encoding.decode()} stream")
    return unpacked


def wants_gzip(headers: Headers, content: bytes) -> bool:
    """Whether the client takes gzip, and the answer is long enough for it to pay."""
    if len(content) < _LEAST_COMPRESSED or b"accept-encoding" not in headers:
        return False
    for item in headers[b"accept-encoding"].decode("latin-1").split(","):
        coding, _, weight = item.replace(" ", "").lower().partition(";q=")
        if coding == "gzip":
            return not weight or weight.strip("0.") != ""
    return False


def compress(content: bytes) -> bytes:
    """Return content as a gzip stream."""
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP_FORMAT)
    return packer.compress(content) + packer.flush()
