"""The error that torch's dynamo exporter stops with, in one sentence: the operator, the model's line, what helps."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....models.errors import Refused
from ....models.library_messages import first_line
from ....models.source_lines import line_in
from .. import torch_messages

if TYPE_CHECKING:
    import torch

_FIX = "write that line with other operators, or name a target that another route leads to"


def untranslated(error: BaseException) -> Refused | None:
    """Return the refusal that an error of the exporter stands for; None where it stops at no operator."""
    chain = list(causes(error))
    node = next(filter(None, map(_node, chain)), None)
    if node is None:
        return None
    line = line_in(node.meta.get("stack_trace") or "")
    operator = f"{node.target}{f', at {line}' if line else ''}"
    if any(torch_messages.NO_FUNCTION.search(str(cause)) for cause in chain):
        return Refused(f"torch's exporter has no ONNX of {operator}", fix=_FIX)
    return Refused(f"torch's exporter fails at {operator}: {first_line(chain[-1], 300)}", fix=_FIX)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what it was raised from, and so on; of None nothing."""
    while error is not None:
        yield error
        error = error.__cause__


def _node(error: BaseException) -> torch.fx.Node | None:
    """Return the node that the exporter was at: it names the operator alone, of which a model may have many."""
    import torch

    nodes = (frame.f_locals.get("node") for frame, _ in traceback.walk_tb(error.__traceback__))
    return next((node for node in nodes if isinstance(node, torch.fx.Node)), None)
