"""Register all symbolics of torch's TorchScript exporter."""

from __future__ import annotations

from ..torch_shared import floor_division, masked_attention, nearest_resize, wide_integers
from ..torch_shared.traced_symbolics import ALL_OPSETS, register
from . import (
    compiled_code,
    fused_attention_symbolics,
    multi_index,
    number_symbolics,
    recurrent_symbolics,
    transposed_axes,
)

_FAMILIES = (
    masked_attention, compiled_code, floor_division, fused_attention_symbolics, wide_integers, nearest_resize,
    number_symbolics, multi_index, recurrent_symbolics, transposed_axes,
)  # fmt: skip


def mend_older_exporter() -> None:
    """Register every family for every later export of this process."""
    for family in _FAMILIES:
        register(family.PATCHES, getattr(family, "OPSETS", ALL_OPSETS))
