"""What torch's older exporter lacks or has wrong, registered for every later export of this process."""

from __future__ import annotations

from typing import Any

from .floor import OPSETS, mend_floors


def mend_older_exporter() -> None:
    """Whole numbers are divided as PyTorch does it, and `lengths.cpu()`, which pack_padded_sequence asks for, stays."""
    import torch

    mend_floors()
    exporter: Any = torch.onnx  # not all of it is in its types
    for opset in OPSETS:
        exporter.register_custom_op_symbolic("aten::cpu", _unmoved, opset)


def _unmoved(_g: Any, self: Any) -> Any:
    return self
