"""Which extra of transload brings a module, as pyproject.toml lists them. Nothing is imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from ...models.environments import find_installed

_MODULES = {
    "torch": ("torch", "lightning_fabric", "safetensors", "sklearn"),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "tensorflow": ("tensorflow", "keras", "tf2onnx", "google.protobuf"),
    "tflite": ("ai_edge_litert",),
    "serve": ("tensorflow_serving", "grpc", "grpc_health", "grpc_reflection", "uvloop", "httptools"),
    "models": ("torchvision", "timm", "transformers"),
    "data": ("PIL", "pyarrow"),
    "mlflow": ("mlflow",),
}
_NEED = re.compile(r"needs (?P<modules>[\w.]+(?:, [\w.]+)*)(?: \(extra (?P<extras>[\w-]+(?:, [\w-]+)*)\))?")
EXTRA_OF: Mapping[str, str] = {module: extra for extra, modules in _MODULES.items() for module in modules}


def extras_for(modules: Iterable[str], find: Callable[[str], object | None] = find_installed) -> tuple[str, ...]:
    """Return the extras that bring those of the modules that are not installed, in the order of pyproject.toml."""
    absent = {EXTRA_OF[module] for module in modules if module in EXTRA_OF and find(module) is None}
    return tuple(extra for extra in _MODULES if extra in absent)


def join_needs(reasons: Iterable[str]) -> str:
    """Join phrases of what is needed: "needs A (extra X)" and "needs A, B (extra X, Y)" name modules and extras once.
    Other phrases stand behind them."""
    modules: dict[str, None] = {}
    extras: dict[str, None] = {}
    phrases: dict[str, None] = {}
    for reason in reasons:
        if match := _NEED.fullmatch(reason):
            modules |= dict.fromkeys(match["modules"].split(", "))
            extras |= dict.fromkeys(match["extras"].split(", ") if match["extras"] else ())
        else:
            phrases[reason] = None
    need = f"needs {', '.join(modules)}" if modules else ""
    of_extras = f" (extra {', '.join(extras)})" if extras else ""
    return "; ".join(filter(None, (f"{need}{of_extras}", *phrases)))


def install_command(extras: Iterable[str]) -> str:
    """Return the command that adds extras to an environment."""
    return f"pip install 'transload[{','.join(extras)}]'"
