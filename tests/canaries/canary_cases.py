"""All canaries, by the id of the patch."""

from __future__ import annotations

import canary_cases_onnx
import canary_cases_tf2onnx
import canary_cases_torch_export
import canary_cases_torch_onnx_dynamo
from canary_harness import Canary

CASES: dict[str, Canary] = {
    **canary_cases_onnx.CASES,
    **canary_cases_tf2onnx.CASES,
    **canary_cases_torch_export.CASES,
    **canary_cases_torch_onnx_dynamo.CASES,
}
