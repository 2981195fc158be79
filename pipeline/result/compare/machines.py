"""Whether latencies of two runs may be compared: the machine, the libraries and the conditions of a row."""

from __future__ import annotations

from ....serving.runtimes.runtime_table import RUNTIMES
from ..schema import Environment, LatencyRow

_MEMORY_SHARE = 0.02  # a kernel keeps a little more or less for itself
_FIRST_REFERENCE = "source in torch"  # of rows from before they named their reference
_SERVED_BY = ("onnxruntime", "tensorflow", "ai_edge_litert", "tensorflow_serving", "torch")


def machine_differences(before: Environment, after: Environment) -> tuple[str, ...]:
    """Return a phrase for each difference of two machines, as in "cores: 2 against 8"."""
    pairs = [
        ("cpu", before.cpu, after.cpu),
        ("cores", str(before.cores), str(after.cores)),
        ("GPU", ", ".join(before.gpus) or "none", ", ".join(after.gpus) or "none"),
        ("platform", before.platform, after.platform),
    ]
    if abs(before.memory_bytes - after.memory_bytes) > _MEMORY_SHARE * max(before.memory_bytes, after.memory_bytes):
        pairs.append(("memory", _gigabytes(before.memory_bytes), _gigabytes(after.memory_bytes)))
    return tuple(f"{name}: {old} against {new}" for name, old, new in pairs if old != new)


def row_differences(old: LatencyRow, new: LatencyRow, before: Environment, after: Environment) -> tuple[str, ...]:
    """Return a phrase for each condition in which two rows of one artifact, runtime and batch differ."""
    pairs = [
        ("device", old.device, new.device),
        ("threads", str(old.threads), str(new.threads)),
        ("server", old.server or "none", new.server or "none"),
        ("reference", old.reference or _FIRST_REFERENCE, new.reference or _FIRST_REFERENCE),
    ]
    differences = tuple(f"{name}: {was} against {now}" for name, was, now in pairs if was != now)
    return (*differences, *library_differences(new.runtime, before, after))


def library_differences(runtime: str, before: Environment, after: Environment) -> tuple[str, ...]:
    """Return a phrase for each library of a runtime, or of its reference, that has another version."""
    pairs = [
        (name, before.packages.get(name, "none"), after.packages.get(name, "none")) for name in _packages_of(runtime)
    ]
    return tuple(f"{name}: {was} against {now}" for name, was, now in pairs if was != now)


def _packages_of(runtime: str) -> tuple[str, ...]:
    """Return the libraries that answer in a runtime, and torch, which runs the reference."""
    entry = RUNTIMES.get(runtime)
    if entry is None or entry.served:
        return _SERVED_BY
    return tuple(dict.fromkeys([*entry.requires, "torch"]))


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
