"""A user's packages are found from the root, wherever their project keeps them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from transload.models.code_digest import module_file
from transload.models.loading.source_folders import import_folders
from transload.models.loading.user_code import load_object
from transload.models.sources import CodeRef

PROJECTS = {
    "package-dir": '[tool.setuptools]\npackage-dir = {"" = "lib"}',
    "package-dir of one": '[tool.setuptools.package-dir]\nlaid_out = "lib/laid_out"',
    "find": '[tool.setuptools.packages.find]\nwhere = ["lib"]',
    "hatch": '[tool.hatch.build.targets.wheel]\npackages = ["lib/laid_out"]',
    "poetry": '[tool.poetry]\npackages = [{include = "laid_out", from = "lib"}]',
    "pdm": '[tool.pdm.build]\npackage-dir = "lib"',
}
ODD = [None, "", "[tool", "tool = 3", '[tool.setuptools.packages.find]\nwhere = ["../x"]']


@pytest.mark.parametrize("project", PROJECTS.values(), ids=PROJECTS)
def test_a_folder_of_the_build_tool_is_one(project: str, tmp_path: Path) -> None:
    (tmp_path / "lib" / "laid_out").mkdir(parents=True)
    (tmp_path / "lib" / "laid_out" / "net.py").touch()
    (tmp_path / "pyproject.toml").write_text(project)
    assert import_folders(tmp_path) == (tmp_path, tmp_path / "lib")
    assert module_file("laid_out.net", tmp_path) == tmp_path / "lib" / "laid_out" / "net.py"


@pytest.mark.parametrize("content", ODD)
def test_src_is_one_whatever_stands_in_pyproject(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    if content is not None:
        (tmp_path / "pyproject.toml").write_text(content)
    assert import_folders(tmp_path) == (tmp_path, tmp_path / "src")
    (tmp_path / "src" / "__init__.py").touch()
    assert import_folders(tmp_path) == (tmp_path,)


@pytest.mark.parametrize("package", ["own_package", "own_namespace"])
@pytest.mark.parametrize("folder", ["src", "."])
@pytest.mark.parametrize("by_file", [True, False])
def test_code_imports_its_siblings(
    package: str, folder: str, by_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"{package}_{folder.strip('.')}_{by_file}"
    place = tmp_path / folder / name
    place.mkdir(parents=True)
    if package == "own_package":
        (place / "__init__.py").touch()
    (place / "sizes.py").write_text("WIDTH = 3")
    (place / "net.py").write_text("from .sizes import WIDTH")
    text = f"{folder}/{name}/net.py:WIDTH" if by_file else f"{name}.net:WIDTH"
    assert load_object(CodeRef(text, str(tmp_path))) == 3
