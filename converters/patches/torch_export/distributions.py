"""`torch.distributions` without the checks of their arguments, which ask data for numbers and change no answer."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..torch_shared.replaced import Instead, replaced


def unchecked_distributions() -> AbstractContextManager[None]:
    """While a model is looked at, captured or traced; one that is told validate_args=True checks all the same."""
    from torch.distributions import Distribution

    return replaced([Instead(Distribution, "_validate_args", False)])
