"""PyTorch's functions, and methods of its tensors, under other definitions for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Instead(NamedTuple):
    """What stands in the place of `owner`.`name`."""

    owner: Any
    name: str
    value: Any


@contextmanager
def replaced(table: Iterable[Instead]) -> Iterator[None]:
    """By no mode, which would stand between the model's lines and all that they call."""
    entries = list(table)
    kept = [vars(each.owner).get(each.name) for each in entries]  # None: it is inherited
    for each in entries:
        setattr(each.owner, each.name, each.value)
    try:
        yield
    finally:
        for each, own in zip(entries, kept, strict=True):
            if own is None:
                delattr(each.owner, each.name)
            else:
                setattr(each.owner, each.name, own)
