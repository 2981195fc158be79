"""The environments of `environments.toml`: made where their Python is on this machine, and known by digests."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
_VERSIONS = """
import json, sys
import numpy, torch
print(json.dumps({"python": sys.version.split()[0], "torch": torch.__version__, "numpy": numpy.__version__}))
"""


@dataclass(frozen=True)
class Recipe:
    """An environment to be made: its name, the version of Python and the packages."""

    name: str
    python: str
    packages: tuple[str, ...]


def read_recipes() -> list[Recipe]:
    """Read environments.toml."""
    rows = tomllib.loads((HERE / "environments.toml").read_text(encoding="utf-8"))["environment"]
    return [Recipe(row["name"], row.get("python", ""), tuple(row.get("packages", ()))) for row in rows]


def make_environment(recipe: Recipe, folder: Path) -> Path | str:
    """Return the environment's interpreter, made where it is missing, or why there is none."""
    if not recipe.packages:
        return Path(sys.executable)
    place = folder / recipe.name
    interpreter = place / "bin" / "python"
    if interpreter.exists():
        return interpreter
    base = _base(recipe.python)
    if base is None:
        return f"there is no Python {recipe.python} on this machine"
    unfinished = folder / f"{recipe.name}.part"
    shutil.rmtree(unfinished, ignore_errors=True)
    subprocess.run([base, "-m", "venv", str(unfinished)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--no-cache-dir", *recipe.packages]
    result = subprocess.run([str(unfinished / "bin" / "python"), *install], capture_output=True, text=True, check=False)
    if result.returncode:
        shutil.rmtree(unfinished)
        return (result.stderr.strip().splitlines() or ["pip failed"])[-1]
    unfinished.rename(place)
    return interpreter


def _base(version: str) -> str | None:
    """Return a Python of a version: on PATH, or among pyenv's."""
    named = shutil.which(f"python{version}")
    candidates = [*([named] if named else []), *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for candidate in map(str, candidates):
        asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return candidate
    return None


def versions_of(interpreter: Path) -> Mapping[str, str]:
    """Return the versions of Python, torch and numpy."""
    command = [str(interpreter), "-B", "-c", _VERSIONS]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    versions: Mapping[str, str] = json.loads(answer.stdout)
    return versions


def digest_of_folder(folder: Path) -> str:
    """Return a digest of the names, modes, sizes and times of change of all that lies below a folder.

    The kernel sets the time of a file's last change (ctime) itself: nothing that writes can put it back.
    """
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        facts = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        total.update(f"{path.relative_to(folder)}\0{facts}\n".encode())
    return total.hexdigest()
