"""Hostile .pt2 files and TorchScript archives, made by tests/hostile/archive_samples.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from .. import archive_samples as samples
from .case import Case, Place, convert

_PROGRAM, _SCRIPT = "m.pt2", "m.pt"


@cache
def _good() -> dict[str, samples.Files]:
    """The files of a good archive of each kind, by its suffix."""
    with TemporaryDirectory() as folder:
        return {suffix: samples.read_files(path) for suffix, path in samples.write_good(Path(folder)).items()}


def _write(name: str, change: samples.Change) -> Callable[[Place], object]:
    def build(place: Place) -> None:
        path = place.here / name
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript
            change(dict(_good()[path.suffix]), path)

    return build


def cases() -> Iterator[Case]:
    """Yield a case for each sample. One that never ends is refused by the limit of taking in, or when it is called."""
    for name, (attempt, change) in samples.PROGRAMS.items():
        yield Case(f"pt2/{name}", attempt, _write(_PROGRAM, change), convert(_PROGRAM, "onnx"))
    script = convert(_SCRIPT, "onnx", "--input", "x=float32[batch,4]")
    for name, (attempt, change) in samples.SCRIPTS.items():
        yield Case(f"torchscript/{name}", attempt, _write(_SCRIPT, change), script)
