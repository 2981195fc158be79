"""The folders that a user's packages lie in: the root, and those that its pyproject.toml names, as `src/`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

_USUAL = "src"


def import_folders(root: Path) -> tuple[Path, ...]:
    """Return the root and the folders below it whose packages are imported by their names.
    They are those of setuptools, hatch, poetry and pdm in pyproject.toml, and `src`, unless it is a package itself."""
    root = root.absolute()
    named: list[str] = []
    with suppress(OSError, ValueError, AttributeError, TypeError):  # whoever builds the package reports it better
        named = [*_named(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("tool", {}))]
    if not (root / _USUAL / "__init__.py").exists():
        named.append(_USUAL)
    folders = (Path(root, name).resolve() for name in named)
    own = [folder for folder in folders if folder.is_relative_to(root.resolve()) and folder.is_dir()]
    return tuple(dict.fromkeys((root, *(root / folder.relative_to(root.resolve()) for folder in own))))


def _named(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders that the tables of build tools name."""
    setuptools = tool.get("setuptools", {})
    for package, folder in setuptools.get("package-dir", {}).items():
        yield from [folder] if not package else _parent(folder, package)
    packages = setuptools.get("packages", {})
    yield from packages.get("find", {}).get("where", ()) if isinstance(packages, dict) else ()
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    yield from (str(PurePosixPath(package).parent) for package in wheel.get("packages", ()))
    yield from wheel.get("sources", ())
    yield from (row["from"] for row in tool.get("poetry", {}).get("packages", ()) if "from" in row)
    yield from [tool["pdm"]["build"]["package-dir"]] if "package-dir" in tool.get("pdm", {}).get("build", {}) else ()


def _parent(folder: str, package: str) -> Iterator[str]:
    """Yield the folder that a package lies in, where its own folder is called as the package is."""
    path, parts = PurePosixPath(folder), package.split(".")
    if list(path.parts[-len(parts) :]) == parts:
        yield str(PurePosixPath(*path.parts[: -len(parts)]))
