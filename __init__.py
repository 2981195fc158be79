"""transload carries a trained PyTorch model into the formats it is served in, proves that each copy still gives
the same answers, measures each where it will run, and says what may be released."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

# The public names, all of pipeline/api.py, looked up when first used: `import transload` loads nothing.
__all__ = [
    "LoadOptions",
    "TuningOptions",
    "__version__",
    "bench",
    "bundle",
    "compare",
    "convert",
    "convert_all",
    "history",
    "locate",
    "locate_all",
    "record",
    "run",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.pipeline.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
