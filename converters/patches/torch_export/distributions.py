"""Leave out the checks of arguments in `torch.distributions`: they ask data for numbers, and change no answer."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ..ledger import always, swapped, swaps

PATCHES = swaps(
    "torch.distributions.Distribution",
    {"_validate_args": always(False)},
    why="The checks branch on data, at which torch.export stops, and of which a trace keeps one side.",
    upstream="torch/distributions/distribution.py",
    until="torch.export leaves the checks out",
)


def unchecked_distributions() -> AbstractContextManager[None]:
    """Leave the checks out while a model is inspected, captured or traced; validate_args=True still checks."""
    return swapped(PATCHES)
