"""All that the dynamo exporter is handed, of every family."""

from __future__ import annotations

from ..torch_shared.floor_division import division
from ..torch_shared.linspace import lines
from ..torch_shared.masked_attention import attention
from ..torch_shared.nearest_resize import nearest
from ..torch_shared.onnxscript_opset import Translations
from ..torch_shared.size_products import products
from ..torch_shared.wide_integers import integers
from .bit_shifts import shifts
from .counts import counts
from .cumulative_operators import running
from .embedding_bags import bags
from .grouped_convolutions import grouped
from .ordering import ordering
from .pools import pools
from .resize_scales import resized
from .rolls import rolls
from .scalar_functions import numbers
from .small_matrices import matrices


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
