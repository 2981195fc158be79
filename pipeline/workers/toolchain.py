"""Which libraries are installed, in which versions. They are looked up and not imported."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

ABSENT = "absent"  # in place of the version of a library that is not installed
# Modules whose distribution has another name; the first that is installed counts.
_DISTRIBUTIONS = {
    "PIL": ("pillow",),
    "google.protobuf": ("protobuf",),
    "grpc": ("grpcio",),
    "onnxruntime": ("onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime"),
    "sklearn": ("scikit-learn",),
    "tensorflow_serving": ("tensorflow-serving-api",),
}


_version = cache(version)  # the metadata of a distribution is parsed anew each time


@cache
def version_of(module: str) -> str | None:
    """Return the installed version of the distribution that brings a module, or None."""
    for name in _DISTRIBUTIONS.get(module, (module,)):
        try:
            build = name.removeprefix("onnxruntime-") if name != module and module == "onnxruntime" else ""
            return f"{_version(name)}{f'+{build}' if build else ''}"
        except PackageNotFoundError:
            continue
    return None


def requirement_of(module: str, known: str | None = None) -> str | None:
    """Return the line of a requirements.txt that brings a module in the version that is here, or in the `known` one of
    another interpreter. None where it is not installed."""
    for name in _DISTRIBUTIONS.get(module, (module,)):
        try:
            release = (known or _version(name)).partition("+")[0]  # a package index knows no local version
        except PackageNotFoundError:
            continue
        return f"{name.replace('_', '-')}=={release}"
    return None


def toolchain(requires: tuple[str, ...]) -> dict[str, str]:
    """Return what a result depends on beside its inputs: interpreter, processor family, library versions."""
    versions = {name: version_of(name) or ABSENT for name in sorted({*requires, "numpy"})}
    return {"python": platform.python_version(), "machine": platform.machine(), **versions}
