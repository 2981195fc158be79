"""A Python beside ours, for libraries that clash with the tested set, or that have dropped what is needed of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """What a step or a runtime may be run in where our own libraries will not do (pipeline/workers/interpreters.py)."""

    name: str  # "litert": docs/design/litert.md says how it is made
    until: str = ""  # the newest version, as "2.18", of the first module needed that will do; any where there is none

    @property
    def variable(self) -> str:
        """The environment variable that names its Python."""
        return f"TRANSLOAD_PYTHON_{self.name.upper()}"

    @property
    def guide(self) -> str:
        """Where it is said how it is made."""
        return f"docs/design/{self.name}.md"
