"""`transload new NAME` writes a recipe that is one (tests/integration/test_training.py trains it)."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.errors import BadRequest
from transload.models.loading.code_refs import load_recipe
from transload.models.sources import CodeRef
from transload.models.zoo.template import write_recipe


def test_the_file_is_a_recipe_of_that_name(tmp_path: Path) -> None:
    path = write_recipe("my-wine", tmp_path)
    assert path == tmp_path / "my_wine.py"
    assert load_recipe(CodeRef(str(path))).name == "my-wine"
    assert "transload run my_wine.py" in path.read_text()


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "wine.py").write_text("mine\n")
    with pytest.raises(BadRequest, match=r"wine\.py is there already"):
        write_recipe("wine", tmp_path)
    assert (tmp_path / "wine.py").read_text() == "mine\n"


@pytest.mark.parametrize("name", ["", "../wine", "Wine", "1wine", "wi ne", "wine.py", "-wine", "a--b", 'a"b'])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="a recipe cannot be called"):
        write_recipe(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no such folder"):
        write_recipe("wine", tmp_path / "none")
