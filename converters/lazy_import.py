"""Libraries that are imported at their first use: a module that names them can be imported without them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyLibrary:
    """A library, or a part of it, which is imported when an attribute is first read."""

    def __init__(self, library: str, part: str = "", substitute: str = "") -> None:
        self._library, self._part, self._substitute = library, part, substitute

    def __getattr__(self, attribute: str) -> Any:
        library: Any
        try:
            library = import_module(self._library)
        except ModuleNotFoundError:
            if not self._substitute:
                raise
            library = import_module(self._substitute)
        return getattr(getattr(library, self._part) if self._part else library, attribute)


if TYPE_CHECKING:
    import keras
    import onnx
    import onnxruntime
    import tensorflow as tf
    import torch
    from ai_edge_litert import schema_py_generated as tflite
else:
    keras, onnx, onnxruntime = LazyLibrary("keras"), LazyLibrary("onnx"), LazyLibrary("onnxruntime")
    tf, torch = LazyLibrary("tensorflow"), LazyLibrary("torch")
    # The classes of a TFLite file's tables. The Python with TensorFlow's Flex delegate has no LiteRT.
    tflite = LazyLibrary("ai_edge_litert.schema_py_generated", substitute="tensorflow.lite.python.schema_py_generated")

__all__ = ["LazyLibrary", "keras", "name_of", "onnx", "onnxruntime", "tf", "tflite", "torch"]


def name_of(modules: Mapping[str, str], name: str, module_name: str) -> Any:
    """Import and return a name by the module that has it; for the `__getattr__` of a module of such names."""
    if name not in modules:
        raise AttributeError(f"{module_name} lists no {name}")
    library = import_module(modules[name])
    return getattr(library, name) if hasattr(library, name) else import_module(f"{modules[name]}.{name}")
