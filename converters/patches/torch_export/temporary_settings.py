"""Names of torch that hold another value while a model is traced, or a generated module is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ..ledger import always, swapped, swaps


def claim_onnx_export() -> AbstractContextManager[None]:
    """Let a model that asks torch.onnx.is_in_onnx_export() take the way that it takes in the TorchScript exporter."""
    return swapped([_IN_EXPORT])


def single_turn_loops() -> AbstractContextManager[None]:
    """Run the body of a torch while_loop once, which tells the shapes and dtypes of its results as well."""
    return swapped([_WHILE_LOOP])


def _single_turn(_condition: object, body: Callable[..., object], carried: Sequence[object]) -> object:
    return body(*carried)


(_IN_EXPORT,) = swaps(
    "torch.onnx._internal.torchscript_exporter._globals.GLOBALS",
    {"_in_onnx_export": always(True)},  # the property of this name cannot be deleted again
    why="A trace outside of the exporter answers False to torch.onnx.is_in_onnx_export(), and the model takes a way "
    "that has no ONNX.",
    upstream="torch/onnx/_internal/torchscript_exporter/_globals.py",
    until="torch has a public context that sets it",
)
(_WHILE_LOOP,) = swaps(
    "torch._higher_order_ops",
    {"while_loop": always(_single_turn)},
    why="With fake tensors it gives carried sizes new symbols, so that the sizes of what follows a loop are unknown.",
    upstream="torch/_higher_order_ops/while_loop.py",
    until="while_loop keeps the sizes that its body keeps",
)
PATCHES = (_IN_EXPORT, _WHILE_LOOP)
