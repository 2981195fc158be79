"""Mutations of containers and of what lies in them: zips, arrays of numpy, safetensors, PNG."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

from byte_mutations import SIZES, Rng, mutate_bytes, mutate_encoded_text, mutate_json, mutate_text

MemberMutation: TypeAlias = Callable[[Rng, str, bytes], bytes]

_HEADERS = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08")
_NAMES = ("../x", "/abs", "a\\b", "A/B", "", ".", "x\x00y", "é", "data.pkl", "con", "n" * 300, "a/../b", "extra/x")


def mutate_zip(rng: Rng, data: bytes, members: MemberMutation) -> bytes:
    """Change a member with `members` and pack the archive again, change its list of files, or its bytes."""
    choice = rng.random()
    if choice < 0.1:
        return mutate_bytes(rng, data)
    if choice < 0.25:
        return _mutate_header(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist()]
    methods: dict[str, int] = {}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(files))
        name, content = files[at]
        if choice < 0.75:
            files[at] = name, members(rng, name, content)
        else:
            _mutate_list(rng, files, at, methods, members)
    return pack(files, methods)


def _mutate_list(
    rng: Rng, files: list[tuple[str, bytes]], at: int, methods: dict[str, int], members: MemberMutation
) -> None:
    """Change the list of files at a place: names, repetitions, ways of packing."""
    name, content = files[at]
    match rng.randrange(7):
        case 0 if len(files) > 1:
            del files[at]
        case 1:
            files.append((name, members(rng, name, content)))
        case 2:
            inner = f"{name.rpartition('/')[0]}/{rng.choice(_NAMES)}"
            files[at] = rng.choice((name.upper(), inner, rng.choice(_NAMES) or "x")), content
        case 3:
            files[at] = name, rng.choice(files)[1]
        case 4:
            methods[name] = zipfile.ZIP_DEFLATED
        case 5:
            files[at], methods[name] = (name, content + bytes(1 << 21)), zipfile.ZIP_DEFLATED
        case _:
            files.append((f"{name}{rng.choice(('', '/', 'x', '.so', '.pkl', '.json'))}", b""))


def pack(files: Sequence[tuple[str, bytes]], methods: dict[str, int] | None = None) -> bytes:
    """Return a zip of these files, which may have a name twice."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name.replace("\x00", "?") or "x")
            entry.compress_type = (methods or {}).get(name, zipfile.ZIP_STORED)
            archive.NameToInfo.pop(entry.filename, None)  # zipfile warns of a name twice
            archive.writestr(entry, content)
    return out.getvalue()


def _mutate_header(rng: Rng, data: bytes) -> bytes:
    """Change a field in a header of a zip."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        header = rng.choice(_HEADERS)
        places = [match.start() for match in re.finditer(re.escape(header), data)]
        if not places:
            continue
        at = rng.choice(places) + rng.randrange(4, 46)
        size = rng.choice((1, 2, 4))
        old = int.from_bytes(content[at : at + size], "little")
        new = rng.choice((old + 1, old - 1, old ^ 1 << rng.randrange(8 * size), rng.choice(SIZES)))
        content[at : at + size] = (new & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(content)


def mutate_npy(rng: Rng, data: bytes) -> bytes:
    """Change an array of numpy: mostly its header, a Python literal, with the length that belongs to it."""
    if rng.random() < 0.3 or data[:6] != b"\x93NUMPY" or len(data) < 10:
        return mutate_bytes(rng, data)
    size = struct.unpack_from("<H", data, 8)[0]
    words = ("'descr'", "'shape'", "'<f4'", "'|O'", "'V8'", "(1,)", "(-1,)", "(1<<60,)", "[('a','<f4')]", "True", "()")
    header = mutate_text(rng, data[10 : 10 + size].decode("latin-1"), words).encode(errors="replace")[:60_000]
    length = struct.pack("<H", len(header)) if rng.random() < 0.9 else rng.randbytes(2)
    return data[:6] + bytes((rng.choice((1, 1, 1, 2, 3)), 0)) + length + header + data[10 + size :]


def mutate_safetensors(rng: Rng, data: bytes) -> bytes:
    """Change the header of a safetensors file, a JSON, with the length that belongs to it."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, data)
    size = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else 0
    header = mutate_json(rng, data[8 : 8 + size])
    length = len(header) if rng.random() < 0.9 else rng.choice(SIZES) & (1 << 64) - 1
    return struct.pack("<Q", length) + header + data[8 + size :]


def mutate_png(rng: Rng, data: bytes) -> bytes:
    """Change a chunk of a PNG, with the checksum that belongs to it."""
    if rng.random() < 0.4 or data[:4] != b"\x89PNG":
        return mutate_bytes(rng, data)
    chunks, at = [], 8
    while at + 12 <= len(data):
        size = struct.unpack_from(">I", data, at)[0]
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    place = rng.randrange(len(chunks))
    kind, body = chunks[place]
    match rng.randrange(4):
        case 0:
            chunks.insert(rng.randrange(len(chunks)), (kind, body))
        case 1:
            del chunks[place]
        case 2:
            chunks[place] = rng.choice((b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"zTXt", b"iCCP", b"acTL")), body
        case _:
            chunks[place] = kind, mutate_bytes(rng, body)
    parts = (struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
             for kind, body in chunks)  # fmt: skip
    return data[:8] + b"".join(parts)


def mutate_member(rng: Rng, name: str, content: bytes) -> bytes:
    """Change a member of an archive by what its name says of it."""
    if name.endswith(".json") and content[:1] in (b"{", b"["):
        return mutate_json(rng, content)
    if name.endswith((".py", ".json", "version", "byteorder")):
        return mutate_encoded_text(rng, content, TORCHSCRIPT_WORDS)
    if content[:6] == b"\x93NUMPY":
        return mutate_npy(rng, content)
    return mutate_bytes(rng, content)


TORCHSCRIPT_WORDS = (
    "torch", "ops", "aten", "prim", "save", "from_file", "class", "def", "self", "Tensor", "List[int]", "lambda", "if",
    "while", "return", "__setstate__", "__getattr__", "getattr", "annotate", "uninitialized", "CONSTANTS.c0", "[0]",
    "1.", "None", "import", "in", "for", ": ", "**", "@", "...", "f'x'", "torch.add", "torch.save", "_0", "->",
)  # fmt: skip
