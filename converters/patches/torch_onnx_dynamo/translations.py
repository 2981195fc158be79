"""The translations that the dynamo exporter is handed, of every module."""

from __future__ import annotations

from collections.abc import Callable

from ..ledger import translation_table
from ..torch_shared.floor_division import division
from ..torch_shared.linspace import lines
from ..torch_shared.masked_attention import attention
from ..torch_shared.nearest_resize import nearest
from ..torch_shared.size_products import products
from ..torch_shared.wide_integers import integers
from . import (
    bit_shifts,
    counts,
    cumulative_operators,
    embedding_bags,
    grouped_convolutions,
    ordering,
    pools,
    resize_scales,
    rolls,
    scalar_functions,
    small_matrices,
)

_MODULES = (
    bit_shifts, counts, cumulative_operators, embedding_bags, grouped_convolutions, ordering, pools, resize_scales,
    rolls, scalar_functions, small_matrices,
)  # fmt: skip


def translations() -> dict[Callable[..., object], Callable[..., object]]:
    """Return the translations by operator: the exporter's argument `custom_translation_table`."""
    own = translation_table(patch for module in _MODULES for patch in module.PATCHES)
    return {**attention(), **division(), **integers(), **lines(), **nearest(), **products(), **own}
