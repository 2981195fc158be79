"""Names of TensorFlow that it does not promise to keep. Each is imported when it is first used."""

from __future__ import annotations

from typing import Any

from ..lazy_import import name_of

MODULES = {  # by name, the module that has it
    "ConverterError": "tensorflow.lite.python.convert_phase",
    "ResourceVariable": "tensorflow.python.ops.resource_variable_ops",
    "TFLiteSavedModelConverterV2": "tensorflow.lite.python.lite",
    "convert_variables_to_constants_v2": "tensorflow.python.framework.convert_to_constants",
    "mlir_quantize": "tensorflow.lite.python.convert",
    "schema_py_generated": "tensorflow.lite.python",
}


def __getattr__(name: str) -> Any:
    return name_of(MODULES, name, __name__)
