"""The table libraries.toml as records."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class LibraryModel:
    """A model of a library. `code`, `settings` and `inputs` as the command takes them; `sizes`: of the axes beside the
    batch in the independent check."""

    name: str
    package: str
    code: str
    inputs: tuple[str, ...]
    settings: tuple[str, ...]
    sizes: Mapping[str, int]

    @property
    def key(self) -> str:
        """Return the name in the results, `PACKAGE: NAME`."""
        return f"{self.package}: {self.name}"

    def command(self, interpreter: Path) -> list[str]:
        """Return the arguments of transload that say which model this is."""
        words = ["convert", self.code, "--python", str(interpreter)]
        words += [word for spec in self.inputs for word in ("--input", spec)]
        return words + [word for setting in self.settings for word in ("--set", setting)]

    def job(self, batch: int) -> dict[str, Any]:
        """Return what own_answers.py reads."""
        return {"code": self.code, "settings": self.settings, "inputs": self.inputs, "sizes": dict(self.sizes),
                "batch": batch}  # fmt: skip


def read_models() -> list[LibraryModel]:
    """Read libraries.toml."""
    rows = tomllib.loads((HERE / "libraries.toml").read_text(encoding="utf-8"))["model"]
    return [
        LibraryModel(
            row["name"], row["package"], row["code"], tuple(row["inputs"]), tuple(row.get("settings", ())),
            row.get("sizes", {}),
        )
        for row in rows
    ]  # fmt: skip
