"""Register the symbolics of torch's TorchScript exporter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ledger import Kind, Patch, all_patches
from .fused_attention_symbolics import PATCHES as FUSED_ATTENTION

_FIRST_OPSET, _LAST_OPSET = 11, 20
_FIRST_OPSET_OF = {patch.name: 17 for patch in FUSED_ATTENTION}  # LayerNormalization begins at 17


def mend_older_exporter() -> None:
    """Register every symbolic for every later export of this process."""
    register(all_patches())


def register(records: Iterable[Patch]) -> None:
    """Register the symbolics among some patches for every later export of this process."""
    import torch

    exporter: Any = torch.onnx  # not all of it is in its types
    for patch in records:
        if patch.kind is Kind.SYMBOLIC:
            for opset in range(_FIRST_OPSET_OF.get(patch.name, _FIRST_OPSET), _LAST_OPSET + 1):
                exporter.register_custom_op_symbolic(patch.name, patch.replacement, opset)
