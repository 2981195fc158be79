"""Which Python runs a step or a runtime: ours, or another one where its libraries clash with ours.

Both name their environment ("flex"). Where the libraries are installed beside us they are taken here; else the
variable TRANSLOAD_PYTHON_<NAME> (TRANSLOAD_PYTHON_FLEX) names the Python that has them. It needs numpy and the
libraries themselves; transload is lent to it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

from ...converters.steps import missing
from ...models.code_digest import entry_digest
from ...models.environments import PythonEnvironment, find_installed
from ...serving.runtimes.runtime_table import Runtime
from .compiler import find_compiler
from .extras import extras_for
from .toolchain import version_of

_LIMIT_S = 60
# Looks up modules and the versions of what brings them, and imports none of them.
_ASK = """
import json, sys
from importlib import metadata
from importlib.util import find_spec
def is_installed(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
names = [name for name in sys.argv[1:] if is_installed(name)]
brings = metadata.packages_distributions()
print(json.dumps({name: metadata.version(brings[name][0]) if name in brings else "" for name in names}))
"""


class Needs(Protocol):
    """What a step and a runtime have in common here."""

    @property
    def entry(self) -> str:
        """The function that does it."""

    @property
    def package(self) -> str:
        """Name and version of the third party that provides it; empty if it is ours."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules that it imports."""

    @property
    def environment(self) -> PythonEnvironment | None:
        """Where they may be found, if not here."""


@dataclass(frozen=True)
class Interpreter:
    """Another Python, as an action names it. The empty one is ours."""

    path: str = ""
    # The versions that only it knows, and which one it is; of the compiler, where the runtime starts it; and of the
    # package that provides a row, with its code.
    tools: Mapping[str, str] = field(default_factory=dict)


def interpreter_of(needs: Needs) -> Interpreter:
    """Return the Python that runs a step or a runtime: ours where that will do, else the one that is named."""
    named = _named(needs)
    if not named or _lacking(needs, version_of, find_installed) is None:
        compiler = find_compiler() if isinstance(needs, Runtime) and needs.compiles else None
        return Interpreter(tools={**({"compiler": compiler.version} if compiler else {}), **_package_of(needs)})
    return Interpreter(named, {"interpreter": named, **versions_in(named, needs.requires), **_package_of(needs)})


def _package_of(needs: Needs) -> dict[str, str]:
    return {"package": f"{needs.package} {entry_digest(needs.entry)}"} if needs.package else {}


def lacking(needs: Needs, find: Callable[[str], object | None] = find_installed) -> str | None:
    """Return what keeps a step or a runtime from running in its interpreter, or None. Imports nothing."""
    here = _lacking(needs, version_of, find)
    if isinstance(needs, Runtime):
        here = here or _lacking_beside_modules(needs, find)
    if here and (extras := _extras(needs, find)):
        here = f"{here} (extra {', '.join(extras)})"
    if here is None or needs.environment is None:
        return here
    named, variable = _named(needs), needs.environment.variable
    if not named:
        return f"{here} (here, or in the Python that {variable} names)"
    version = versions_in(named, needs.requires).get
    there = _lacking(needs, version, version)
    return f"{there} (in the Python that {variable} names)" if there else None


def _lacking(needs: Needs, version: Callable[[str], str | None], find: Callable[[str], object | None]) -> str | None:
    """Return what keeps it from running, or None; `version` and `find` look up a module."""
    if needs.environment and needs.environment.until:
        library, until = needs.requires[0], needs.environment.until
        if (installed := version(library)) and _release(installed) > _release(until):
            return f"needs {library} {until}"
    return missing(needs.requires, find)


def _extras(needs: Needs, find: Callable[[str], object | None]) -> tuple[str, ...]:
    """Return the extras of transload that bring what is lacking."""
    if isinstance(needs, Runtime) and needs.extra:
        return (needs.extra,)
    return extras_for(needs.requires, find)


def _lacking_beside_modules(runtime: Runtime, find: Callable[[str], object | None]) -> str | None:
    """Return what a runtime lacks that is no module: a compiler, or a provider in the build of ONNX Runtime."""
    if runtime.compiles and find_compiler() is None:
        return "needs a C++ compiler, such as g++"
    origin = getattr(find("onnxruntime"), "origin", None) if runtime.provider else None
    library = f"libonnxruntime_providers_{runtime.provider}.so"
    if runtime.provider and not (origin and (Path(origin).parent / "capi" / library).is_file()):
        return f"needs {library} of ONNX Runtime"
    return None


def _named(needs: Needs) -> str | None:
    return os.environ.get(needs.environment.variable) if needs.environment else None


def _release(version: str) -> tuple[int, ...]:
    """Return major and minor as numbers: 2.18 for 2.18.1."""
    return tuple(int(part) for part in version.split(".")[:2])


@cache
def versions_in(python: str, modules: tuple[str, ...]) -> dict[str, str]:
    """Return the modules that an interpreter has, with the versions of their distributions; none where it fails."""
    try:
        done = subprocess.run([python, "-c", _ASK, *modules], capture_output=True, timeout=_LIMIT_S, check=True)
        versions: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return versions
