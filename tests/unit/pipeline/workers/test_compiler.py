"""Which programs a C++ compiler consists of, as it says itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.pipeline.workers import interpreters
from transload.pipeline.workers.compiler import find_compiler
from transload.pipeline.workers.isolation import Limits, Spawn, _environment
from transload.serving.runtimes.runtime_table import RUNTIMES

# It answers as g++ does: a path for what lies in its own folder, the bare name for what it looks up in PATH.
FAKE = """#!/bin/sh
case "$1" in
--version) echo "fake 1.2"; echo "more lines" ;;
-print-prog-name=cc1plus) echo {folder}/parts/cc1plus ;;
-print-prog-name=*) echo "${{1#-print-prog-name=}}" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "parts").mkdir()
    for name in ("real-c++", "real-as", "parts/cc1plus"):
        (tmp_path / name).write_text(FAKE.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "c++").symlink_to("real-c++")
    (tmp_path / "as").symlink_to("real-as")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "c++")
    return tmp_path


def test_a_compiler_is_its_own_parts_and_what_it_takes_from_path(fake: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    assert (compiler.path, compiler.version) == (str(fake / "c++"), "fake 1.2")
    ours = {path for path in compiler.programs if path.startswith(str(fake))}
    assert ours == {str(fake / "real-c++"), str(fake / "parts" / "cc1plus"), str(fake / "real-as")}
    assert all("ld-linux" in path for path in set(compiler.programs) - ours)  # the loader, and no other program


def test_its_worker_alone_is_told_the_compiler(fake: Path, tmp_path: Path) -> None:
    spawn = Spawn(tmp_path / "log", tmp_path, Limits(compiles=True))
    assert _environment(spawn)["CXX"] == str(fake / "c++")
    assert str(fake / "real-as") in _environment(spawn)["TRANSLOAD_WORKER"]
    other = _environment(Spawn(tmp_path / "log", tmp_path, Limits()))
    assert "CXX" not in other
    assert str(fake / "real-as") not in other["TRANSLOAD_WORKER"]


def test_a_runtime_that_compiles_has_its_compiler_among_its_tools(fake: Path) -> None:
    assert interpreters.interpreter_of(RUNTIMES["aotinductor"]).tools == {"compiler": "fake 1.2"}
    assert interpreters.interpreter_of(RUNTIMES["torch"]).tools == {}


def test_a_runtime_without_its_compiler_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert find_compiler() is None
    assert interpreters.lacking(RUNTIMES["torch-compile"]) == "needs a C++ compiler, such as g++"
    assert interpreters.lacking(RUNTIMES["torch"]) is None


def test_a_compiler_that_does_not_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g++").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert find_compiler() is None
