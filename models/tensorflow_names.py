"""Names of inputs and outputs in TensorFlow's files, alike for who reads a file and who runs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

DEFAULT = "serving_default"


def plain_names(tensors: Sequence[str]) -> list[str]:
    """Strip what TensorFlow adds to names: `serving_default_x:0` is x, as long as the names stay distinct."""
    plain = [_plain(name) for name in tensors]
    return plain if len(set(plain)) == len(plain) and all(plain) else list(tensors)


def _plain(name: str) -> str:
    stem, colon, number = name.rpartition(":")
    return (stem if colon and number.isdecimal() else name).removeprefix(f"{DEFAULT}_")


def default_signature(names: Iterable[str]) -> str | None:
    """Return the signature that a model is served by: `serving_default`, or the only one, else None."""
    signatures = list(names)
    if DEFAULT in signatures:
        return DEFAULT
    return signatures[0] if len(signatures) == 1 else None
