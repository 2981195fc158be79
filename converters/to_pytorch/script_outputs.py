"""Outputs of a compiled module as a tuple of tensors: ONNX has neither dicts nor lists of a known length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...models.signature import Signature
from .model_calls import example_inputs

if TYPE_CHECKING:
    import torch


def returning_tuple(module: torch.jit.ScriptModule, signature: Signature) -> torch.jit.ScriptModule:
    """Return the module, wrapped in one that unpacks the result if it returns a dict or a list.
    The trace keeps the call of the module as a call, with all its branches and loops."""
    import torch

    return_type = str(module.forward.schema.returns[0].type)  # type: ignore[attr-defined]  # forward is a method
    if not (return_type.startswith("Dict") or return_type == "List[Tensor]"):
        return module
    outputs = signature.outputs
    keys: Any = [spec.name for spec in outputs] if return_type.startswith("Dict") else range(len(outputs))

    class Apart(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            result: Any = self.inner(*inputs)
            return tuple(result[key] for key in keys)

    traced: torch.jit.ScriptModule = torch.jit.trace(Apart().eval(), example_inputs(signature))  # type: ignore[no-untyped-call]
    return traced
