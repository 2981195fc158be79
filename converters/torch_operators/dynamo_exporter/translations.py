"""All that the dynamo exporter is handed, of every family."""

from __future__ import annotations

from ..shared.attention import attention
from ..shared.floor import division
from ..shared.integers import integers
from ..shared.lines import lines
from ..shared.nearest import nearest
from ..shared.products import products
from ..shared.script import Translations
from .bags import bags
from .counts import counts
from .grouped import grouped
from .matrices import matrices
from .numbers import numbers
from .ordering import ordering
from .pools import pools
from .resized import resized
from .rolls import rolls
from .running import running
from .shifts import shifts


def translations() -> Translations:
    """What the dynamo exporter lacks or has wrong: its argument `custom_translation_table`."""
    return {
        **attention(),
        **division(),
        **bags(),
        **counts(),
        **grouped(),
        **integers(),
        **lines(),
        **matrices(),
        **nearest(),
        **numbers(),
        **ordering(),
        **pools(),
        **products(),
        **resized(),
        **rolls(),
        **running(),
        **shifts(),
    }
