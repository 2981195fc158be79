"""Sizes as a person writes them."""

from __future__ import annotations

import re

from ...models.errors import BadRequest

_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_size(text: str) -> int:
    """Return the bytes of a size as in "5GB", "500 MB" or "2GiB". Raises BadRequest."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B|)", text.strip().upper())
    if not match or match[2] not in _UNITS:
        raise BadRequest(f"{text!r} is no size", fix="write it as in 10GB, 500MB or 2GiB")
    return round(float(match[1]) * _UNITS[match[2]])
