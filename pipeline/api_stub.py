"""pipeline/api.pyi, the signatures that editors show, made from the records of the commands.

python -m transload.pipeline.api_stub > pipeline/api.pyi
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
    results = {str(signature(function).return_annotation) for function in functions}
    imports = [*map(_import_of, sorted(results)), *(f"{_import_of(name)} as {name}" for name in api.__all__)]
    return "\n".join([_HEAD + "\n".join(imports), "", "__all__: list[str]", "", *map(_function, functions), ""])


def _import_of(name: str) -> str:
    """Return the line that imports a class of api.py from where it is defined."""
    return f"from {getattr(api, name).__module__.removeprefix(str(__package__))} import {name}"


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
        return f"*{parameter.name}: {kind}"
    if parameter.default is Parameter.empty:
        return f"{parameter.name}: {kind}"
    is_plain = isinstance(parameter.default, bool | int | float | str | None)
    kind = f"{kind} | None" if parameter.default is None and "None" not in kind else kind
    return f"{parameter.name}: {kind} = {repr(parameter.default) if is_plain else '...'}"


if __name__ == "__main__":
    print(stub(), end="")
