"""What TensorFlow's files call their inputs and outputs: whoever takes a file in and whoever runs it say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

DEFAULT = "serving_default"


def plain_names(tensors: Sequence[str]) -> list[str]:
    """Names of tensors without what TensorFlow adds: `serving_default_x:0` is x, as long as that tells them apart."""
    plain = [_plain(name) for name in tensors]
    return plain if len(set(plain)) == len(plain) and all(plain) else list(tensors)


def _plain(name: str) -> str:
    stem, colon, number = name.rpartition(":")
    return (stem if colon and number.isdecimal() else name).removeprefix(f"{DEFAULT}_")


def default_signature(names: Iterable[str]) -> str | None:
    """The signature that a model is served by: `serving_default`, or the only one; None where nothing tells it."""
    found = list(names)
    if DEFAULT in found:
        return DEFAULT
    return found[0] if len(found) == 1 else None
