"""The extra `gpu` in a clean environment: it is resolved to the pins, installed, and imported. No GPU is needed.

It downloads about 4.7 GB, so it runs only where TRANSLOAD_TEST_GPU_EXTRA=1 asks for it. An index without metadata files
(PEP 658) sends whole wheels already for the resolution.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
LEAST_FREE_BYTES = 16e9  # wheels, what they unpack to, and pip's copies in between
IMPORTS = {
    "onnxruntime": "import onnxruntime as o; assert 'CUDAExecutionProvider' in o.get_available_providers()",
    "tensorflow": "import tensorflow as tf; assert tf.test.is_built_with_cuda()",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        os.environ.get("TRANSLOAD_TEST_GPU_EXTRA") != "1",
        reason="it downloads 4.7 GB: set TRANSLOAD_TEST_GPU_EXTRA=1",
    ),
]


def requirements() -> list[str]:
    """What `transload[gpu]` installs: the core, and the extra with the extras that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *expanded("gpu", project["optional-dependencies"])]


def expanded(extra: str, extras: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the requirements of an extra; where it names others of transload, theirs."""
    for line in extras[extra]:
        requirement = Requirement(line)
        if requirement.name == "transload":
            for name in sorted(requirement.extras):
                yield from expanded(name, extras)
        else:
            yield line


def pip(python: Path, *words: str) -> str:
    done = subprocess.run([python, "-m", "pip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty virtual environment."""
    folder = tmp_path_factory.mktemp("gpu-extra")
    if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        pytest.skip(f"it needs {LEAST_FREE_BYTES / 1e9:.0f} GB of free disk in {folder}")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    return folder / "venv" / "bin" / "python"


def test_the_extra_resolves_to_the_pins(clean: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    pip(clean, "install", "--dry-run", "--ignore-installed", "--report", str(report), "-c", str(CONSTRAINTS),
        *requirements())  # fmt: skip
    packages = {
        canonicalize_name(entry["metadata"]["name"]): entry["metadata"]["version"]
        for entry in json.loads(report.read_text())["install"]
    }
    lines = (line.split("#")[0].strip() for line in CONSTRAINTS.read_text().splitlines())
    pins = {
        canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version
    }
    assert "onnxruntime" not in packages  # the CPU build would overwrite the GPU build's files
    assert {"onnxruntime-gpu", "tensorflow", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12"} <= packages.keys()
    # A pin allows any local version: an index may have a build of its own, as 2.13.0+cpu.
    public = {name: Version(version).public for name, version in packages.items()}
    assert {name: version for name, version in public.items() if pins.get(name, version) != version} == {}


def test_the_extra_is_installed_and_imported(clean: Path) -> None:
    pip(clean, "install", "-c", str(CONSTRAINTS), *requirements())
    pip(clean, "check")
    for name, code in IMPORTS.items():
        done = subprocess.run([clean, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
