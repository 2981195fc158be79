"""What torch's dynamo exporter has no ONNX of where numbers are complex, told with the model's line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ..shrink.onnx import line_in

if TYPE_CHECKING:
    import torch

_SAID = re.compile(r"OpOverload\(op='([\w.]+)', overload='(\w+)'.*complex-valued", re.DOTALL)
_FIX = "compute that line with real numbers: the real and the imaginary part as two tensors, as cos and sin make them"


def complex_refused(error: BaseException | None, program: torch.export.ExportedProgram) -> Refused | None:
    """The refusal that an error of the exporter stands for; None where it is about something else."""
    while error is not None:
        found = _SAID.search(str(error))
        if found is not None:
            line = _line(found[1], program.graph.nodes)
            where = f", at {line} or in what it calls" if line else ""  # it keeps the frames of forward alone
            name = f"{found[1]}.{found[2]}"
            return Refused(f"torch's exporter has no ONNX of {name} of complex numbers{where}", fix=_FIX)
        error = error.__cause__
    return None


def _line(operator: str, nodes: Any) -> str | None:
    """The model's line that the operator comes from; else the first that has complex numbers."""
    found = [node for node in nodes if any(map(_is_complex, (node, *node.all_input_nodes)))]
    meant = [node for node in found if str(node.target).startswith(f"{operator}.")]
    return next(filter(None, (line_in(node.meta.get("stack_trace") or "") for node in (*meant, *found))), None)


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val")
    return bool(getattr(getattr(value, "dtype", None), "is_complex", False))
