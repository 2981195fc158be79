"""Recipes and the user's own objects: found, or refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import transload
from transload.models.errors import BadRequest, ToolMissing
from transload.models.job import Job
from transload.models.loading.code_refs import RECIPES, describe, list_recipes, load_named, load_recipe, ref_digest
from transload.models.sources import CodeRef
from transload.models.zoo.template import write_recipe

HEAVY = ("torch", "sklearn", "lightning_fabric", "tensorflow", "safetensors")


def loads_heavy(statement: str) -> bool:
    code = f"import sys; {statement}; sys.exit(any(name in sys.modules for name in {HEAVY!r}))"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 1


def test_listing_the_recipes_imports_no_framework() -> None:
    assert not loads_heavy("from transload.models.loading.code_refs import list_recipes; list_recipes()")
    assert loads_heavy("import safetensors")  # the check can fail


def test_every_recipe_is_listed_under_its_own_name() -> None:
    assert [recipe.name for recipe in list_recipes()] == list(RECIPES)
    assert "digits-cnn" in RECIPES


def test_facts_of_a_recipe_cross_a_process_border(tmp_path: Path) -> None:
    facts = describe(Job({}, tmp_path, {"ref": "zoo:digits-cnn"}))
    assert facts["name"] == "digits-cnn"
    assert facts["requires"] == ["torch", "sklearn"]
    assert facts["signature"]["inputs"] == [
        {"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8], "values": [0.0, 1.0]}
    ]


def test_a_bare_name_is_a_recipe_of_the_zoo() -> None:
    assert load_recipe(CodeRef("digits-gru")) is load_recipe(CodeRef("zoo:digits-gru"))


def test_an_unknown_recipe_is_refused_with_those_known() -> None:
    with pytest.raises(BadRequest) as caught:
        load_recipe(CodeRef("zoo:digit-cnn"))
    assert str(caught.value) == f"the zoo has no recipe 'digit-cnn'\n  fix: use one of {', '.join(RECIPES)}"


def test_a_word_that_is_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="there is no recipe, file or module 'digits_cnm'"):
        load_recipe(CodeRef("digits_cnm", str(tmp_path)))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        load_recipe(CodeRef("nets/mine.py", str(tmp_path)))
    assert caught.value.what == f"no such file: {tmp_path}/nets/mine.py"


def test_a_file_without_the_name_is_refused_with_one_it_has(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make_net(): pass\n")
    with pytest.raises(BadRequest) as caught:
        load_recipe(CodeRef("mine.py", str(tmp_path)))
    assert str(caught.value) == "mine.py holds no RECIPE\n  fix: name what it holds: mine.py:make_net"


def test_what_is_no_recipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("RECIPE = 3\n")
    with pytest.raises(BadRequest, match=r"RECIPE of mine\.py is a int, not a Recipe"):
        load_recipe(CodeRef("mine.py", str(tmp_path)))


BROKEN = {
    "import os\nraise RuntimeError('first\\nsecond')\n": ("RuntimeError", 2, "first"),
    "x = (\n": ("SyntaxError", 1, "'(' was never closed"),
    "import json\n\n\njson.loads('{')\n": ("JSONDecodeError", 4, "Expecting property name"),
    "from helper_that_raises import x\n": ("ZeroDivisionError", 2, "division by zero"),
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_file_that_raises_becomes_one_sentence_with_its_line(code: str, tmp_path: Path) -> None:
    kind, line, words = BROKEN[code]
    (tmp_path / "mine.py").write_text(code)
    (tmp_path / "helper_that_raises.py").write_text("\nx = 1 / 0\n")
    file = "helper_that_raises.py" if "helper" in code else "mine.py"
    with pytest.raises(BadRequest) as caught:
        load_recipe(CodeRef("mine.py", str(tmp_path)))
    assert caught.value.what.startswith(f"importing mine.py raised {kind} at {tmp_path}/{file}:{line}: {words}")
    assert "\n" not in caught.value.what


def test_a_library_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\nimport no_such_library.parts\n")
    with pytest.raises(ToolMissing) as caught:
        load_recipe(CodeRef("mine.py", str(tmp_path)))
    place = f"{tmp_path}/mine.py:2"
    assert caught.value.what == f"importing mine.py needs no_such_library, which is not installed ({place})"
    (tmp_path / "no_such_library").mkdir()  # the user's own, and it lacks a part: nothing to install
    with pytest.raises(
        BadRequest, match=f"raised ModuleNotFoundError at {place}: No module named 'no_such_library.parts'"
    ):
        load_recipe(CodeRef("mine.py", str(tmp_path)))


def test_a_file_that_ends_the_program_is_told_where(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\n\nsys.exit(3)\n")
    with pytest.raises(
        BadRequest, match=rf"importing mine.py called exit\(3\) at {tmp_path}/mine.py:3\n  fix: keep what"
    ):
        load_recipe(CodeRef("mine.py", str(tmp_path)))


def test_a_users_module_hides_none_of_pythons_and_can_be_named_like_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Path(transload.__file__).parent  # `python -m pytest` in the checkout puts it there; no worker has it
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if Path(folder or ".").resolve() != ours])
    (tmp_path / "json.py").write_text("import json as real\nFOUND = real.dumps([1])\n")
    (tmp_path / "models.py").write_text("WHO = 'the user'\n")
    (tmp_path / "uses.py").write_text("import json, models\nFOUND = (json.dumps([2]), models.WHO)\n")
    assert load_named(CodeRef("uses.py:FOUND", str(tmp_path))) == ("[2]", "the user")
    assert sys.path[-1] == str(tmp_path)


def test_a_relative_path_in_the_users_code_starts_at_their_root(tmp_path: Path) -> None:
    (tmp_path / "width.txt").write_text("7")
    (tmp_path / "mine.py").write_text("from pathlib import Path\nWIDTH = int(Path('width.txt').read_text())\n")
    before = Path.cwd()
    assert load_named(CodeRef("mine.py:WIDTH", str(tmp_path))) == 7
    assert Path.cwd() == before


def test_a_file_in_a_package_keeps_its_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "research_repo"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "layers.py").write_text("class Net: width = 5\n")
    (package / "net.py").write_text("from .layers import Net\n")
    assert load_named(CodeRef("research_repo/net.py:Net.width", str(tmp_path))) == 5
    assert load_named(CodeRef("research_repo.layers:Net.width", str(tmp_path))) == 5


def test_the_digest_of_a_recipe_needs_no_import_and_follows_its_code(tmp_path: Path) -> None:
    write_recipe("wine", tmp_path)
    ref = CodeRef("wine.py", str(tmp_path))
    before = ref_digest(ref)
    (tmp_path / "wine.py").write_text((tmp_path / "wine.py").read_text() + "\nraise SystemExit\n")
    assert ref_digest(ref) != before
    assert ref_digest(CodeRef("digits-cnn")) == ref_digest(CodeRef("zoo:digits-cnn"))
    assert ref_digest(CodeRef("digits-cnn")) != ref_digest(CodeRef("digits-gru"))
    with pytest.raises(BadRequest, match="the zoo has no recipe 'x'"):
        ref_digest(CodeRef("zoo:x"))
