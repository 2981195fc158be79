"""The environment of the libraries, made from requirements.txt."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_TORCH = "torch==2.13.0"
_VERSIONS = """
import json, sys
from importlib.metadata import distributions
versions = {package.metadata["Name"].lower(): package.version for package in distributions()}
print(json.dumps({"python": sys.version.split()[0], **versions}))
"""


def make_library_environment(folder: Path) -> Path:
    """Return the environment's interpreter, made where it is missing. Raises CalledProcessError where pip fails."""
    interpreter = folder / "bin" / "python"
    if (folder / "stamp").exists():
        return interpreter
    base = shutil.which("python3.11") or "python3"
    subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(interpreter), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*install, _TORCH, "numpy", "setuptools", "wheel"], check=True)
    # Without dependencies: torchvision's and others' is a CUDA build of torch.
    subprocess.run([*install, "--no-deps", "-r", str(HERE / "requirements.txt")], check=True)
    _fit_to_cpu(next(folder.glob("lib/python3*/site-packages")))
    (folder / "stamp").touch()
    return interpreter


def _fit_to_cpu(packages: Path) -> None:
    """Make torchvision and torchaudio importable beside a CPU torch, as those of PyTorch's own index are.

    PyPI has them for CUDA's torch alone. torchvision's operators are declared in Python; torchaudio leaves its own out
    where the library is absent.
    """
    shutil.copy(ROOT / "models" / "loading" / "torchvision_ops.py", packages / "torchvision_cpu_ops.py")
    line = "import torchvision_cpu_ops; torchvision_cpu_ops.register_torchvision_stubs()\n"
    (packages / "torchvision_cpu_ops.pth").write_text(line)
    for library in packages.glob("torchaudio/lib/_torchaudio*.so"):
        library.unlink()


def package_versions(interpreter: Path) -> Mapping[str, str]:
    """Return the versions of Python and of all packages of the environment, by lower-case names with dashes."""
    answer = subprocess.run([str(interpreter), "-B", "-c", _VERSIONS], check=True, capture_output=True, text=True)
    versions: Mapping[str, str] = json.loads(answer.stdout)
    return {name.replace("_", "-"): version for name, version in sorted(versions.items())}
