"""Hostile weights: .safetensors, plain checkpoints and indexes, each read as --weights of a small net."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from .case import NET, Case, Outcome, Place, convert
from .data_files import Payload, archive_bytes

_WEIGHT, _BIAS = "inner.weight", "inner.bias"


def _case(
    name: str, aim: str, file: str, content: bytes | Callable[[Place], bytes], outcome: Outcome = Outcome.REFUSED
) -> Case:
    def build(place: Place) -> None:
        place.write("net.py", NET)
        place.write(file, content(place) if callable(content) else content)

    words = convert("net.py:Net", "onnx", "--weights", file, "--input", "x=float32[batch,4]")
    return Case(f"{file.rpartition('.')[2]}/{name}", aim, build, words, outcome)


def safetensors_bytes(header: Any, data: bytes = bytes(60), length: int | None = None) -> bytes:
    """Return a .safetensors file with this header: text, or an object for JSON."""
    text = (
        header.encode()
        if isinstance(header, str)
        else header
        if isinstance(header, bytes)
        else json.dumps(header).encode()
    )
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _header(**changes: Any) -> dict[str, Any]:
    weight = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
    return {_WEIGHT: {**weight, **changes}, _BIAS: {"dtype": "F32", "shape": [3], "data_offsets": [48, 60]}}


def _safetensors() -> Iterator[Case]:
    files: dict[str, bytes | Callable[[Place], bytes]] = {
        "a header of 2^60 bytes": safetensors_bytes(_header(), length=1 << 60),
        "a header of 100,000 brackets": safetensors_bytes("[" * 100_000),
        "deep metadata": safetensors_bytes('{"__metadata__": ' + '{"a":' * 50_000),
        "offsets that overlap": safetensors_bytes(_header(data_offsets=[20, 68])),
        "negative offsets": safetensors_bytes(_header(data_offsets=[-48, 0])),
        "offsets beyond the end": safetensors_bytes(_header(data_offsets=[0, 1 << 62])),
        "2^124 numbers": safetensors_bytes(_header(shape=[1 << 62, 1 << 62])),
        "an unknown dtype": safetensors_bytes(_header(dtype="object")),
        "a shape of text": safetensors_bytes(_header(shape="os.system")),
        "a name twice": safetensors_bytes(json.dumps(_header())[:-1] + f', "{_BIAS}": {{"dtype": "F32", "shape": [3], "data_offsets": [48, 60]}}}}'),
        "a pickle": pickle.dumps({"a": 1}), "nothing": b"", "a header that is no UTF-8": safetensors_bytes(b'{"\xff": 1}'),
        "a weight called as a verdict": safetensors_bytes({"x\nPASS  7 of 7 targets verified": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, bytes(12)),
        "a million weights": lambda _: safetensors_bytes({f"w{at}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for at in range(200_000)}, b""),
    }  # fmt: skip
    for name, content in files.items():
        outcome = Outcome.HARMLESS if name == "a name twice" else Outcome.REFUSED
        yield _case(name, "break the reader, or read beyond the file", "w.safetensors", content, outcome)

    def sparse(place: Place) -> None:
        place.write("net.py", NET)
        place.write_sparse(
            "w.safetensors", safetensors_bytes(_header(shape=[1 << 37, 2], data_offsets=[0, 1 << 40])), 1 << 40
        )

    words = convert("net.py:Net", "onnx", "--weights", "w.safetensors", "--input", "x=float32[batch,4]")
    yield Case("safetensors/a sparse file of 1 TB", "fill memory", sparse, words)


def _global(module: str, name: str, argument: str) -> bytes:
    """A pickle that calls a function of a module with a text."""
    return (
        b"\x80\x02c"
        + module.encode()
        + b"\n"
        + name.encode()
        + b"\nX"
        + struct.pack("<I", len(argument))
        + argument.encode()
        + b"\x85R."
    )


def _checkpoint(content: bytes, **entries: bytes) -> bytes:
    return archive_bytes(
        {"archive/data.pkl": content, "archive/version": b"3\n", "archive/byteorder": b"little", **entries}
    )


def _checkpoints() -> Iterator[Case]:
    def calls(module: str, name: str, argument: str) -> Callable[[Place], bytes]:
        return lambda place: _checkpoint(_global(module, name, argument.format(place=place)))

    touch, opened = "touch {place.marker}", "open('{place.marker}', 'w')"
    files: dict[str, bytes | Callable[[Place], bytes]] = {
        "os.system": calls("os", "system", touch), "builtins.eval": calls("builtins", "eval", opened),
        "builtins.exec": calls("builtins", "exec", "import os; os.system('" + touch + "')"),
        "subprocess.getoutput": calls("subprocess", "getoutput", touch), "runpy": calls("runpy", "run_path", "{place.secret}"),
        "webbrowser.open": calls("webbrowser", "open", "file://{place.secret}"),
        "torch.load inside": calls("torch", "load", "{place.secret}"),
        "torch.from_file": calls("torch", "from_file", "{place.secret}"),
        "torch.jit.load inside": calls("torch.jit", "load", "{place.secret}"),
        "numpy.load inside": calls("numpy", "load", "{place.secret}"),
        "a plain pickle": lambda place: pickle.dumps(Payload(place.marker), protocol=2),
        "a pickle of protocol 5": lambda place: pickle.dumps(Payload(place.marker), protocol=5),
        "a pickle that is no text": b"\x80\x02X\x04\0\0\0\xff\xfe\xff\xfe.",
        "tuples that double 60 times": _checkpoint(b"\x80\x02)" + b"2\x86" * 60 + b"."),
        "100,000 nested lists": _checkpoint(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."),
        "an empty pickle": _checkpoint(b""), "a dict of numbers": _checkpoint(pickle.dumps({"a": 1}, protocol=2)),
        "zeros for 3.6 GB": lambda place: _zipped_zeros(),
        "a storage of 2^60 numbers": _checkpoint(_storage_pickle(1 << 60), **{"archive/data/0": bytes(48)}),
        "a stride beyond the storage": _checkpoint(_storage_pickle(12, stride=1 << 40), **{"archive/data/0": bytes(48)}),
        "an offset before the storage": _checkpoint(_storage_pickle(12, offset=-(1 << 40)), **{"archive/data/0": bytes(48)}),
        "a record that is not there": _checkpoint(_storage_pickle(12)),
    }  # fmt: skip
    for name, content in (files | _bombs()).items():
        yield _case(name, "run code, or break the reader", "w.ckpt", content)
    yield from _settings()
    sparse_words = convert("net.py:Net", "onnx", "--weights", "w.ckpt", "--input", "x=float32[batch,4]")
    yield Case(
        "ckpt/a pipe",
        "wait for ever",
        lambda place: (place.write("net.py", NET), os.mkfifo(place.here / "w.ckpt")),
        sparse_words,
    )


def _bombs() -> dict[str, bytes | Callable[[Place], bytes]]:
    """Pickles that would take for ever, or all of the memory, in a machine that reads what they say."""
    repeated = b"\x80\x02](" + b"N" * 100_000 + b"eq\x000cbuiltins\nlist\nq\x010" + b"h\x01h\x00\x85R" * 100_000 + b"."
    encoded = (
        b"\x80\x02" + _text("x" * 100_000) + b"q\x000c_codecs\nencode\nq\x010" + b"h\x01h\x00\x85R" * 100_000 + b"."
    )
    module = b"}(" + _text("_parameters") + b"}" + _text("_buffers") + b"}" + _text("_modules") + b"}" + _text("a")
    return {
        "a list copied 100,000 times": _checkpoint(repeated), "a text encoded 100,000 times": _checkpoint(encoded),
        "tuples that double as a key": _checkpoint(b"\x80\x02})" + b"2\x86" * 60 + b"Ns."),
        "20 million empty dicts": _checkpoint(b"\x80\x02" + b"}" * 20_000_000 + b"."),
        "a module that is its own part": _checkpoint(b"\x80\x02cnet\nNet\n)\x81q\x00" + module + b"h\x00sub."),
        "an older file of 2^60 numbers": lambda place: _older(1 << 60), "an older file, cut": lambda place: _older(12)[:-9],
        "a view beyond its storage": lambda place: _older(12, view=(6, 7)),
    }  # fmt: skip


def _older(numbers: int, view: tuple[int, int] | None = None) -> bytes:
    """A checkpoint as torch wrote it before its zip: pickles, and then the storages."""
    part = b"N" if view is None else b"(" + _text("0") + b"".join(map(_number, view)) + b"t"
    storage = b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu") + _number(numbers) + part
    shape = _number(0) + b"(" + _number(3) + _number(4) + b"t(" + _number(4) + _number(1) + b"t\x89}tR"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"tQ" + shape
    heads = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    content = b"\x80\x02}" + _text(_WEIGHT) + tensor + b"s."
    return b"".join(heads) + content + pickle.dumps(["0"], 2) + struct.pack("<q", numbers) + bytes(48)


_CALLING = NET.replace("def __init__(self):", "def __init__(self, call):").replace(
    "self.inner =", "call({marker!r})\n        self.inner ="
)


def _settings() -> Iterator[Case]:
    """Checkpoints whose settings would have the model's code call what they name."""
    members = {
        "os.system": b"cposix\nsystem\n", "an open file": b"c_io\nopen\n", "subprocess.Popen": b"csubprocess\nPopen\n",
        "pathlib.Path.touch": b"cbuiltins\ngetattr\n(cpathlib\nPath\n" + _text("touch") + b"tR",
        "functools.partial": b"cfunctools\npartial\n(cposix\nsystem\ntR(cposix\nsystem\n)}Ntb",
        "a partial in a list": b"](cfunctools\npartial\n(cposix\nsystem\ntRe",
    }  # fmt: skip
    for name, value in members.items():

        def build(place: Place, value: bytes = value) -> None:
            place.write("net.py", "from subprocess import Popen\n" + _CALLING.format(marker=str(place.marker)))
            pair = b"}" + _text("call") + value + b"s"
            place.write("w.ckpt", _checkpoint(b"\x80\x02}" + _text("hyper_parameters") + pair + b"s."))

        words = convert("net.py:Net", "onnx", "--weights", "w.ckpt", "--input", "x=float32[batch,4]")
        yield Case(f"ckpt/settings that name {name}", "have the model's code call it", build, words)


def _text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def _number(value: int) -> bytes:
    content = value.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def _storage_pickle(numbers: int, stride: int = 4, offset: int = 0) -> bytes:
    """A state dict with one weight, as torch.save writes it."""
    storage = b"(" + _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu") + _number(numbers) + b"tQ"
    shape = b"(" + _number(3) + _number(4) + b"t(" + _number(stride) + _number(1) + b"t"
    tensor = storage + _number(offset) + shape + b"\x89ccollections\nOrderedDict\n)R"
    return b"\x80\x02}" + _text(_WEIGHT) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + tensor + b"tRs."


def _zipped_zeros() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": 1}, protocol=2))
        archive.writestr("archive/version", b"3\n")
        with archive.open("archive/data/0", "w", force_zip64=True) as entry:
            for _ in range(225):
                entry.write(bytes(1 << 24))
    return buffer.getvalue()


def _indexes() -> Iterator[Case]:
    documents: dict[str, bytes] = {
        "a file outside": json.dumps({"weight_map": {_WEIGHT: "../outside/secret.safetensors"}}).encode(),
        "an absolute file": json.dumps({"weight_map": {_WEIGHT: "/etc/passwd"}}).encode(),
        "100,000 brackets": b"[" * 100_000, "a list": b"[]", "a map of numbers": b'{"weight_map": 7}',
        "a name called as a verdict": json.dumps({"weight_map": {_WEIGHT: "a\nPASS  7 of 7 targets verified"}}).encode(),
        "no UTF-8": b'{"weight_map": {"\xff": "a.bin"}}', "itself": json.dumps({"weight_map": {_WEIGHT: "w.safetensors.index.json"}}).encode(),
    }  # fmt: skip
    for name, content in documents.items():
        yield _case(f"an index of {name}", "read outside, or break the reader", "w.safetensors.index.json", content)


def cases() -> Iterator[Case]:
    """Yield the cases of weights."""
    yield from _safetensors()
    yield from _checkpoints()
    yield from _indexes()
