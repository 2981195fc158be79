"""Compare the device that a session runs on with the one that was requested."""

from __future__ import annotations

from collections.abc import Iterable

from ..session import Session

UNKNOWN = "unknown"  # a server that does not say where it runs

# Integer work on shapes, and the plumbing of a graph. Runtimes keep these on the CPU beside a GPU on purpose, because
# the host reads the values; so they say nothing of where the arithmetic is done.
_HOST_WORK = frozenset((
    "Shape", "Size", "Gather", "Unsqueeze", "Squeeze", "Concat", "Slice", "Cast", "Mul", "Add", "Sub", "Div",
    "Mod", "Constant", "ConstantOfShape", "Range", "Equal", "Where", "ReduceProd", "Min", "Max", "Greater",
    "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Not", "Identity", "Expand", "Tile",
    "MemcpyFromHost", "MemcpyToHost", "_Arg", "_Retval", "_Send", "_Recv", "_HostSend", "_HostRecv", "Const",
    "NoOp", "Placeholder", "StridedSlice", "Pack", "VarHandleOp", "PartitionedCall", "StatefulPartitionedCall",
))  # fmt: skip


def numbered_device(device: str) -> str:
    """Return a device with its number: "cuda" is "cuda:0"."""
    return "cuda:0" if device == "cuda" else device


def number(device: str) -> int:
    """N of "cuda:N"; 0 for "cuda"."""
    return int(numbered_device(device).partition(":")[2] or 0)


def placed(nodes: Iterable[tuple[str, str]], requested: str) -> str:
    """Where a graph runs: `asked` if all that computes lies there, else where the first that does not lies.
    `nodes` are pairs of operator type and device. Integer work on shapes is not counted, unless there is nothing else.
    """
    nodes = list(nodes)
    counted = [device for kind, device in nodes if kind not in _HOST_WORK] or [device for _, device in nodes]
    return next((device for device in counted if device != requested), requested)


def computed_elsewhere(nodes: Iterable[tuple[str, str]], provider: str) -> list[str]:
    """Return the operators that compute in another provider than this one, each once.
    `nodes` are pairs of operator type and provider."""
    nodes = list(nodes)
    elsewhere = (kind for kind, place in nodes if place != provider and kind not in _HOST_WORK)
    # Where it has none at all, what is left computes nothing but shapes.
    return list(dict.fromkeys(elsewhere)) or ([] if any(place == provider for _, place in nodes) else ["all of it"])


def check_device(session: Session, requested: str) -> str | None:
    """One sentence where `session` does not run on the device that was asked for, else None.
    A server that does not say where it runs ("unknown") is not contradicted; its row carries the word. "auto" asks for
    nothing."""
    if runs_on(session.device, requested):
        return None
    return f"asked to run on {numbered_device(requested)}, it runs on {session.device}"


def runs_on(device: str, requested: str) -> bool:
    """Whether a device, as a session says it, is the one that was asked for; see `check_device`."""
    return requested == "auto" or numbered_device(device) in (numbered_device(requested), UNKNOWN)
