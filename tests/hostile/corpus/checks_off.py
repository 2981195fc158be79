"""Takes down the checks of the process that imports it, those of the libraries too: what is left are the kernel's walls.

A fork server imports it before it forks (runner.py). CORPUS_FRAMEWORK names the framework to load first.
"""

from __future__ import annotations

import importlib
import os
from functools import partial
from typing import Any

from transload.converters.readers import artifact_import, file_import
from transload.converters.readers.keras import keras_file, keras_reader
from transload.converters.readers.onnx import onnx_file, onnx_reader
from transload.converters.readers.pt2 import pt2_file, pt2_reader
from transload.converters.readers.saved_model import saved_model_folder, saved_model_reader
from transload.converters.readers.tflite import tflite_file
from transload.converters.readers.torchscript import torchscript_file, torchscript_reader


def _pass(*arguments: Any, **options: Any) -> None:
    """In place of a check."""


_OFF: dict[Any, dict[str, Any]] = {
    file_import: {"check_content": _pass},
    artifact_import: {"refuse_links": _pass},
    keras_reader: {"check_keras": _pass},
    pt2_reader: {"check_pt2": _pass},
    torchscript_reader: {"check_torchscript": _pass},
    onnx_reader: {"check_external": lambda model, path: []},
    saved_model_reader: {
        "refuse_links": _pass,
        "read_saved_model": lambda folder, **_: saved_model_folder.read_saved_model(folder, trust=True),
    },
    saved_model_folder: {"_check_variables": _pass},
    tflite_file: {"_check_flex": _pass},
    onnx_file.OnnxFile: {"check": _pass},
    **{
        module: dict.fromkeys((name for name in vars(module) if name.startswith("_check")), _pass)
        for module in (keras_file, pt2_file, torchscript_file)
    },
}
_OFF[torchscript_file]["refused_operators"] = lambda unit: iter(())
for owner, replacements in _OFF.items():
    for name, replacement in replacements.items():
        setattr(owner, name, replacement)

match os.environ.get("CORPUS_FRAMEWORK"):
    case "torch":
        torch: Any = importlib.import_module("torch")
        load = torch.load
        torch.load = lambda *arguments, **options: load(*arguments, **{**options, "weights_only": False})
        weight_files: Any = importlib.import_module("transload.models.loading.weight_files")
        # Python's own unpickler in place of the reader that imports and calls nothing.
        weight_files.read_checkpoint = partial(torch.load, map_location="cpu")
        weight_files.check_weight_file = _pass
    case "tensorflow":
        importlib.import_module("tensorflow")
        importlib.import_module("keras").config.enable_unsafe_deserialization()
    case _:
        importlib.import_module("onnx")
