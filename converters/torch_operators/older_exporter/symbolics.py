"""All that is registered for torch's older exporter."""

from __future__ import annotations

from ..shared.attention import mend_attention
from ..shared.floor import mend_floors
from ..shared.integers import mend_integers
from ..shared.nearest import mend_nearest
from .compiled import mend_compiled
from .fused import mend_fused
from .numbers import mend_numbers
from .places import mend_places
from .recurrent import mend_recurrent
from .turned import mend_turned


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
