"""Names of torch that hold another value while a model is inspected, captured or traced, or generated code is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ..ledger import always, swapped, swaps

if TYPE_CHECKING:
    from types import GetSetDescriptorType

    import torch


def claim_onnx_export() -> AbstractContextManager[None]:
    """Let a model that asks torch.onnx.is_in_onnx_export() take the way that it takes in the TorchScript exporter."""
    return swapped(_IN_EXPORT)


def single_turn_loops() -> AbstractContextManager[None]:
    """Run the body of a torch while_loop once, which tells the shapes and dtypes of its results as well."""
    return swapped(_WHILE_LOOP)


def unchecked_distributions() -> AbstractContextManager[None]:
    """Leave out the checks of `torch.distributions`, which ask data for numbers; validate_args=True still checks."""
    return swapped(_ARGUMENT_CHECKS)


def followed_data() -> AbstractContextManager[None]:
    """Read `x.data` as `x.detach()`, which shares its numbers as well, while a model is captured or traced."""
    return swapped(_DATA)


def _single_turn(_condition: object, body: Callable[..., object], carried: Sequence[object]) -> object:
    return body(*carried)


def _detached(own: GetSetDescriptorType) -> property:
    import torch

    def assign(self: torch.Tensor, value: torch.Tensor) -> None:
        own.__set__(self, value)

    return property(torch.Tensor.detach, assign)


_ARGUMENT_CHECKS = swaps(
    "torch.distributions.Distribution",
    {"_validate_args": always(False)},
    why="The checks branch on data, at which torch.export stops, and of which a trace keeps one side.",
    upstream="torch/distributions/distribution.py",
    until="torch.export leaves the checks out",
)
_IN_EXPORT = swaps(
    "torch.onnx._internal.torchscript_exporter._globals.GLOBALS",
    {"_in_onnx_export": always(True)},  # the property of this name cannot be deleted again
    why="A trace outside of the exporter answers False to torch.onnx.is_in_onnx_export(), and the model takes a way "
    "that has no ONNX.",
    upstream="torch/onnx/_internal/torchscript_exporter/_globals.py",
    until="torch has a public context that sets it",
)
_WHILE_LOOP = swaps(
    "torch._higher_order_ops",
    {"while_loop": always(_single_turn)},
    why="With fake tensors it gives carried sizes new symbols, so that the sizes of what follows a loop are unknown.",
    upstream="torch/_higher_order_ops/while_loop.py",
    until="while_loop keeps the sizes that its body keeps",
)
_DATA = swaps(
    "torch.Tensor",
    {"data": _detached},
    why="torch.export stops at `x.data`; a trace makes a constant of its value.",
    upstream="torch/csrc/autograd/python_variable.cpp (THPVariable_get_data)",
    until="both captures follow `x.data`",
)
PATCHES = (*_ARGUMENT_CHECKS, *_IN_EXPORT, *_WHILE_LOOP, *_DATA)
