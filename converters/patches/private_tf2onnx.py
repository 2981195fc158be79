"""Names of tf2onnx, which has no public interface but its command. Each is imported when it is first used."""

from __future__ import annotations

from typing import Any

from ..lazy_import import name_of

MODULES = {  # by name, the module that has it
    **dict.fromkeys(("IfOp", "Select", "StatelessIfOp", "While"), "tf2onnx.onnx_opset.controlflow"),
    **dict.fromkeys(("inline_subgraph", "parameter_binding"), "tf2onnx.onnx_opset.controlflow"),
    **dict.fromkeys(("ConvTranspose", "Pad", "PoolOp"), "tf2onnx.onnx_opset.nn"),
    **dict.fromkeys(("MatrixDiag", "MatrixDiagPartV2V3"), "tf2onnx.onnx_opset.tensor"),
    **dict.fromkeys(("optimizer", "tfonnx", "utils"), "tf2onnx"),
    "TflWhile": "tf2onnx.tflite_handlers.tfl_controlflow",
    "find_function": "tf2onnx.tf_loader",
    "process_tf_graph": "tf2onnx.tfonnx",
    "tf_op": "tf2onnx.handler",
}


def __getattr__(name: str) -> Any:
    return name_of(MODULES, name, __name__)
