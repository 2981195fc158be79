"""Digests of code change with the code that runs, and with nothing else."""

from __future__ import annotations

import ast
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from transload.models import code_digest as code
from transload.models.code_digest import code_digest, entry_digest, module_file
from transload.models.errors import BadRequest
from transload.models.sources import code_ref


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """net.py -> helper.py and pkg.deep (inside a function); other.py stands alone."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "net.py").write_text("import os\nimport helper\ndef f():\n    from pkg import deep\n")
    (tmp_path / "helper.py").write_text("A = 1\n")
    (tmp_path / "other.py").write_text("B = 1\n")
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "deep.py").write_text("from .deeper import C\n")
    (tmp_path / "pkg" / "deeper.py").write_text("import net  # a circle\nC = 1\n")
    return tmp_path


@pytest.mark.parametrize("file", ["net.py", "helper.py", "pkg/__init__.py", "pkg/deep.py", "pkg/deeper.py"])
def test_a_change_in_anything_imported_changes_the_digest(project: Path, file: str) -> None:
    before = code_digest(project / "net.py", project)
    (project / file).write_text((project / file).read_text() + "# changed\n")
    assert code_digest(project / "net.py", project) != before


def test_a_change_elsewhere_or_of_the_place_does_not(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = code_digest(project / "net.py", project)
    (project / "other.py").write_text("B = 2\n")
    moved = tmp_path_factory.mktemp("elsewhere") / "p"
    shutil.copytree(project, moved)
    assert code_digest(project / "net.py", project) == before
    assert code_digest(moved / "net.py", moved) == before


def test_a_new_file_that_shadows_nothing_yet_counts_once_it_is_imported(project: Path) -> None:
    (project / "net.py").write_text("import later\n")
    before = code_digest(project / "net.py", project)
    (project / "later.py").write_text("")
    assert code_digest(project / "net.py", project) != before


def test_a_files_own_folder_counts_where_the_root_is_another(project: Path) -> None:
    before = code_digest(project / "net.py", project / "pkg")
    (project / "helper.py").write_text("A = 2\n")
    assert code_digest(project / "net.py", project / "pkg") != before


def test_a_missing_file_is_refused_and_one_that_does_not_parse_is_not(project: Path) -> None:
    with pytest.raises(BadRequest, match="no such file"):
        code_digest(project / "none.py")
    (project / "helper.py").write_text("def (")
    code_digest(project / "net.py", project)


def reached(entry: str) -> set[str]:
    found, state = code._resolve(tuple(entry.split(".")), ()), code._state_of_ours(code._OURS, 0)
    return {code._label(path, ()) for path in code._closure(found, lambda path: code._own_imports(path, state))}


def test_an_entry_counts_what_it_imports_of_ours_and_no_other_room() -> None:
    files = reached("transload.models.artifact")
    assert {"transload/__init__.py", "transload/models/artifact.py", "transload/models/errors.py"} <= files
    assert not any(name.startswith(("transload/pipeline", "transload/serving")) for name in files)


def test_entering_a_sub_package_counts_all_of_it() -> None:
    lowering = reached("transload.converters.to_saved_model.saved_model_from_onnx")
    assert "transload/converters/onnx_to_tf/operators/math/einsum.py" in lowering  # imported by name at run time


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in place of ours: models.step imports room.first, and later models.late; room has another module."""
    (tmp_path / "models" / "room").mkdir(parents=True)
    for name in ("__init__", "models/__init__", "models/room/__init__", "models/room/first", "models/room/second"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "models" / "step.py").write_text("from .room import first\nfrom . import late\n")
    monkeypatch.setattr(code, "_OURS", str(tmp_path))
    monkeypatch.setattr(code, "_LOOK_AGAIN_S", 1e-9)
    return tmp_path


@pytest.mark.parametrize(
    "file", ["__init__", "models/step", "models/room/first", "models/room/second", "models/room/new", "models/late"]
)
def test_a_change_of_our_files_changes_the_digest_of_an_entry_in_the_same_process(ours: Path, file: str) -> None:
    before = entry_digest("transload.models.step:run")
    assert entry_digest("transload.models.step:run") == before
    (ours / f"{file}.py").write_text("CHANGED = 1\n")
    assert entry_digest("transload.models.step:run") != before


def test_our_files_are_followed_once_for_all_keys_of_a_run(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_digest("transload.models.step:run")
    monkeypatch.delattr(code, "_closure")
    entry_digest("transload.models.step:other")


def test_our_files_are_looked_at_once_in_an_interval(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "_LOOK_AGAIN_S", 1e9)
    before = entry_digest("transload.models.step:run")
    (ours / "models" / "late.py").write_text("CHANGED = 1\n")
    assert entry_digest("transload.models.step:run") == before
    monkeypatch.setattr(code, "_LOOK_AGAIN_S", 1e-9)
    assert entry_digest("transload.models.step:run") != before


@pytest.mark.parametrize(
    "statement",
    [
        "if A:\n  pass\nelif B:\n  pass\nelse:\n  import helper",
        "try:\n  pass\nexcept E:\n  import helper",
        "try:\n  pass\nexcept E:\n  pass\nelse:\n  import helper",
        "try:\n  pass\nfinally:\n  import helper",
        "match A:\n  case 1:\n    import helper",
        "class A:\n  async def f():\n    with B:\n      for c in D:\n        import helper",
        "while A:\n  pass\nelse:\n  from helper import A",
    ],
)
def test_an_import_counts_in_any_statement(project: Path, statement: str) -> None:
    (project / "net.py").write_text(statement)
    before = code_digest(project / "net.py", project)
    (project / "helper.py").write_text("A = 2\n")
    assert code_digest(project / "net.py", project) != before


def test_the_digest_of_an_entry_does_not_name_its_function() -> None:
    first = entry_digest("transload.models.artifact:read_artifact")
    assert first == entry_digest("transload.models.artifact:write_artifact")
    assert first != entry_digest("transload.models.dataset:read_dataset")
    with pytest.raises(BadRequest, match=r"no module of transload is called transload\.models\.nothing"):
        entry_digest("transload.models.nothing:x")


def test_a_module_is_found_without_being_imported(project: Path) -> None:
    (project / "pkg" / "__init__.py").write_text("raise SystemExit\n")
    assert module_file("pkg.deep", project) == project / "pkg" / "deep.py"
    assert module_file("pkg", project) == project / "pkg" / "__init__.py"
    assert module_file("transload.models.code_digest").samefile(code.__file__)
    for name in ("pkg.none", "none", "..", ""):
        with pytest.raises(BadRequest, match="there is no module"):
            module_file(name, project)


def test_a_package_that_one_of_pythons_own_hides_is_named(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "net.py").touch()
    with pytest.raises(
        BadRequest, match=rf"'code.net': \S+code.py hides the code of {tmp_path}\n  fix: rename your code"
    ):
        module_file("code.net", tmp_path)


def test_an_installed_package_is_not_read_as_if_it_were_the_users(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "lib.py").write_text("import heavy\n")
    (site / "heavy.py").write_text("")
    before = code_digest(site / "lib.py")
    (site / "heavy.py").write_text("changed = 1\n")
    assert code_digest(site / "lib.py") == before


@pytest.mark.parametrize("name", ["types", "numpy", "nobody_elses"])
def test_a_file_of_the_users_goes_before_a_module_of_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_ref(f"{name}:Net", str(tmp_path)).text == f"{name}:Net"
    (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))  # as python -m does
    ref = code_ref(f"{name}:Net", str(tmp_path))
    assert ref.text == (f"{name}:Net" if name == "nobody_elses" else f"{name}.py:Net")
    assert code_ref(f"{name}.inner:Net", str(tmp_path)).text == f"{name}.inner:Net"


def test_files_are_parsed_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 counts the depth of a parse for all threads together, and raises SystemError where that is off."""
    files = [tmp_path / f"net_{number}.py" for number in range(8)]
    for file in files:
        file.write_text(f"import os\nA = {file.stem!r}\n")
    parse, under_way, most = ast.parse, [0], [0]

    def watched(text: bytes) -> ast.Module:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.01)
        under_way[0] -= 1
        return parse(text)

    with monkeypatch.context() as patch, ThreadPoolExecutor(len(files)) as pool:
        patch.setattr(ast, "parse", watched)
        digests = set(pool.map(code_digest, files))
    assert (len(digests), most[0]) == (len(files), 1)


def test_of_each_file_of_ours_the_lines_that_import_tell_all_of_its_imports() -> None:
    for room in ("models", "converters", "serving", "pipeline"):
        for path in Path(code._OURS, room).rglob("*.py"):
            text = path.read_bytes()
            lines = set(code._imports(code._import_tree(str(path), text)))
            assert lines >= set(code._imports(ast.parse(text))), path


def test_prose_that_begins_as_an_import_hides_none(ours: Path) -> None:
    text = b'"""Text.\nimport it as you like, or\nfrom there.\n"""\nfrom . import (\n    a,  # why\n    b,\n)\n'
    tree = code._import_tree(f"{ours}/models/one.py", text)
    assert set(code._imports(tree)) == {(1, ("a",)), (1, ("b",))}


@pytest.mark.parametrize("place", ["net.py", "examples/net.py"])
def test_a_file_of_the_users_beside_our_packages_is_read_whole(ours: Path, place: str) -> None:
    tree = code._import_tree(f"{ours}/{place}", b"if True: import helper\n")
    assert set(code._imports(tree)) == {(0, ("helper",))}
