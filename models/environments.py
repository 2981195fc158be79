"""Other Python environments, for libraries that clash with the tested set or have dropped a feature that is needed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PythonEnvironment:
    """A Python for steps and runtimes that our own libraries cannot run (pipeline/workers/interpreters.py)."""

    name: str  # "litert": docs/design/litert.md says how it is made
    until: str = ""  # the newest version that works of the first module needed, as "2.18"; empty: any

    @property
    def variable(self) -> str:
        """The environment variable that names its Python."""
        return f"TRANSLOAD_PYTHON_{self.name.upper()}"

    @property
    def guide(self) -> str:
        """The page that says how it is made."""
        return f"docs/design/{self.name}.md"
