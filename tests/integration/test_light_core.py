"""The package as others get it: sdist and wheel are built, and the core is tried in a clean environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD_SDIST = "from setuptools import build_meta; import sys; build_meta.build_sdist(sys.argv[1])"
# Modules that no command of the core may need; it is asked in the environment that has none of them.
FRAMEWORKS = ("torch", "tensorflow", "onnx", "onnxruntime", "ai_edge_litert", "grpc")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the sdist: what the sdist leaves out, nobody gets."""
    folder = tmp_path_factory.mktemp("dist")
    tracked = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    checkout = folder / "checkout"
    for name in filter(None, tracked):  # a copy: building writes beside the sources
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / name).write_bytes((ROOT / name).read_bytes())
    done = run(sys.executable, "-P", "-c", BUILD_SDIST, folder, cwd=checkout)
    assert done.returncode == 0, done.stderr[-2000:]
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    words = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source)
    done = run(sys.executable, "-P", *words, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("core")
    assert run(sys.executable, "-m", "venv", folder / "venv").returncode == 0
    python = folder / "venv" / "bin" / "python"
    done = run(python, "-m", "pip", "install", "-q", wheel, "-c", ROOT / "constraints.txt")
    assert done.returncode == 0, done.stderr[-2000:]
    return python


def test_the_core_brings_no_framework(clean: Path) -> None:
    code = "import importlib.util as u, sys; print([name for name in sys.argv[1:] if u.find_spec(name)])"
    assert run(clean, "-c", code, *FRAMEWORKS).stdout == "[]\n"


def test_commands_of_the_core_work(clean: Path, tmp_path: Path) -> None:
    for words in (("--help",), ("formats",), ("zoo",), ("new", "mine"), ("run", "--help")):
        done = run(clean, "-m", "transload", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


def test_doctor_says_which_extra_closes_what(clean: Path, tmp_path: Path) -> None:
    done = run(clean, "-m", "transload", "doctor", "--json", cwd=tmp_path)
    rows = {(row["part"], row["name"]): row for row in json.loads(done.stdout)["findings"]}
    assert done.returncode == 2
    assert rows["runtimes", "onnxruntime"]["text"] == "needs onnxruntime (extra onnx)"
    assert rows["runtimes", "onnxruntime"]["fix"] == "pip install 'transload[onnx]'"
    assert rows["libraries", "extra torch"]["fix"] == "pip install 'transload[torch]'"


def test_a_model_without_its_framework_is_one_sentence(clean: Path, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"x")
    done = run(clean, "-m", "transload", "convert", "m.onnx", "--to", "onnx", "--out", "made", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "pip install 'transload[" in done.stderr
    assert not (tmp_path / "made").exists()
