"""A PyTorch model whose operators are seen while it answers, as arrays that a listener may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.signature import Array, Signature
from ..runtimes.torch_callable import torch_device
from ..runtimes.torch_eager_session import open_module
from .operator_trace import OperatorCall, OperatorTrace, tensors_in

if TYPE_CHECKING:
    import torch

# Told a call and its results; arrays share the memory of the tensors, and None stands for a dtype that numpy lacks.
ListenArrays = Callable[[OperatorCall, Sequence["Array | None"]], None]
ReplaceArrays = Callable[[OperatorCall], "Sequence[Array] | None"]


@dataclass(frozen=True)
class TracedAnswer:
    """The calls of one answer, and the model's outputs with the numbers of their values."""

    calls: list[OperatorCall]
    outputs: Mapping[str, Array]  # empty where a listener ended the trace
    numbers: Mapping[str, int]  # of outputs; one that is a weight has none
    number_of: Callable[[torch.Tensor], int | None]


class TracedModel:
    """The source or the exported program in a folder, on the CPU. `names`: of the weights, by their id."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.signature: Signature
        self.signature, self._model = open_module(folder, torch_device("cpu", threads))
        named: Callable[[], Any] = getattr(self._model, "state_dict", dict)
        self._weights = {_place(tensor): name.removeprefix("model.") for name, tensor in named().items()}

    def run(
        self, feeds: Mapping[str, Array], listen: ListenArrays, replace: ReplaceArrays = lambda _call: None
    ) -> TracedAnswer:
        """Answer the feeds. `listen` and `replace` are as in OperatorTrace; EndTrace of a listener ends the trace."""
        import torch

        from ...models.loading.build import name_outputs

        def hear(call: OperatorCall, results: list[torch.Tensor]) -> None:
            listen(call, [array_of(tensor) for tensor in results])

        def give(call: OperatorCall) -> list[torch.Tensor] | None:
            arrays = replace(call)
            return None if arrays is None else [torch.from_numpy(np.array(array)) for array in arrays]

        tensors = [torch.from_numpy(np.array(feeds[spec.name], order="C")) for spec in self.signature.inputs]
        trace = OperatorTrace(hear, give)
        returned = trace.run(self._model, tensors)
        if returned is None:
            return TracedAnswer(trace.calls, {}, {}, trace.number_of)
        named = name_outputs(returned, [spec.name for spec in self.signature.outputs])
        arrays = {name: tensor.detach().numpy().copy() for name, tensor in named.items()}
        numbers = {name: trace.number_of(tensor) for name, tensor in named.items()}
        return TracedAnswer(
            trace.calls, arrays, {name: at for name, at in numbers.items() if at is not None}, trace.number_of
        )

    def weight_name(self, tensor: torch.Tensor) -> str:
        """Return the name of a weight, "layers.3.norm.weight"; empty for any other tensor."""
        return str(self._weights.get(_place(tensor), ""))


def array_of(tensor: torch.Tensor) -> Array | None:
    """Return an array over the memory of a tensor; None for a dtype that numpy lacks, or a sparse tensor."""
    try:
        return tensor.detach().numpy()
    except (TypeError, RuntimeError):
        return None


def _place(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def rerun_wider(call: OperatorCall) -> list[Array]:
    """Run a call again with float64 in the place of float32; empty where that is no operator for float64."""
    import torch

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.double() if value.dtype == torch.float32 else value
        return type(value)(map(widen, value)) if type(value) in (list, tuple) else value

    if call.function._schema.is_mutable:
        return []
    try:
        with torch.inference_mode():
            results = call.function(
                *widen(call.arguments), **{name: widen(part) for name, part in call.keywords.items()}
            )
    except (RuntimeError, TypeError):
        return []
    return [array for tensor in tensors_in(results) if (array := array_of(tensor)) is not None]
