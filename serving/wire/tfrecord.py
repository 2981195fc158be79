"""TFRecord files: each record with its length, and masked CRC-32C sums of both.

The format is that of tensorflow/core/lib/io/record_writer.h; CRC-32C is RFC 3720's, with the polynomial 0x82F63B78.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_MASK_DELTA = 0xA282EAD8


def write_records(records: Iterable[bytes]) -> bytes:
    """Return the content of a TFRecord file."""
    return b"".join(_record(data) for data in records)


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _masked_crc(length) + data + _masked_crc(data)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of `data`."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _masked_crc(data: bytes) -> bytes:
    """Return the sum as the file has it: a CRC over data that holds CRCs is weak, so it is rotated and shifted."""
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        rows.append(crc)
    return tuple(rows)
