"""What is installed in this Python, and other environments for libraries that clash with the tested set."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec


def find_installed(name: str) -> ModuleSpec | None:
    """Return the spec of a module, or None where it or its parent package is missing. Runs no code of the module.
    `importlib.util.find_spec` raises for "google.protobuf" where there is no package "google"."""
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """A Python for steps and runtimes that our own libraries cannot run (pipeline/workers/interpreters.py)."""

    name: str  # "flex": docs/design/flex.md says how it is made
    until: str = ""  # the newest version that works of the first module needed, as "2.18"; empty: any

    @property
    def variable(self) -> str:
        """The environment variable that names its Python."""
        return f"TRANSLOAD_PYTHON_{self.name.upper()}"

    @property
    def guide(self) -> str:
        """The page that says how it is made."""
        return f"docs/design/{self.name}.md"
