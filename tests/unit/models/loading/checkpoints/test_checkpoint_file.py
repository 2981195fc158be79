"""Tensors out of every kind of file that torch.save and pickle write, without importing or calling what they name."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.loading.checkpoints import pickle_machine
from transload.models.loading.checkpoints.checkpoint_file import read_checkpoint
from transload.models.loading.checkpoints.stored_tensors import load_tensors, tensor_record
from transload.models.loading.checkpoints.stubs import Stub, StubClass

BASE = torch.arange(20.0)
STATE: dict[str, torch.Tensor] = {
    "plain": BASE[:12].reshape(3, 4),
    "transposed": torch.arange(12.0).reshape(4, 3).t(),
    "view": BASE[2:8].view(2, 3),
    "tied": BASE,
    "expanded": torch.ones(1).expand(4, 5),
    "half": torch.arange(5).half(),
    "bfloat": torch.arange(5).bfloat16(),
    "int8": torch.arange(5, dtype=torch.int8),
    "bool": torch.tensor([True, False]),
    "complex": torch.tensor([1 + 2j, 3 - 4j]),
    "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    "scalar": torch.tensor(3),
    "empty": torch.empty(0, 3),
    "parameter": torch.nn.Parameter(torch.ones(3)),
}
NEWER = {"uint16": torch.arange(3).to(torch.uint16), "float8": torch.arange(4.0).to(torch.float8_e4m3fn)}


def zipped(value: object, path: Path) -> None:
    torch.save(value, path)


def older(value: object, path: Path) -> None:
    torch.save(value, path, _use_new_zipfile_serialization=False)


def pickled(protocol: int) -> Callable[[object, Path], None]:
    def write(value: object, path: Path) -> None:
        path.write_bytes(pickle.dumps(value, protocol))

    return write


def content_of(value: torch.Tensor) -> bytes:
    return bytes(value.detach().resolve_conj().resolve_neg().contiguous().clone().untyped_storage())


def loaded(path: Path) -> dict[str, torch.Tensor]:
    checkpoint: Any = read_checkpoint(path)
    records = {name: record for name, value in checkpoint.items() if (record := tensor_record(value)) is not None}
    return load_tensors(records, path.name)


@pytest.mark.parametrize(
    ("write", "state"),
    [(zipped, STATE | NEWER), (older, STATE | NEWER), *((pickled(protocol), STATE) for protocol in (0, 2, 5))],
)
def test_tensors_are_those_that_torch_saved(
    write: Callable[[object, Path], None], state: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    write(state, tmp_path / "w.pt")
    tensors = loaded(tmp_path / "w.pt")
    assert list(tensors) == list(state)
    for name, value in state.items():
        assert (tensors[name].dtype, tensors[name].shape) == (value.dtype, value.shape), name
        assert content_of(tensors[name]) == content_of(value), name


@pytest.mark.parametrize("write", [zipped, older])
def test_tied_tensors_share_memory(write: Callable[[object, Path], None], tmp_path: Path) -> None:
    write({"tied": BASE, "view": BASE[2:8]}, tmp_path / "w.pt")
    tensors = loaded(tmp_path / "w.pt")
    assert tensors["view"].data_ptr() == tensors["tied"].data_ptr() + 8


def test_only_the_tensors_that_are_asked_for_are_read(tmp_path: Path) -> None:
    zipped({"net": torch.ones(3), "optimizer": torch.ones(4)}, tmp_path / "w.pt")
    content = (tmp_path / "w.pt").read_bytes()
    (tmp_path / "w.pt").write_bytes(content.replace(torch.ones(4).numpy().tobytes(), b"\xff" * 16))
    checkpoint: Any = read_checkpoint(tmp_path / "w.pt")
    assert load_tensors({"net": checkpoint["net"]}, "w.pt")["net"].tolist() == [1, 1, 1]
    with pytest.raises(BadRequest, match="the checksum of a part is another"):
        load_tensors({"optimizer": checkpoint["optimizer"]}, "w.pt")


def test_archives_without_checksums_are_read(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        zipped({"w": torch.ones(3)}, tmp_path / "w.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert loaded(tmp_path / "w.pt")["w"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_arrays_and_numbers_of_numpy_are_read(protocol: int, tmp_path: Path) -> None:
    arrays = {"c": np.arange(6.0).reshape(2, 3), "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
              "big": np.arange(3, dtype=">f4")}  # fmt: skip
    (tmp_path / "w.pkl").write_bytes(pickle.dumps({**arrays, "epoch": np.int64(7), "loss": np.float32(0.5)}, protocol))
    checkpoint: Any = read_checkpoint(tmp_path / "w.pkl")
    assert (checkpoint["epoch"], checkpoint["loss"]) == (7, 0.5)
    for name, tensor in loaded(tmp_path / "w.pkl").items():
        assert tensor.tolist() == arrays[name].tolist()


class Custom(dict[str, int]):
    """A class of the user's, which is not there where the file is read."""


def test_containers_are_plain_and_other_objects_are_stubs(tmp_path: Path) -> None:
    custom = Custom(a=1)
    custom.note = "x"  # type: ignore[attr-defined]
    zipped(
        {"ordered": OrderedDict(a=1), "counter": Counter("aab"), "default": defaultdict(list, a=[1]), "set": {1, 2},
         "size": torch.Size([2, 3]), "bytes": b"\xff", "complex": 1 + 2j, "custom": custom, "path": Path("a/b"),
         "class": torch.nn.ReLU, "dtype": torch.float16},
        tmp_path / "w.pt",
    )  # fmt: skip
    checkpoint: Any = read_checkpoint(tmp_path / "w.pt")
    custom_stub, path, cls, dtype = (checkpoint.pop(name) for name in ("custom", "path", "class", "dtype"))
    assert checkpoint == {
        "ordered": {"a": 1}, "counter": {"a": 2, "b": 1}, "default": {"a": [1]}, "set": {1, 2}, "size": (2, 3),
        "bytes": b"\xff", "complex": 1 + 2j,
    }  # fmt: skip
    assert isinstance(custom_stub, Stub)
    assert (custom_stub.cls.name, custom_stub.entries, custom_stub.attributes) == ("Custom", {"a": 1}, {"note": "x"})
    assert (path.cls.module, path.args) == ("pathlib", ("a", "b"))
    assert cls == StubClass("torch.nn.modules.activation", "ReLU")
    assert dtype == StubClass("torch", "float16")


@pytest.mark.parametrize("write", [zipped, older])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_are_not_plain_numbers_say_what_they_are(
    write: Callable[[object, Path], None], tmp_path: Path
) -> None:
    odd = {
        "sparse": torch.eye(3).to_sparse(),
        "quantised": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    }
    write({**odd, "fine": torch.ones(2)}, tmp_path / "w.pt")
    checkpoint: Any = read_checkpoint(tmp_path / "w.pt")
    for kind in odd:
        with pytest.raises(ValueError, match=f"^w in w.pt is {kind}$"):
            load_tensors({"w": checkpoint[kind]}, "w.pt")
    assert load_tensors({"w": checkpoint["fine"]}, "w.pt")["w"].tolist() == [1, 1]


class Boom:
    """Whoever unpickles this leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.trace}",)


@pytest.mark.parametrize("write", [zipped, older, pickled(0), pickled(5)])
def test_nothing_that_a_file_names_is_called(write: Callable[[object, Path], None], tmp_path: Path) -> None:
    trace, path = tmp_path / "executed", tmp_path / "w.pt"
    write({"w": Boom(trace), "more": [1]}, path)
    checkpoint: Any = read_checkpoint(path)
    assert checkpoint["w"].cls.text in ("posix.system", "os.system")
    assert not trace.exists()
    torch.save({"w": Boom(trace)}, path)
    torch.load(path, weights_only=False)
    assert trace.exists(), "the check can fail"


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def archive(path: Path, content: bytes, **records: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", content)
        for name, record in records.items():
            file.writestr(f"archive/data/{name}", record)
    return path


LISTS = b"\x80\x02]q\x00" + b"(" + b"N" * 1000 + b"e0"  # a list of 1,000, kept as number 0
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "broken or cut short"),
    "no end": (b"\x80\x02}", "broken or cut short"),
    "an empty stack": (b"\x80\x02.", "broken or cut short"),
    "a key that is a list": (b"\x80\x02}]Ns.", "a key that is no name and no number"),
    "a key of nested tuples": (b"\x80\x02})" + b"2\x86" * 60 + b"Ns.", "a key that is no name and no number"),
    "an extension": (b"\x80\x02\x82\x01.", "an operation that is not read (EXT1)"),
    "a buffer out of band": (b"\x80\x05\x97.", "an operation that is not read (NEXT_BUFFER)"),
    "items of a number": (b"\x80\x02K\x01NNs.", "sets items of what has none"),
    "elements of a number": (b"\x80\x02K\x01Na.", "adds elements to what has none"),
    "a call without arguments": (b"\x80\x02cos\nsystem\nNR.", "calls something with other than arguments"),
    "a name that is no text": (b"\x80\x02K\x01K\x01\x93.", "names a class by something else than text"),
    "a storage of another library": (b"\x80\x02(" + text("pointer") + b"tQ.", "no storage of torch"),
    "a list copied for ever": (
        b"\x80\x02](" + b"N" * 60_000 + b"eq\x00" + b"0cbuiltins\nlist\nq\x010" + b"h\x01h\x00\x85R0" * 200 + b"}.",
        "copies far more than the file holds",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_a_pickle_that_is_broken_or_a_bomb_is_one_sentence(kind: str, tmp_path: Path) -> None:
    content, words = BROKEN[kind]
    with pytest.raises(BadRequest) as caught:
        read_checkpoint(archive(tmp_path / "w.pt", content))
    assert words in caught.value.what
    assert caught.value.what.startswith(f"{tmp_path}/w.pt is not a whole checkpoint: ")
    assert caught.value.fix == "copy it again, or save model.state_dict() again"


def test_a_pickle_has_a_limited_number_of_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "w.pt", b"\x80\x02" + b"}0" * 50 + b"}.")
    assert read_checkpoint(path) == {}
    monkeypatch.setattr(pickle_machine, "MOST_OPCODES", 50)
    with pytest.raises(BadRequest, match="its pickle has more than 50 operations"):
        read_checkpoint(path)


def test_deeply_nested_and_circular_containers_are_read(tmp_path: Path) -> None:
    deep = archive(tmp_path / "deep.pt", b"\x80\x02}" + text("w") + b"]" * 100_000 + b"a" * 99_999 + b"s.")
    assert list(read_checkpoint(deep)) == ["w"]  # type: ignore[call-overload]
    circle: Any = read_checkpoint(archive(tmp_path / "circle.pt", b"\x80\x02]q\x00h\x00a."))
    assert circle[0] is circle


HUGE = b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"  # two sizes


def tensor(count: int, offset: int = 0, shape: bytes = b"K\x03K\x04\x86", strides: bytes = b"K\x04K\x01\x86") -> bytes:
    storage = (
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"J" + struct.pack("<i", count)
    )
    rest = b"J" + struct.pack("<i", offset) + shape + strides + b"\x89ccollections\nOrderedDict\n)RtR"
    return b"\x80\x02}" + text("w") + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQ" + rest + b"s."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tensor(12, offset=1), "larger than its storage"),
        (tensor(12, offset=-1), "of an impossible size"),
        (tensor(12, strides=b"K\x05K\x01\x86"), "larger than its storage"),
        (tensor(12, strides=b"J\xff\xff\xff\xffK\x01\x86"), "of an impossible size"),
        (tensor(12, strides=b"K\x01\x85"), "of an unknown kind"),
        (tensor(12, shape=HUGE, strides=b"K\x00K\x00\x86"), "of an impossible size"),
        (tensor(13), "larger than its record"),
        (tensor(-1), "no storage of torch"),
    ],
)  # fmt: skip
def test_a_tensor_lies_within_its_storage_and_that_within_the_file(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=words):
        read_checkpoint(archive(tmp_path / "w.pt", content, **{"0": bytes(48)}))
    assert loaded(archive(tmp_path / "w.pt", tensor(12), **{"0": bytes(48)}))["w"].shape == (3, 4)


def test_an_older_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    older({"a": torch.ones(30), "b": torch.ones(30)}, path)
    content = path.read_bytes()
    for size in (1, 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(BadRequest, match="not a whole checkpoint"):
            read_checkpoint(path)
