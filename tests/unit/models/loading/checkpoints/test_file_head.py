"""Files of weights are looked at by their first bytes, before anything is imported."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from transload.models.errors import BadRequest
from transload.models.loading.checkpoints.checkpoint_file import read_checkpoint
from transload.models.loading.checkpoints.file_head import check_weight_file, weights_in

NAME_IT = "name it as the model itself, without --weights"
COPY = "copy it again, or save it again"


def archive(*names: str) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name in names:
                file.writestr(name, b"{}")

    return write


def content(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


def tensors(path: Path, keep: int | None = None) -> None:
    save_file({"w": np.zeros(100, np.float32)}, path)
    path.write_bytes(path.read_bytes()[:keep])


def checkpoint(path: Path, keep: int | None = None) -> None:
    torch.save({"w": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:keep])


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
REFUSED: list[tuple[str, Callable[[Path], object], str, str]] = [
    (
        "net.py",
        lambda path: path.write_text("import torch\n"),
        "{path} is Python code, and no file of weights",
        "name it as the model, net.py:NAME",
    ),
    ("w.pt", lambda path: None, "no such file: {path}", "check the path of the weights"),
    ("w.pt", lambda path: path.mkdir(), "no such file: {path}", "check the path of the weights"),
    ("w.pt", content(b""), "{path} is empty", COPY),
    (
        "w.safetensors",
        content(POINTER),
        "{path} is a pointer of Git LFS, and not the file itself",
        "fetch it: git lfs pull",
    ),
    (
        "w.pt",
        content(b"\n<!DOCTYPE html><p>"),
        "{path} is a web page",
        "download the file itself; the page may ask for a login",
    ),
    ("w.bin", content(b"\x1f\x8b\x08"), "{path} is compressed with gzip", "unpack it: gunzip w.bin"),
    ("w.pt", content(b"a" * 257 + b"ustar\0"), "{path} is a tar archive", "unpack it: tar -xf w.pt"),
    (
        "w.h5",
        content(b"\x89HDF\r\n"),
        "{path} is an HDF5 file",
        "load it in Python, and save its tensors under the model's names with torch.save",
    ),
    (
        "w.bin",
        content(b"GGUF\x03"),
        "{path} is a GGUF file, which llama.cpp reads",
        "name the weights that it was made from",
    ),
    ("w.onnx", content(b"\x08\x0a\x12\x07"), "{path} is an ONNX model", NAME_IT),
    ("w.bin", content(b"\0\0\0\0TFL3"), "{path} is a TFLite model", NAME_IT),
    ("w.pt", content(b'{"a": 1}'), "{path} is a JSON document", "name a file of weights"),
    ("w.pt", archive("net/constants.pkl", "net/data.pkl"), "{path} is a TorchScript archive", NAME_IT),
    ("w.pt", archive("net/models/model.json"), "{path} is a program of torch.export", NAME_IT),
    ("w.pt", archive("config.json", "metadata.json"), "{path} is a Keras model", NAME_IT),
    ("w.pt", tensors, "{path} is a .safetensors file by its content", "call it w.safetensors"),
    ("w.safetensors", checkpoint, "{path} is a checkpoint of torch.save", "call it w.pt"),
    ("w.pt", lambda path: checkpoint(path, 500), "{path} is not a whole checkpoint: its end is missing", COPY),
    (
        "w.safetensors",
        lambda path: tensors(path, 12),
        "{path} is not a whole safetensors file: its header is cut short",
        COPY,
    ),
    (
        "w.safetensors",
        lambda path: tensors(path, -1),
        "{path} is not a whole safetensors file: it has 471 bytes of 472",
        COPY,
    ),
]


@pytest.mark.parametrize(("name", "write", "words", "fix"), REFUSED)
def test_what_is_no_file_of_weights_is_one_sentence(
    name: str, write: Callable[[Path], object], words: str, fix: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    write(path)
    with pytest.raises(BadRequest) as caught:
        check_weight_file(path)
    assert (caught.value.what, caught.value.fix) == (words.format(path=path), fix)


def test_files_of_weights_pass(tmp_path: Path) -> None:
    tensors(tmp_path / "w.safetensors")
    checkpoint(tmp_path / "w.pt")
    torch.save({"w": torch.zeros(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "0x80.safetensors").write_bytes(b"\x80" + bytes(7) + b'{"__metadata__": {}}'.ljust(128))
    for path in tmp_path.iterdir():
        check_weight_file(path)


def test_a_folder_of_hugging_face_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").touch()
    assert weights_in(tmp_path).name == "pytorch_model.bin"
    (tmp_path / "model.safetensors").touch()
    assert weights_in(tmp_path).name == "model.safetensors"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "last.ckpt",
            "is a folder without model.safetensors and pytorch_model.bin\n  fix: name one of its files: last.ckpt",
        ),
        ("notes.txt", "is a folder without model.safetensors and pytorch_model.bin\n  fix: name a file of weights"),
        (".metadata", "is a checkpoint in shards of several processes\n  fix: convert it: python -m torch.distributed"),
    ],
)
def test_another_folder_is_refused_with_what_to_name(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(BadRequest, match=words):
        weights_in(tmp_path)


@pytest.mark.parametrize("read", [check_weight_file, read_checkpoint], ids=["head", "whole"])
def test_no_number_in_the_end_of_a_zip_is_more_than_a_sentence(read: Callable[[Path], object], tmp_path: Path) -> None:
    """The directory of 64 bits says on how many disks it lies, where and how long it is; Python's zipfile raises
    errors of its own for some, and reads a part before its beginning for others."""
    whole = tmp_path / "whole.pt"
    checkpoint(whole)
    data = whole.read_bytes()
    end = len(data) - 98  # the end records of 64 bits, their locator, and the end record
    kinds = set()
    for place in range(end, len(data)):
        for byte in (0, 1, 0x7F, 0xFF):
            path = tmp_path / "changed.pt"
            path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
            try:
                read(path)
                kinds.add("taken")
            except BadRequest:
                kinds.add("refused")
    assert "refused" in kinds or read is check_weight_file
