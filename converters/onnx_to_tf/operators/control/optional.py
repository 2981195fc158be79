"""Optional values: they are the value that they hold, as far as it is known while lowering whether there is one."""

from __future__ import annotations

import numpy as np

from ...lowerings import ANY, lowers
from ...operator_context import OperatorContext
from ...values import Value


@lowers("Optional", since=15, until=28, V=ANY)
def optional(op: OperatorContext) -> Value:
    """Lower Optional: its input."""
    value = op.anything(0)
    if value is None:
        op.refuse("it makes an empty optional value")
    op.ignore("type", because="it says what an empty one would hold")
    return value


@lowers("OptionalHasElement", since=15, until=28, O=ANY)
def optional_has_element(op: OperatorContext) -> Value:
    """Lower OptionalHasElement: whether it has an input."""
    return op.known(np.array(op.anything(0) is not None))


@lowers("OptionalGetElement", since=15, until=28, O=ANY)
def optional_get_element(op: OperatorContext) -> Value:
    """Lower OptionalGetElement: its input."""
    return op.anything(0) or op.value(0)
