"""Optional values, as far as it is known while lowering whether there is one: they are what they hold."""

from __future__ import annotations

import numpy as np

from ...lowerings import ANY, lowers
from ...operator_context import Op
from ...values import Value


@lowers("Optional", since=15, until=28, V=ANY)
def optional(op: Op) -> Value:
    """What it is given."""
    found = op.anything(0)
    if found is None:
        op.refuse("it makes an empty optional value")
    op.ignore("type", because="it says what an empty one would hold")
    return found


@lowers("OptionalHasElement", since=15, until=28, O=ANY)
def optional_has_element(op: Op) -> Value:
    """Whether it is given something."""
    return op.known(np.array(op.anything(0) is not None))


@lowers("OptionalGetElement", since=15, until=28, O=ANY)
def optional_get_element(op: Op) -> Value:
    """What it is given."""
    return op.anything(0) or op.value(0)
