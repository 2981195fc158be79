"""A step whose libraries clash with ours runs in another Python, which transload is lent to."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from transload.converters.steps import Step
from transload.models.environments import PythonEnvironment
from transload.models.formats import Format, Target
from transload.pipeline.workers import interpreters
from transload.pipeline.workers.isolation import Spawn, run_alone
from transload.serving.runtimes.runtime_table import Runtime

WORK = """
import sys
def where(job):
    import transload.models.job, clashing
    return {"python": sys.prefix, "clashing": clashing.__file__, "torch": any(name == "torch" for name in sys.modules)}
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another environment: numpy of ours, and a library that only it has."""
    folder = tmp_path_factory.mktemp("other")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "clashing").mkdir()
    (site / "clashing" / "__init__.py").write_text("")
    (site / "clashing-7.1.dist-info").mkdir()
    (site / "clashing-7.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: clashing\nVersion: 7.1\n")
    (site / "clashing-7.1.dist-info" / "top_level.txt").write_text("clashing\n")
    import numpy as np

    (site / "numpy").symlink_to(Path(np.__file__).parent)
    return folder / "bin" / "python"


OTHER = PythonEnvironment("other")
UNTIL = PythonEnvironment("other", until="7.1")
OURS = interpreters.Interpreter()


def there(python: Path) -> interpreters.Interpreter:
    return interpreters.Interpreter(str(python), {"interpreter": str(python), "clashing": "7.1"})


def step(environment: PythonEnvironment | None = OTHER) -> Step:
    source, target = Target(Format.PT2), Target(Format.TFLITE)
    return Step("clash", source, target, "work:where", ("clashing",), 1, environment=environment)


def test_a_step_without_its_libraries_says_what_is_missing_and_where_it_may_lie(monkeypatch):
    monkeypatch.delenv("TRANSLOAD_PYTHON_OTHER", raising=False)
    assert interpreters.lacking(step()) == "needs clashing (here, or in the Python that TRANSLOAD_PYTHON_OTHER names)"
    assert interpreters.lacking(step(None)) == "needs clashing"


def test_the_named_python_runs_it_and_its_versions_count(monkeypatch, other):
    monkeypatch.setenv("TRANSLOAD_PYTHON_OTHER", str(other))
    assert interpreters.lacking(step()) is None
    assert interpreters.interpreter_of(step()) == there(other)


def test_a_python_that_is_none_is_a_missing_library_and_no_crash(monkeypatch, tmp_path):
    monkeypatch.setenv("TRANSLOAD_PYTHON_OTHER", str(tmp_path / "nothing"))
    assert interpreters.lacking(step()) == "needs clashing (in the Python that TRANSLOAD_PYTHON_OTHER names)"


def test_a_module_whose_package_the_named_python_lacks_does_not_hide_the_others(other):
    modules = ("no_such_package.part", "clashing")
    assert interpreters.versions_in(str(other), modules).keys() == {"clashing"}


def test_a_worker_in_another_python_has_transload_and_nothing_else_of_ours(tmp_path, other):
    (tmp_path / "work.py").write_text(WORK)
    spawn = Spawn(tmp_path / "log", tmp_path / "cwd", sys_path=(str(tmp_path),), python=str(other))
    facts = run_alone("work:where", {"inputs": {}, "out": str(tmp_path), "options": {}, "services": {}}, spawn)
    assert facts["python"] == str(other.parents[1])
    assert str(other.parents[1]) in facts["clashing"]
    code = "import importlib.util as u; raise SystemExit(u.find_spec('pydantic') is not None)"
    assert subprocess.run([other, "-c", code], check=False).returncode == 0, "the environment is not bare"
    assert sys.prefix != facts["python"]


def runtime(environment: PythonEnvironment | None) -> Runtime:
    return Runtime("clash", (Format.TFLITE,), "work:open", ("clashing",), environment=environment)


@pytest.mark.parametrize(("ours", "lacks"), [("7.1.2", False), ("2.9.0", False), ("7.2.0", True), ("8.0.0rc1", True)])
def test_a_runtime_whose_library_came_after_the_last_that_brings_it_is_closed(monkeypatch, ours, lacks):
    monkeypatch.delenv("TRANSLOAD_PYTHON_OTHER", raising=False)
    monkeypatch.setattr(interpreters, "version_of", lambda module: ours)
    monkeypatch.setattr(interpreters, "missing", lambda requires, find: None)
    said = "needs clashing 7.1 (here, or in the Python that TRANSLOAD_PYTHON_OTHER names)"
    assert interpreters.lacking(runtime(UNTIL)) == (said if lacks else None)
    assert interpreters.lacking(runtime(OTHER)) is None


def test_a_runtime_is_opened_in_the_python_that_is_named_where_ours_will_not_do(monkeypatch, other):
    monkeypatch.setenv("TRANSLOAD_PYTHON_OTHER", str(other))
    assert interpreters.interpreter_of(runtime(None)) == OURS
    assert interpreters.interpreter_of(runtime(UNTIL)) == there(other)
    monkeypatch.setattr(interpreters, "missing", lambda requires, find=None: None)
    for ours, taken in {"7.1.2": OURS, "7.2.0": there(other)}.items():
        monkeypatch.setattr(interpreters, "version_of", lambda module, ours=ours: ours)
        assert interpreters.lacking(runtime(UNTIL)) is None
        assert interpreters.interpreter_of(runtime(UNTIL)) == taken


def test_a_python_that_is_named_may_have_too_new_a_library_itself(monkeypatch, other):
    monkeypatch.setenv("TRANSLOAD_PYTHON_OTHER", str(other))
    older = runtime(PythonEnvironment("other", until="7.0"))
    assert interpreters.lacking(older) == "needs clashing 7.0 (in the Python that TRANSLOAD_PYTHON_OTHER names)"
