"""What a compiled module gives, as a tuple of tensors: ONNX has neither dicts nor lists of a known length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...models.signature import Signature
from .pt2_from_source import example_inputs

if TYPE_CHECKING:
    import torch


def giving_a_tuple(module: torch.jit.ScriptModule, signature: Signature) -> torch.jit.ScriptModule:
    """The module, where it gives a dict or a list inside of one that takes it apart. The call of the module stays a
    call in the trace, with whatever branches and loops it has."""
    import torch

    kind = str(module.forward.schema.returns[0].type)  # type: ignore[attr-defined]  # its method
    if not (kind.startswith("Dict") or kind == "List[Tensor]"):
        return module
    outputs = signature.outputs
    places: Any = [spec.name for spec in outputs] if kind.startswith("Dict") else range(len(outputs))

    class Apart(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            given: Any = self.inner(*inputs)
            return tuple(given[place] for place in places)

    traced: torch.jit.ScriptModule = torch.jit.trace(Apart().eval(), example_inputs(signature))  # type: ignore[no-untyped-call]
    return traced
