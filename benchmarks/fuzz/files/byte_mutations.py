"""Mutations of bytes and texts that keep some of a file's structure: lengths, JSON nodes, protobuf fields.

Every function takes a random generator first: the same generator gives the same mutation.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Rng: TypeAlias = random.Random
Mutation: TypeAlias = Callable[[Rng, bytes], bytes]

SIZES = (0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
          0xFFFFFFFE, 0xFFFFFFFF, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
_MOST_BYTES = 1 << 20  # of what a mutation makes: copies of copies would grow
_MOST_TEXT = 1 << 16  # characters that are taken apart into words, which takes a microsecond each
_JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, float("nan"), float("inf"), 1 << 31, 1 << 63, 1 << 70, 10**400,
    "", "a", "\x00", "\ud800", "a\nb", "\x1b[2J", "..", "../../x", "/etc/passwd", "é" * 300, "x" * 5000, "float32",
    "batch", [], {}, [[]], [None], [1, 2, 3], {"a": 1}, {"": None}, [0] * 70,
)  # fmt: skip
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
                number = struct.pack(rng.choice("<>") + "Q", rng.choice(SIZES) + rng.choice((0, 0, 1)) & (1 << 64) - 1)
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
        changed = rng.choice((number + rng.choice((-8, -4, -1, 1, 4, 8, 64)), rng.choice(SIZES), number << 8))
        struct.pack_into("<I", content, at, changed & 0xFFFFFFFF)
    return bytes(content)


def mutate_text(rng: Rng, text: str, words: Sequence[str] = ()) -> str:
    """Change a text: words of its own language, lines twice or gone, odd characters."""
    text = text[:_MOST_TEXT]
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
    return rng.choice((value + 1, value - 1, -value, value * 1000, value / 1000 if abs(value) < 1e9 else 0.5,
                       str(value)[:4000]))  # fmt: skip


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
            fields[at] = number, kind, rng.choice((value + 1, value - 1, rng.choice(SIZES), rng.randrange(64)))
        case _:
            fields[at] = number, kind, mutate_bytes(rng, value) if kind == 2 else rng.randbytes(len(value))
    return _encoded(fields)[:_MOST_BYTES]
