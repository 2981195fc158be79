"""The numbers that PyTorch's operators compare values with, while a model answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...models.probes.thresholds import Hear, constant_numbers, is_compared
from ...models.signature import Array
from .operator_trace import OperatorCall, OperatorTrace, tensors_in

if TYPE_CHECKING:
    import torch

_AXES = frozenset(("max", "min"))  # operators whose number is an axis, and no limit


def watch(model: Any, inputs: Sequence[torch.Tensor], hear: Hear) -> None:
    """Answer once, as serving.session.WatchedSession.watch tells."""

    def listen(call: OperatorCall, _results: Sequence[torch.Tensor]) -> None:
        if not is_compared(call.operator):
            return
        tensors = tensors_in((call.arguments, call.keywords))
        constants = [tensor for tensor in tensors if trace.number_of(tensor) is None]
        values = [_array(tensor) for tensor in tensors if trace.number_of(tensor) is not None]
        hear(str(call.index), call.operator, values, [*numbers_of(call), *constant_numbers(map(_array, constants))])

    trace = OperatorTrace(listen)
    trace.run(model, inputs)


def numbers_of(call: OperatorCall) -> list[float]:
    """Return the numbers among the arguments of a call that may be limits."""
    if call.operator in _AXES:
        return []
    arguments = (*call.arguments, *call.keywords.values())
    return [float(item) for item in arguments if isinstance(item, int | float) and not isinstance(item, bool)]


def _array(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().float().numpy() if tensor.is_floating_point() else tensor.cpu().numpy()
    return array
