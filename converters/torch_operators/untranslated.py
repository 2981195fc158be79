"""What torch's dynamo exporter stops at, in one sentence: the operator, the model's line, and what helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.foreign import first_line
from ..shrink.onnx import line_in

if TYPE_CHECKING:
    import torch

_STOPPED = re.compile(r"Error when translating node .*?target=torch\.ops\.([\w.]+)\]", re.DOTALL)
_LACKING = "No ONNX function found"
_FIX = "write that line with other operators, or name a target that another route leads to"


def untranslated(error: BaseException, program: torch.export.ExportedProgram) -> Refused | None:
    """The refusal that an error of the exporter stands for; None where it names no operator."""
    causes = list(_causes(error))
    operator = next((found[1] for each in causes if (found := _STOPPED.search(str(each)))), None)
    if operator is None:
        return None
    line = _line(operator, program)
    where = f", at {line}" if line else ""
    if any(_LACKING in str(each) for each in causes):
        return Refused(f"torch's exporter has no ONNX of {operator}{where}", fix=_FIX)
    return Refused(f"torch's exporter fails at {operator}{where}: {first_line(causes[-1], 300)}", fix=_FIX)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _line(operator: str, program: torch.export.ExportedProgram) -> str | None:
    """Of the first such operator, or of what is taken apart into such."""
    return _line_in(program.graph, operator) or _line_in(program.run_decompositions().graph, operator)


def _line_in(graph: torch.fx.Graph, operator: str) -> str | None:
    meant = (node for node in graph.nodes if str(node.target) == operator)
    return next(filter(None, (line_in(node.meta.get("stack_trace") or "") for node in meant)), None)
