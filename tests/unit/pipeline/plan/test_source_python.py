"""Which interpreter a model lives in: named, of its project, or ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.user_python.inside.conversation import TENSORFLOW
from transload.models.user_python.interpreter import TORCH, UserPython
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.model_argument import ModelRequest
from transload.pipeline.plan.source_python import (
    _ask,
    _within_project,
    likely_framework,
    project_interpreters,
    require_torch_there,
    with_framework,
    with_source_python,
)
from transload.pipeline.progress.progress import Progress


def environment(folder: Path) -> Path:
    """A folder that looks like a virtual environment."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    python = folder / "bin" / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    return python


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "nets" / "net.py"
    path.parent.mkdir(parents=True)
    path.write_text("from torch import nn\n\nclass Net(nn.Module):\n    pass\n")
    return path


def test_the_nearest_environment_above_the_file_is_taken(tmp_path: Path, file: Path) -> None:
    environment(tmp_path / ".venv")
    near = environment(tmp_path / "project" / "venv")
    assert list(project_interpreters(file, {})) == [near]


def test_an_active_environment_goes_first_and_one_of_another_project_does_not_count(tmp_path: Path, file: Path) -> None:
    near, elsewhere = environment(tmp_path / "project" / ".venv"), environment(tmp_path / "other" / ".venv")
    conda = environment(tmp_path / "conda" / "envs" / "vision")
    active = {"VIRTUAL_ENV": str(elsewhere.parents[1]), "CONDA_PREFIX": str(conda.parents[1])}
    assert list(project_interpreters(file, active)) == [conda, near]


def test_our_own_environment_is_none_of_a_project(tmp_path: Path, file: Path) -> None:
    (tmp_path / "project" / ".venv").symlink_to(sys.prefix)
    assert list(project_interpreters(file, {"VIRTUAL_ENV": sys.prefix})) == []


def chosen(model: str, root: Path, python: str | None, monkeypatch: pytest.MonkeyPatch) -> ModelRequest:
    monkeypatch.chdir(root)
    request = read_request(None, {"model": {"recipe": model, "python": python}})
    return with_source_python(request, ModelRequest(model), Progress(quiet=True))


def test_self_turns_the_choice_off(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(file.parent / ".venv")
    assert chosen("net.py:Net", file.parent, "self", monkeypatch).python is None
    monkeypatch.setenv("TRANSLOAD_PYTHON_SOURCE", "self")
    assert chosen("net.py:Net", file.parent, None, monkeypatch).python is None


def test_an_environment_without_torch_is_left_alone_unless_it_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment(file.parent / ".venv")
    assert chosen("net.py:Net", file.parent, None, monkeypatch).python is None
    with pytest.raises(BadRequest, match=f"{python} .* has no torch"):
        chosen("net.py:Net", file.parent, ".venv", monkeypatch)


def python_with(**versions: Any) -> UserPython:
    return UserPython(path="/env/bin/python", version="3.11.0", **{"torch": "", **versions})


@pytest.mark.parametrize(
    ("name", "code", "versions", "framework"),
    [
        ("net.py", "import torch\n", {"torch": "2.4"}, TORCH),
        ("net.py", "from tensorflow import keras\n", {"torch": "2.4", "tensorflow": "2.15"}, TENSORFLOW),
        ("net.py", "import helpers\n", {"tensorflow": "2.15"}, TENSORFLOW),
        ("net.py", "import torch, helpers\nimport keras\n", {"torch": "2.4", "tensorflow": "2.15"}, TORCH),
        ("old.keras", "", {"torch": "2.4", "tensorflow": "2.15"}, TENSORFLOW),
        ("net.py", "import torch\n", {"tensorflow": "2.15"}, "has no torch"),
        ("net.py", "import keras\n", {"torch": "2.4"}, "has no TensorFlow"),
        ("net.py", "", {}, "has no torch and no TensorFlow"),
    ],
)
def test_the_framework_is_what_the_file_imports_and_the_environment_has(
    tmp_path: Path, name: str, code: str, versions: dict[str, str], framework: str
) -> None:
    file = tmp_path / name
    file.write_text(code)
    if framework in (TORCH, TENSORFLOW):
        assert with_framework(python_with(**versions), file).framework == framework
    else:
        with pytest.raises(BadRequest, match=rf"\(Python 3.11.0\) {framework}\n"):
            with_framework(python_with(**versions), file)


def test_a_keras_file_is_loaded_there_only_where_an_interpreter_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old.keras").write_bytes(b"zip")
    monkeypatch.setattr("transload.pipeline.plan.source_python._ask", lambda *_, **__: python_with(tensorflow="2.15"))
    named = chosen("old.keras", tmp_path, sys.executable, monkeypatch)
    assert (named.text, named.python and named.python.framework) == ("old.keras:model", TENSORFLOW)
    assert likely_framework("old.keras", sys.executable) == TENSORFLOW
    assert chosen("old.keras", tmp_path, None, monkeypatch) == ModelRequest("old.keras")
    with pytest.raises(BadRequest, match="bench takes no model of Keras"):
        require_torch_there(named, "bench")


def test_what_no_interpreter_is_asked_for_is_refused_with_the_mend(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("import torch\nfrom transload.models.recipe import Recipe\n")
    with pytest.raises(BadRequest, match="imports transload, as a recipe does"):
        chosen("net.py:Net", file.parent, sys.executable, monkeypatch)
    with pytest.raises(BadRequest, match="write a function that makes it there, and name that: "):
        chosen("torchvision:resnet18", file.parent, sys.executable, monkeypatch)


def test_an_active_environment_that_cannot_be_asked_is_named(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "conda" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "conda"))
    monkeypatch.chdir(file.parent)
    request = read_request(None, {"model": {"recipe": "net.py:Net"}})
    assert with_source_python(request, ModelRequest("net.py:Net"), Progress(quiet=False)).python is None
    assert f"the active environment is not asked: {python}" in capsys.readouterr().err


def test_a_recipe_stays_with_our_interpreter(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(file.parent / ".venv")
    file.write_text("import torch\nfrom transload.models.recipe import Recipe\n")
    monkeypatch.setattr("transload.pipeline.plan.source_python.project_interpreters", _never)
    assert chosen("net.py:Net", file.parent, None, monkeypatch).python is None


def _never(*_: object) -> None:
    raise AssertionError("an interpreter was looked for")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such interpreter"),
        ("#!/bin/sh\nexec python3\n", "is a script that starts a Python"),
        ("nothing", "cannot be started|is no Python that runs here"),
    ],
)
def test_what_is_no_interpreter_is_refused_by_name(
    file: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, message: str
) -> None:
    named = file.parent / "python"
    if content is not None:
        named.write_text(content)
        named.chmod(0o755)
    with pytest.raises(BadRequest, match=message):
        chosen("net.py:Net", file.parent, str(named), monkeypatch)


def test_a_model_of_ours_has_no_interpreter_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRequest, match="--python is for code of yours"):
        chosen("zoo:digits-cnn", tmp_path, sys.executable, monkeypatch)


def test_a_strangers_interpreter_opens_no_folder_outside_of_its_project(file: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    python = environment(file.parent / ".venv")
    own = [str(file.parent / ".venv"), str(file.parent / ".venv" / "lib"), str(file.parent / "parts"), sys.base_prefix]
    claimed = (*own, "/", str(Path.home()), str(tmp_path / "secrets"))
    record = UserPython(path=str(python), version="3.11.0", torch="2.4.1", folders=claimed)
    assert _within_project(record).folders == tuple(own)


def test_an_interpreter_that_is_asked_twice_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record is part of a model's key; the home of the worker that asks is another one each time."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYTHONUSERBASE", raising=False)
    first, second = (_ask(sys.executable, trust=False, optional=False) for _ in range(2))
    assert first == second
    assert first.torch
