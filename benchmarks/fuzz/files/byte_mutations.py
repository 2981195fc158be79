"""Mutations of bytes and texts that keep some of a file's structure: lengths, zip members, JSON nodes, protobuf fields.

Every function takes a random generator first: the same generator gives the same mutation.
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Rng: TypeAlias = random.Random
Mutation: TypeAlias = Callable[[Rng, bytes], bytes]

_SIZES = (0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
          0xFFFFFFFE, 0xFFFFFFFF, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
_MOST_BYTES = 1 << 20  # of what a mutation makes: copies of copies would grow
_HEADERS = (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08")
_JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, float("nan"), float("inf"), 1 << 31, 1 << 63, 1 << 70, 10**400,
    "", "a", "\x00", "\ud800", "a\nb", "\x1b[2J", "..", "../../x", "/etc/passwd", "é" * 300, "x" * 5000, "float32",
    "batch", [], {}, [[]], [None], [1, 2, 3], {"a": 1}, {"": None}, [0] * 70,
)  # fmt: skip
_NAMES = ("../x", "/abs", "a\\b", "A/B", "", ".", "x\x00y", "é", "data.pkl", "con", "n" * 300, "a/../b", "extra/x")
_TEXT_PIECES = (
    "", "\n", "\t", " ", "\x00", "\ufeff", "\u2028", "\ud800", "'", '"', "\\", "[", "]", "{", "}", "(", ")", "=", ",",
    ":", "..", "-", "+", "0", "-1", "1e999", "nan", "9" * 30, "9" * 5000, "[" * 300, "(" * 300, "{" * 300, "é", "٣",
    "²", "\x1b[2J", "true", "null", "#", "%", "&", "?", "/", "~", "*", "a" * 3000,
)  # fmt: skip


def mutate_bytes(rng: Rng, data: bytes) -> bytes:
    """Change bytes anywhere: flips, numbers, copies of parts, cuts."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8, 30))):
        if not content:
            return bytes(rng.randbytes(rng.randrange(40)))
        at, other = rng.randrange(len(content)), rng.randrange(len(content))
        match rng.randrange(8):
            case 0:
                content[at] ^= 1 << rng.randrange(8)
            case 1:
                content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                number = struct.pack(rng.choice("<>") + "Q", rng.choice(_SIZES) + rng.choice((0, 0, 1)) & (1 << 64) - 1)
                size = rng.choice((2, 4, 8))
                content[at : at + size] = number[:size]
            case 3:
                size = rng.choice((1, 4, 16, 100))
                content[at : at + size] = content[other : other + size]
            case 4:
                content[at:at] = content[other : other + rng.choice((1, 8, 64, 1000))]
            case 5:
                del content[at : at + rng.choice((1, 2, 8, 100))]
            case 6:
                content[at:at] = rng.randbytes(rng.choice((1, 4, 40)))
            case _:
                del content[at if rng.random() < 0.3 else max(at, other) :]
    return bytes(content[:_MOST_BYTES])


def mutate_numbers(rng: Rng, data: bytes) -> bytes:
    """Change aligned numbers of 32 bits by a little or for good: the offsets and lengths of a FlatBuffer."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 10))):
        if len(content) < 8:
            break
        at = rng.randrange(len(content) // 4) * 4
        if at + 4 > len(content):
            continue
        (number,) = struct.unpack_from("<I", content, at)
        changed = rng.choice((number + rng.choice((-8, -4, -1, 1, 4, 8, 64)), rng.choice(_SIZES), number << 8))
        struct.pack_into("<I", content, at, changed & 0xFFFFFFFF)
    return bytes(content)


def mutate_text(rng: Rng, text: str, words: Sequence[str] = ()) -> str:
    """Change a text: words of its own language, lines twice or gone, odd characters."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        spans = [match.span() for match in re.finditer(r"[\w.]+|[^\w\s]|\s+", text)]
        start, end = rng.choice(spans) if spans else (0, 0)
        lines = text.split("\n")
        match rng.randrange(7):
            case 0 | 1:
                piece = rng.choice(words) if words and rng.random() < 0.7 else rng.choice(_TEXT_PIECES)
                text = text[:start] + piece + text[end if rng.random() < 0.6 else start :]
            case 2:
                text = text[:start] + text[end:]
            case 3:
                other, stop = rng.choice(spans) if spans else (0, 0)
                text = text[:start] + text[other:stop] + text[end:]
            case 4:
                lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
                text = "\n".join(lines)
            case 5:
                del lines[rng.randrange(len(lines))]
                text = "\n".join(lines)
            case _:
                text = text[:start] + (text[start:end] or "x") * rng.choice((2, 3, 50)) + text[end:]
    return text[:_MOST_BYTES]


def mutate_encoded_text(rng: Rng, data: bytes, words: Sequence[str] = ()) -> bytes:
    """Change a text in UTF-8, sometimes into what is none."""
    text = mutate_text(rng, data.decode(errors="replace"), words).encode(errors="surrogatepass")
    return mutate_bytes(rng, text) if rng.random() < 0.1 else text


def mutate_document(rng: Rng, document: Any) -> Any:
    """Change nodes of a JSON document in place, and return it."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if not isinstance(document, dict | list):
            break
        places = [(None, None, document), *_nodes(document)]
        container, key, value = rng.choice(places)
        replacement = _changed(rng, value, [node for _, _, node in places])
        if container is None:
            document = replacement if rng.random() < 0.1 else document
        elif isinstance(container, dict) and rng.random() < 0.25:
            del container[key]
            if rng.random() < 0.6:
                container[rng.choice(("", "x", "\ud800", str(key).upper(), f"{key} ", *_keys(document)))] = value
        elif isinstance(container, list) and rng.random() < 0.25:
            if rng.random() < 0.5:
                del container[key]
            else:
                container[key:key] = [value] * rng.choice((1, 2, 70))
        else:
            container[key] = replacement
    return document


def _nodes(document: Any, most: int = 3000) -> list[tuple[Any, Any, Any]]:
    """Return the container, key and value of each node, at most so many."""
    nodes: list[tuple[Any, Any, Any]] = []
    pending = [document]
    while pending and len(nodes) < most:
        container = pending.pop()
        items = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in items:
            nodes.append((container, key, value))
            if isinstance(value, dict | list):
                pending.append(value)
    return nodes


def _keys(document: Any) -> list[str]:
    return [str(key) for container, key, _ in _nodes(document, 300) if isinstance(container, dict)]


def _changed(rng: Rng, value: Any, others: Sequence[Any]) -> Any:
    """Return another value in the place of one: odd, of another type, from elsewhere, or deeper."""
    choice = rng.randrange(8)
    if choice < 3:
        return json.loads(json.dumps(rng.choice(_JSON_VALUES)))
    if choice == 3:
        return json.loads(json.dumps(rng.choice(others)))
    if choice == 4:
        return [json.loads(json.dumps(value))]
    if isinstance(value, str):
        return mutate_text(rng, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{value!r:.100}"
    return rng.choice((value + 1, value - 1, -value, value * 1000, value / 1000 if abs(value) < 1e9 else 0.5, str(value)[:4000]))


def mutate_json(rng: Rng, data: bytes) -> bytes:
    """Change nodes of a JSON document, and sometimes its text."""
    choice = rng.random()
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):  # it was changed already
        choice = 0
    if choice < 0.15:
        return mutate_encoded_text(rng, data)
    if choice < 0.17:
        return rng.choice((b"[", b'{"a":')) * rng.choice((500, 5000, 50_000))
    text = json.dumps(mutate_document(rng, document), ensure_ascii=rng.random() < 0.7)
    if rng.random() < 0.05:
        text = text.replace("1", "9" * 5000, 1)
    if rng.random() < 0.05:  # a key twice: readers differ in which they take
        text = text.replace("{", '{"signature": 1, ', 1)
    return text.encode(errors="surrogatepass")


def mutate_protobuf(rng: Rng, data: bytes) -> bytes:
    """Change fields of protobuf messages at any depth; the lengths of those around them stay right."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = _mutate_message(rng, data, 0)
    return mutate_bytes(rng, data) if rng.random() < 0.1 else data


_Field: TypeAlias = tuple[int, int, Any]  # number, wire type, value


def _fields(data: bytes) -> list[_Field] | None:
    """Return the fields of a message; None where the bytes are none."""
    fields: list[_Field] = []
    at = 0
    while at < len(data):
        head = _varint(data, at)
        if head is None or not head[0] >> 3 or head[0] >> 3 > 600:
            return None
        number, kind, at = head[0] >> 3, head[0] & 7, head[1]
        if kind == 0:
            value = _varint(data, at)
            if value is None:
                return None
            fields.append((number, kind, value[0]))
            at = value[1]
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if at + size > len(data):
                return None
            fields.append((number, kind, data[at : at + size]))
            at += size
        elif kind == 2:
            length = _varint(data, at)
            if length is None or length[1] + length[0] > len(data):
                return None
            fields.append((number, kind, data[length[1] : sum(length)]))
            at = sum(length)
        else:
            return None
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Return a number and where it ends; None where it does not end."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None
        number |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return number, at
    return None


def _encoded_varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _encoded(fields: Sequence[_Field]) -> bytes:
    parts: list[bytes] = []
    for number, kind, value in fields:
        body = _encoded_varint(value) if kind == 0 else value
        length = _encoded_varint(len(value)) if kind == 2 else b""
        parts.append(_encoded_varint(number << 3 | kind) + length + body)
    return b"".join(parts)


def _mutate_message(rng: Rng, data: bytes, depth: int) -> bytes:
    fields = _fields(data)
    if not fields:
        return mutate_bytes(rng, data)
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    inner = kind == 2 and depth < 12 and _fields(value)
    if inner and rng.random() < 0.8:
        fields[at] = number, kind, _mutate_message(rng, value, depth + 1)
        return _encoded(fields)
    match rng.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields[at:at] = [fields[at]] * rng.choice((1, 2, 50))
        case 2:
            fields[at] = rng.choice((number + 1, number - 1 or 1, rng.randrange(1, 40))), kind, value
        case 3:
            other = rng.choice(fields)
            fields[at] = number, other[1], other[2]
        case 4 if kind == 2:  # in itself, as deep as no reader expects
            for _ in range(rng.choice((2, 20, 120))):
                value = _encoded([(number, 2, value)])
            fields[at] = number, kind, value[:_MOST_BYTES]
        case _ if kind == 0:
            fields[at] = number, kind, rng.choice((value + 1, value - 1, rng.choice(_SIZES), rng.randrange(64)))
        case _:
            fields[at] = number, kind, mutate_bytes(rng, value) if kind == 2 else rng.randbytes(len(value))
    return _encoded(fields)[:_MOST_BYTES]


def mutate_zip(rng: Rng, data: bytes, members: Callable[[Rng, str, bytes], bytes]) -> bytes:
    """Change a member with `members` and pack the archive again, change its list of files, or its bytes."""
    choice = rng.random()
    if choice < 0.1:
        return mutate_bytes(rng, data)
    if choice < 0.25:
        return _mutate_header(rng, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = [(name, archive.read(name)) for name in archive.namelist()]
    methods = {}
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(files))
        name, content = files[at]
        if choice < 0.75:
            files[at] = name, members(rng, name, content)
            continue
        match rng.randrange(7):
            case 0 if len(files) > 1:
                del files[at]
            case 1:
                files.append((name, members(rng, name, content)))
            case 2:
                folder = name.rpartition("/")[0]
                files[at] = rng.choice((name.upper(), f"{folder}/{rng.choice(_NAMES)}", rng.choice(_NAMES) or "x")), content
            case 3:
                files[at] = name, rng.choice(files)[1]
            case 4:
                methods[name] = zipfile.ZIP_DEFLATED
            case 5:
                files[at], methods[name] = (name, content + bytes(1 << 21)), zipfile.ZIP_DEFLATED
            case _:
                files.append((f"{name}{rng.choice(('', '/', 'x', '.so', '.pkl', '.json'))}", b""))
    return pack(files, methods)


def pack(files: Sequence[tuple[str, bytes]], methods: dict[str, int] | None = None) -> bytes:
    """Return a zip of these files, which may have a name twice."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name.replace("\x00", "?") or "x")
            entry.compress_type = (methods or {}).get(name, zipfile.ZIP_STORED)
            archive.filelist and archive.NameToInfo.pop(entry.filename, None)  # zipfile warns of a name twice
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
        new = rng.choice((old + 1, old - 1, old ^ 1 << rng.randrange(8 * size), rng.choice(_SIZES)))
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
    length = len(header) if rng.random() < 0.9 else rng.choice(_SIZES) & (1 << 64) - 1
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
