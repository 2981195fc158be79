"""The files of standalone/, as text for a bundle."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "standalone"
CHECK, RUNTIME = "endpoint_check", "artifact_runtime"


def standalone(module: str) -> str:
    """Return the text of a module of standalone/."""
    return (_FOLDER / f"{module}.py").read_text()
