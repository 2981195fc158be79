"""All canaries, by the id of the patch."""

from __future__ import annotations

from . import canary_cases_onnx, canary_cases_tf2onnx, canary_cases_torch_export, canary_cases_torch_onnx_dynamo
from .canary_harness import Canary

CASES: dict[str, Canary] = {
    **canary_cases_onnx.CASES,
    **canary_cases_tf2onnx.CASES,
    **canary_cases_torch_export.CASES,
    **canary_cases_torch_onnx_dynamo.CASES,
}

# Patches of which no case is written yet that shows the library wrong in the tested versions: it is right in theirs.
NOT_SHOWN = frozenset(
    {
        "swap:torch._higher_order_ops.while_loop",
    }
)
