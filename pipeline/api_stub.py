"""pipeline/api.pyi, the signatures that editors show, made from the records of the commands.

python -m transload.pipeline.api_stub > pipeline/api.pyi
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from inspect import Parameter, formatannotation, isfunction, signature
from typing import Any

from . import api

_HEAD = '''"""The signatures of api.py, for editors: made by `python -m transload.pipeline.api_stub`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..models.formats import Target
from ..models.signature import TensorSpec
from ..serving.bundles.bundle_records import System
'''
_MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def stub() -> str:
    """Return the text of the file."""
    functions = [value for value in vars(api).values() if isfunction(value) and value.__module__ == api.__name__]
    imports = sorted({line for function in functions for line in _import_of(function)})
    return "\n".join([_HEAD + "\n".join(imports), "", *map(_function, functions), ""])


def _import_of(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the line that imports what a function returns, and what else its parameters name."""
    name = str(signature(function).return_annotation)
    module = getattr(api, name).__module__.removeprefix(f"{__package__}.")
    yield f"from .{module} import {name}"
    if function.__name__ == "bench":
        yield "from .options.bench_parts import LoadOptions as LoadOptions, TuningOptions as TuningOptions"


def _function(function: Callable[..., Any]) -> str:
    lines, is_starred = [], False
    call = signature(function)
    for parameter in call.parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and not is_starred:
            lines.append("    *,")
        is_starred |= parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL)
        lines.append(f"    {_parameter(parameter)},")
    return "\n".join([f"def {function.__name__}(", *lines, f") -> {call.return_annotation}: ..."])


def _parameter(parameter: Parameter) -> str:
    kind = _MODULES.sub("", formatannotation(parameter.annotation))
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}: str | Path"
    if parameter.default is Parameter.empty:
        return f"{parameter.name}: {kind}"
    default = repr(parameter.default) if isinstance(parameter.default, bool | int | float | str) else "..."
    kind = f"{kind} | None" if parameter.default is None and "None" not in kind else kind
    return f"{parameter.name}: {kind} = {'None' if parameter.default is None else default}"


if __name__ == "__main__":
    print(stub(), end="")
