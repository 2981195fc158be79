"""Which Python runs a step: ours, or one of another environment, where a step's libraries clash with the others.

A step names its environment ("litert"). Where the libraries are installed beside us they are taken here; else the
variable TRANSLOAD_PYTHON_<NAME> (TRANSLOAD_PYTHON_LITERT) names the Python that has them. It needs numpy and the
step's own libraries; transload itself is lent to it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

from ..converters.steps import Step, missing
from ..serving.runtimes.table import Runtime
from .toolchain import version_of

_LIMIT_S = 60
# Looks up modules and the versions of what brings them, and imports none of them.
_ASK = """
import json, sys
from importlib import metadata
from importlib.util import find_spec
names = [name for name in sys.argv[1:] if find_spec(name) is not None]
brings = metadata.packages_distributions()
print(json.dumps({name: metadata.version(brings[name][0]) if name in brings else "" for name in names}))
"""


def variable(environment: str) -> str:
    """The environment variable that names the Python of an environment."""
    return f"TRANSLOAD_PYTHON_{environment.upper()}"


def python_of(step: Step) -> str:
    """The interpreter that runs a step."""
    named = os.environ.get(variable(step.environment)) if step.environment else None
    return named if named and missing(step.requires) else sys.executable


def lacking(step: Step) -> str | None:
    """What keeps a step from running, in the interpreter that would run it; or None. Imports nothing."""
    here = missing(step.requires)
    if here is None or not step.environment:
        return here
    if not (named := os.environ.get(variable(step.environment))):
        return f"{here} (here, or in the Python that {variable(step.environment)} names)"
    found = versions_in(named, step.requires)
    return missing(step.requires, found.get)


def toolchain_of(step: Step) -> dict[str, str]:
    """The versions that a step has in another interpreter; nothing where it runs in ours."""
    python = python_of(step)
    return {"interpreter": python, **versions_in(python, step.requires)} if python != sys.executable else {}


def elsewhere(runtime: Runtime) -> dict[str, Any]:
    """What an action says of the interpreter that its runtime is in: nothing where that is ours. One that is named goes
    first: our version of a library may lack what the runtime needs of it."""
    named = _named(runtime)
    if not named:
        return {}
    return {"python": named, "tools": {"interpreter": named, **versions_in(named, runtime.requires)}}


def lacking_in(runtime: Runtime) -> str | None:
    """What keeps a runtime from being opened, in the interpreter that it would be in; or None. Imports nothing."""
    if named := _named(runtime):
        return missing(runtime.requires, versions_in(named, runtime.requires).get)
    library = runtime.requires[0]
    ours = version_of(library)
    if not runtime.until or not ours or _release(ours) <= _release(runtime.until):
        return missing(runtime.requires)
    return f"needs {library} {runtime.until} (here, or in the Python that {variable(runtime.environment)} names)"


def _named(runtime: Runtime) -> str | None:
    return os.environ.get(variable(runtime.environment)) if runtime.environment else None


def _release(version: str) -> tuple[int, ...]:
    """2.18 of 2.18.1."""
    return tuple(int(part) for part in version.split(".")[:2])


@cache
def versions_in(python: str, modules: tuple[str, ...]) -> dict[str, str]:
    """Those of some modules that an interpreter has, with the versions of what brings them; none where it is none."""
    try:
        done = subprocess.run([python, "-c", _ASK, *modules], capture_output=True, timeout=_LIMIT_S, check=True)
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return found
