"""Names of onnxscript that it does not promise to keep. Each is imported when it is first used."""

from __future__ import annotations

from typing import Any

from ..lazy_import import name_of

MODULES = dict.fromkeys(("core", "nn"), "onnxscript.function_libs.torch_lib.ops")  # the exporter's own translations


def __getattr__(name: str) -> Any:
    return name_of(MODULES, name, __name__)
