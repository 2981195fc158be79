"""Hostile data: .npz, .npy, .csv, .parquet and images, each read as --data of a good model."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from .case import Case, Outcome, Place, convert
from .onnx_files import good_onnx

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


class Payload:
    """An object whose pickle runs a command when it is read."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self._marker}",)


def array_bytes(header: str | bytes | None = None, *, version: tuple[int, int] = (1, 0), body: bytes = b"") -> bytes:
    """Return an .npy file, the good one or one with this header."""
    if header is None:
        buffer = io.BytesIO()
        np.save(buffer, ROWS)
        return buffer.getvalue()
    text = header.encode("latin1") if isinstance(header, str) else header
    length = struct.pack("<H", len(text)) if version == (1, 0) else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + body


def archive_bytes(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip of these entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _case(name: str, aim: str, file: str, build: Callable[[Place], object], outcome: Outcome = Outcome.REFUSED) -> Case:
    """A file of data beside a good model."""

    def build_both(place: Place) -> None:
        place.write("m.onnx", good_onnx().SerializeToString())
        build(place)

    return Case(
        f"{Path(file.partition('?')[0]).suffix.strip('./') or 'images'}/{name}",
        aim,
        build_both,
        convert("m.onnx", "onnx", "--data", file),
        outcome,
    )


def _content(file: str, content: bytes | Callable[[Place], bytes]) -> Callable[[Place], object]:
    return lambda place: place.write(file, content(place) if callable(content) else content)


_HEADERS: dict[str, str | bytes] = {
    "1,000 brackets": "[" * 1000, "an open text": "{'descr': '<f4", "a call": "__import__('os').system('touch executed')",
    "10^18 rows": "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000000, 4)}",
    "negative rows": "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}",
    "a shape of text": "{'descr': '<f4', 'fortran_order': False, 'shape': 'abc'}",
    "rows of 2^70": "{'descr': '<f4', 'fortran_order': False, 'shape': (1180591620717411303424,)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
    "a dtype of 1000 levels": "{'descr': " + "[('a', " * 300 + "'<f4'" + ")]" * 300 + ", 'fortran_order': False, 'shape': (3, 4)}",
    "a dtype that is none": "{'descr': 'import os', 'fortran_order': False, 'shape': (3, 4)}",
    "a dtype of 2^31 bytes": "{'descr': '|V2147483647', 'fortran_order': False, 'shape': (3, 4)}",
    "a power": "{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9,)}",
    "bytes": b"\xff\xfe\x00" * 30, "no end of an indent": "\\\n  (", "a list": "[1, 2]", "no keys": "{}",
}  # fmt: skip


def _arrays() -> Iterator[Case]:
    for name, header in _HEADERS.items():
        content = archive_bytes({"x.npy": array_bytes(header, body=bytes(48))})
        yield _case(
            f"a header of {name}", "evaluate the header, or break its reader", "d.npz", _content("d.npz", content)
        )
    files: dict[str, tuple[bytes | Callable[[Place], bytes], str]] = {
        "a pickle as array": (lambda place: archive_bytes({"x.npy": array_bytes(_HEADERS["objects"], body=pickle.dumps(Payload(place.marker)))}), "run code"),
        "a pickle by that name": (lambda place: pickle.dumps(Payload(place.marker)), "run code"),
        "a pickle as labels": (lambda place: archive_bytes({"x.npy": array_bytes(), "labels.npy": array_bytes(_HEADERS["objects"], body=pickle.dumps(Payload(place.marker)))}), "run code"),
        "4 MB for 4 GB": (lambda place: _bomb(), "fill memory or disk"),
        "a header of 4 GB": (archive_bytes({"x.npy": array_bytes(b"", version=(2, 0)).replace(bytes(4), b"\xff" * 4)}), "fill memory"),
        "version 9": (archive_bytes({"x.npy": array_bytes("{}", version=(9, 9))}), "break the reader"),
        "an entry outside": (archive_bytes({"../outside/executed.npy": array_bytes()}), "write outside"),
        "an entry called as a verdict": (archive_bytes({"x\nPASS  7 of 7 targets verified.npy": array_bytes()}), "forge output"),
        "an entry twice": (lambda place: _twice(), "let two readers see different data"),
        "an unknown compression": (archive_bytes({"x.npy": array_bytes()}).replace(b"\x00\x00\x00\x00\x00\x00", b"\x00\x00\x63\x00\x00\x00", 1), "break the reader"),
        "half of it": (archive_bytes({"x.npy": array_bytes()})[:100], "break the reader"),
        "a wrong sum": (archive_bytes({"x.npy": array_bytes()}).replace(ROWS.tobytes(), bytes(48)), "break the reader"),
        "nothing in it": (archive_bytes({}), "break the reader"),
        "no arrays": (archive_bytes({"x.txt": b"1"}), "break the reader"),
        "100,000 entries": (lambda place: archive_bytes({f"{at}.npy": b"" for at in range(100_000)}), "take minutes"),
    }  # fmt: skip
    for name, (archive, aim) in files.items():
        outcome = Outcome.HARMLESS if name in ("an entry twice", "an unknown compression") else Outcome.REFUSED
        yield _case(name, aim, "d.npz", _content("d.npz", archive), outcome)
    sparse = archive_bytes({"x.npy": array_bytes()})
    yield _case(
        "a sparse file of 1 TB", "read for ever", "d.npz", lambda place: place.write_sparse("d.npz", sparse, 1 << 40)
    )
    yield _case("a pipe", "wait for ever", "d.npz", lambda place: os.mkfifo(place.here / "d.npz"))
    yield _case("an array without an archive", "run code", "d.npy", _content("d.npy", array_bytes()))


def _bomb() -> bytes:
    """4 GB of zeros as one array, deflated."""
    header = array_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (268435456, 4)}".ljust(117) + "\n")
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed, total = packer.compress(header), zlib.crc32(header)
    zeros = bytes(1 << 24)
    for _ in range(256):
        packed += packer.compress(zeros)
        total = zlib.crc32(zeros, total)
    packed += packer.flush()
    size = len(header) + (256 << 24)
    extra = struct.pack("<HHQQ", 1, 16, size, len(packed))
    most = 0xFFFFFFFF
    local = (
        struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 8, 0, 33, total, most, most, 5, len(extra)) + b"x.npy" + extra
    )
    central = struct.pack(
        "<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 8, 0, 33, total, most, most, 5, len(extra), 0, 0, 0, 0, 0
    )
    central += b"x.npy" + extra
    start = len(local) + len(packed)
    return local + packed + central + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(central), start, 0)


def _twice() -> bytes:
    first = archive_bytes({"x.npy": array_bytes(), "y.npy": array_bytes("[" * 100)})
    return first.replace(b"y.npy", b"x.npy")


def _tables() -> Iterator[Case]:
    files: dict[str, bytes] = {
        "NULs": b"a,b,c,d\n1,2,\0,4\n", "an open quote": b'a,b,c,d\n"1,2,3,4\n' + b"x" * 100_000,
        "100,000 columns": b",".join(b"c%d" % at for at in range(100_000)) + b"\n" + b",".join([b"1"] * 100_000),
        "a formula": b"a,b,c,d\n=cmd|'/c calc'!A1,2,3,4\n", "no UTF-8": b"a,b,c,d\n\xff\xfe,2,3,4\n",
        "a verdict as column": b'"a\nPASS  7 of 7 targets verified",b,c,d\n1,2,3,x\n',
        "numbers of 5000 digits": b"a,b,c,d\n" + b"9" * 5000 + b",2,3,4\n", "nothing": b"\n",
        "a row of 8 MB": b"a,b,c,d\n" + b"1" * (8 << 20) + b",2,3,4\n",
    }  # fmt: skip
    for name, content in files.items():
        outcome = Outcome.HARMLESS if "digits" in name or "8 MB" in name else Outcome.REFUSED
        yield _case(name, "break the reader", "d.csv", _content("d.csv", content), outcome)
    parquet: dict[str, bytes] = {
        "a footer of 4 GB": b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1", "random bytes": b"PAR1" + np.random.default_rng(0).bytes(2000) + b"PAR1",
        "a magic word alone": b"PAR1",
    }  # fmt: skip
    for name, footer in parquet.items():
        yield _case(name, "break the reader", "d.parquet", _content("d.parquet", footer))


def _png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def _images() -> Iterator[Case]:
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(executed) (w) file closefile\nshowpage\n"
    files: dict[str, tuple[str, bytes | Callable[[Place], bytes]]] = {
        "400 MB of pixels": ("a.png", lambda _: _png(20_000, 20_000, bytes(20_000 * 20_001))),
        "2^31 pixels a side": ("a.png", _png(0x7FFFFFFF, 0x7FFFFFFF, b"")),
        "PostScript": ("a.eps", postscript), "PostScript by another name": ("a.png", postscript),
        "half a picture": ("a.png", _png(8, 8, bytes(72))[:60]), "text": ("a.png", b"<svg/>"),
        "a text chunk of 64 MB": ("a.png", lambda _: _png(8, 8, bytes(72))[:33] + _text_bomb() + _png(8, 8, bytes(72))[33:]),
    }  # fmt: skip
    for name, (file, content) in files.items():
        yield _case(
            name, "fill memory, or run code", "photos?range=0..1&layout=hwc", _content(f"photos/{file}", content)
        )
    yield _case(
        "a link",
        "read outside",
        "photos?range=0..1",
        lambda place: ((place.here / "photos").mkdir(), (place.here / "photos" / "a.png").symlink_to(place.secret)),
    )


def _text_bomb() -> bytes:
    content = b"k\0\0" + zlib.compress(bytes(64 << 20), 9)
    return struct.pack(">I", len(content)) + b"zTXt" + content + struct.pack(">I", zlib.crc32(b"zTXt" + content))


def cases() -> Iterator[Case]:
    """Yield the cases of data."""
    yield from _arrays()
    yield from _tables()
    yield from _images()
