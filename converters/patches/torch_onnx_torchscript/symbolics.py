"""All that is registered for torch's older exporter."""

from __future__ import annotations

from ..torch_shared.floor_division import mend_floors
from ..torch_shared.masked_attention import mend_attention
from ..torch_shared.nearest_resize import mend_nearest
from ..torch_shared.wide_integers import mend_integers
from .compiled_code import mend_compiled
from .fused_attention_symbolics import mend_fused
from .multi_index import mend_places
from .number_symbolics import mend_numbers
from .recurrent_symbolics import mend_recurrent
from .transposed_axes import mend_turned


def mend_older_exporter() -> None:
    """Register every family for every later export of this process."""
    mend_attention()
    mend_compiled()
    mend_floors()
    mend_fused()
    mend_integers()
    mend_nearest()
    mend_numbers()
    mend_places()
    mend_recurrent()
    mend_turned()
