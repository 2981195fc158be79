"""Files of torch.export.save from torch 2.2 to 2.7, each written by that torch, as old_pt2/write_old_pt2.py says."""

from __future__ import annotations

import gzip
import importlib.util
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from transload.converters.readers.file_content import format_of_content
from transload.converters.readers.pt2.pt2_file import check_pt2, load_pt2
from transload.converters.readers.pt2.pt2_reader import import_pt2
from transload.converters.readers.pt2.pt2_upgrade import is_old_layout, upgrade_pt2
from transload.models.artifact import read_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format
from transload.models.formats.pt2 import OLD_PROGRAM
from transload.models.job import Job
from transload.models.store import digest_of

FOLDER = Path(__file__).with_name("old_pt2")
FILES = sorted(FOLDER.glob("*.pt2.gz"))


def load_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_old_pt2", FOLDER / "write_old_pt2.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


writer = load_writer()


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # as a worker's: the upgraded file lies in it
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")  # torch's own call
        yield


def unpacked(file: Path, tmp_path: Path) -> Path:
    path = tmp_path / file.name.removesuffix(".gz")
    path.write_bytes(gzip.decompress(file.read_bytes()))
    return path


def changed(tmp_path: Path, version: str, changes: dict[str, bytes | Callable[[bytes], bytes] | None]) -> Path:
    """Write the file of a version of torch again, with entries that are other, new or (None) gone."""
    (file,) = FOLDER.glob(f"torch-{version}*.gz")
    with zipfile.ZipFile(unpacked(file, tmp_path)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    for name, change in changes.items():
        entries[name] = change(entries[name]) if callable(change) else change  # type: ignore[assignment]
    path = tmp_path / "changed.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            if data is not None:
                archive.writestr(name, data)
    return path


def test_the_files_are_of_each_torch_that_wrote_the_old_layout() -> None:
    assert [file.name.split(".")[1] for file in FILES] == ["2", "3", "4", "5", "6", "7"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".pt2.gz"))
def test_a_file_of_an_old_torch_answers_as_its_model(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "cond", lambda test, yes, no, inputs: (yes if test else no)(*inputs))  # not compiled
    path, upgraded = unpacked(file, tmp_path), tmp_path / "upgraded.pt2"
    assert format_of_content(path) is Format.PT2
    assert is_old_layout(path)
    upgrade_pt2(path, upgraded)
    check_pt2(upgraded, source=path)
    program = load_pt2(upgraded, path)
    newer = int(file.name.split(".")[1]) >= 4
    model = (writer.Detached if newer else writer.Mixed)().eval()
    for batch in (1, 2, 5):
        x = torch.linspace(-1, 2, batch * 3).reshape(batch, 3)
        expected = model(x, *[True][: int(newer)])
        answer = program.module()(x, *[True][: int(newer)])
        assert list(answer) == list(expected)
        for name in expected:
            torch.testing.assert_close(answer[name], expected[name])
    with zipfile.ZipFile(upgraded) as archive:
        assert archive.read("model/extra/note.txt") == b"kept"


def test_symbols_are_declared_as_torch_declares_those_of_the_inputs(tmp_path: Path) -> None:
    """Else `4*s0 > 4*s0` is true for two symbols of one name, and the ONNX exporter ends with an AssertionError."""
    program = decomposable(unpacked(FILES[0], tmp_path), tmp_path)
    values = [node.meta.get("val") for node in program.graph.nodes]
    sizes: list[Any] = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    symbols = {symbol for size in sizes if hasattr(size, "node") for symbol in size.node.expr.free_symbols}
    assert {(str(symbol), symbol.is_integer, symbol.is_positive) for symbol in symbols} == {("s0", True, True)}
    assert len(symbols) == 1


def decomposable(path: Path, tmp_path: Path) -> torch.export.ExportedProgram:
    upgrade_pt2(path, tmp_path / "upgraded.pt2")
    return load_pt2(tmp_path / "upgraded.pt2").run_decompositions()


def test_torch_2_2_wrote_2_for_no_least_size(tmp_path: Path) -> None:
    upgrade_pt2(unpacked(FILES[0], tmp_path), tmp_path / "upgraded.pt2")
    (limits,) = load_pt2(tmp_path / "upgraded.pt2").range_constraints.values()
    assert (limits.lower, limits.upper) == (1, 64)


def import_file(path: Path, tmp_path: Path) -> Any:
    (tmp_path / "out").mkdir()
    import_pt2(Job({}, tmp_path / "out", {"path": str(path), "sha256": digest_of(path)}))
    return read_artifact(tmp_path / "out").signature


def test_the_intake_takes_the_file_as_it_is(tmp_path: Path) -> None:
    signature = import_file(unpacked(FILES[2], tmp_path), tmp_path)
    assert [str(spec) for spec in signature.inputs] == ["x=float32[batch=1..64,3]"]
    assert [spec.name for spec in signature.outputs] == ["offset", "y", "half"]


@pytest.mark.parametrize("length", [40, 9000])
def test_a_file_that_is_cut_off_is_no_whole_file(length: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.pt2"
    path.write_bytes(unpacked(FILES[2], tmp_path).read_bytes()[:length])
    with pytest.raises(BadRequest, match=r"cut.pt2 is not a whole file of torch.export.save"):
        import_file(path, tmp_path)


@pytest.mark.parametrize(
    ("version", "whose"),
    [("1", "torch 2.1"), ("3.0", "torch 2.2 or a nightly build after it"), ("6.1", "torch 2.4"), ("0.1", "before 2.1"),
     ("9.0", "newer than the one here")],
)  # fmt: skip
def test_a_schema_that_is_not_known_is_named(version: str, whose: str, tmp_path: Path) -> None:
    path = changed(tmp_path, "2.4", {"version": version.encode()})
    with pytest.raises(BadRequest) as caught:
        import_file(path, tmp_path)
    assert caught.value.what.startswith(f"{path} was saved by ")
    assert whose in caught.value.what
    assert f"(schema {version})" in caught.value.what
    assert "save it again" in caught.value.fix


class Code:
    def __reduce__(self) -> Any:
        return exec, ("open('ran', 'w').close()",)


def with_target(data: bytes) -> bytes:
    program = json.loads(data)
    program["graph_module"]["graph"]["nodes"][0]["target"] = "os.system"
    return json.dumps(program).encode()


def with_size(text: str) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        program = json.loads(data)
        program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text
        return json.dumps(program).encode()

    return change


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"serialized_state_dict.pt": pickle.dumps(Code(), 2)}, "a pickle of more than tensors"),
        ({"serialized_constants.pt": pickle.dumps(Code(), 2)}, "a pickle of more than tensors"),
        ({"serialized_example_inputs.pt": pickle.dumps(Code(), 2)}, "a pickle of more than tensors"),
        ({OLD_PROGRAM: with_target}, "calls os.system"),
        ({OLD_PROGRAM: with_size("__import__('os').system('touch ran')")}, "as the size of an axis"),
        ({OLD_PROGRAM: with_size("(" * 999)}, "as the size of an axis"),
        ({OLD_PROGRAM: b"[" * 100_000}, "is not a whole file of torch.export.save"),
        ({OLD_PROGRAM: b"{}"}, "is not a whole file of torch.export.save"),
        ({"model.so": b"x"}, "holds model.so, which torch.export.save does not write"),
        ({"models/model.json": b"{}"}, "which torch.export.save does not write"),
        ({"serialized_state_dict.pt": b"PK\3\4"}, "is not a whole file of torch.export.save"),
        ({"serialized_state_dict.json": b""}, "has not one set of weights"),
        ({"serialized_state_dict.pt": None}, "has not one set of weights"),
        ({"version": None}, "is not a whole file of torch.export.save"),
        ({"version": "²".encode()}, "is not a whole file of torch.export.save"),
        ({"version": b"5.3.1"}, "names no version of its schema"),
        ({"extra_files/../../x": b"x"}, ""),
    ],
)
def test_what_could_run_code_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = changed(tmp_path, "2.4", changes)
    with pytest.raises(BadRequest) as caught:
        import_file(path, tmp_path)
    assert caught.value.what.startswith(str(path))
    assert words in caught.value.what
    assert not (tmp_path / "ran").exists()
