"""HTTP as no library writes it: cut and garbled requests, wrong lengths, bombs, tensors that lie about their size."""

from __future__ import annotations

import gzip
import random
import re
import select
import socket
import time
import zlib
from collections.abc import Callable

from fuzzed_server import ANSWER_S, FuzzedServer, Outcomes

_PATIENCE_S = 0.05  # for the answer to a request that may be incomplete, before this side stops sending
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_RARE = 200  # one of so many requests is large
_LARGE_BYTES = 60 << 20
_VALUES = [
    "null", "true", "[]", "{}", '""', '"a"', '"\\ud800"', '"\\u0000"', "NaN", "-NaN", "Infinity", "-Infinity", "Inf",
    "1e999", "1e39", "-0.0", "0", "-1", "11", str(1 << 31), str(1 << 63), str(1 << 64), "1" * 400, "1" * 5000, "1.5",
    "[[1]]", '{"b64":"AAAA"}', '{"b64":1}', "[" * 65 + "1" + "]" * 65, "[" * 900 + "]" * 900, "[" * 9000,
    '{"x":' * 500 + "1" + "}" * 500, "[null]", "[1,[2]]", "[1,true]", '["a",1]', "01", "+1", ".5", "1.", "tru", '"\n"',
    "'a'", "/**/1",
]  # fmt: skip
_NUMBERS = [
    b"0", b"-1", b"1", b"7", b"18446744073709551616", b"9" * 30, b"1e3", b"0x10", b"+5", b" 5", b"", b"5,5", b"\xff",
]  # fmt: skip
_FIELDS = [
    b"Content-Length", b"Transfer-Encoding", b"Content-Encoding", b"Inference-Header-Content-Length", b"Expect",
    b"Connection", b"Upgrade", b"Accept-Encoding", b"Host", b"Authorization", b"X" * 5000,
]  # fmt: skip
_WORDS = [
    b"chunked", b"gzip", b"deflate", b"identity", b"br", b"gzip, gzip", b"100-continue", b"close", b"keep-alive",
    b"websocket", b"Upgrade, HTTP2-Settings", b"h2c", b"gzip;q=0", b"gzip;q=a", b"\x00", b"a" * 20_000, b"\xc3\xa9",
    *_NUMBERS,
]  # fmt: skip
_TENSOR_CHANGES = {
    "32": ["32", "31", "0", "-1", "33", "1e2", str(1 << 62), "null", '"32"', "true"],
    "[1,8]": ["[8]", "[8,1]", "[0,8]", "[-1,8]", f"[{1 << 40},8]", "[]", "[1.0,8]", "[true,8]", "null",
              "[1" + ",1" * 70 + "]"],
    "FP32": ["FP16", "BOOL", "BYTES", "INT64", "FP64", "BF16", "fp32", ""],
    '"x"': ['"y"', '""', "null", '"\\ud800"'],
}  # fmt: skip
# What a large body repeats, its beginning and its end.
_BOMBS = [
    ("{},", '{"instances":[', "{}]}"), ("[],", '{"inputs":[', "[]]}"), ("[", '{"inputs":', ""),
    ("0,", '{"inputs":[', "0]}"), ('"a",', '{"inputs":[', "0]}"), ('{"x":[0]},', '{"examples":[', "0]}"),
    ("NaN,", '{"inputs":[', "0]}"), ("1", '{"inputs":', "}"), (" ", "{", "}"), ("{},", '{"inputs":[', ""),
    ("1.25,", '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,8],"data":[', "0]}]}"),
    ('{"name":"x","datatype":"FP32","shape":[0],"data":[]},', '{"inputs":[', "{}]}"),
]  # fmt: skip
_INSERTS = ["%", "%00", "%ff", "//", "/..", "?", "#", ":", "\x7f", "\xe9", "", " ", "%2f", "a" * 9000]
_ROW = '{"name":"x","datatype":"FP32","shape":[1,8],"data":[1,2,3,4,5,6,7,8]}'
_BINARY = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1,8],"parameters":{"binary_data_size":32}}]}'
_BODIES = {
    "/v1/models/m:predict": ['{"instances":[[1,2,3,4,5,6,7,8]]}', '{"inputs":{"x":[[1,2,3,4,5,6,7,8]]}}'],
    "/v1/models/n:predict": ['{"instances":[{"ids":[1,2,3,4],"keep":[true,false,true,true]}],"signature_name":""}'],
    "/v1/models/m:classify": ['{"examples":[{"x":[1,2,3,4,5,6,7,8]}],"context":{"x":[1,2.5]}}'],
    "/v1/models/r:regress": ['{"examples":[{"x":[1,2,3,4,5,6,7,8]}]}'],
    "/v2/models/m/infer": [
        f'{{"id":"1","inputs":[{_ROW}],"outputs":[{{"name":"output","parameters":{{"binary_data":true}}}}]}}'
    ],
    "/v2/models/n/infer": [
        '{"inputs":[{"name":"ids","datatype":"INT64","shape":[1,4],"data":[1,2,3,4]},'
        '{"name":"keep","datatype":"BOOL","shape":[1,4],"data":[true,false,true,true]}]}'
    ],
    "/v2/repository/index": ['{"ready":true}'],
    "/v2/repository/models/other/load": ['{"parameters":{"a":1}}'],
}
_PATHS = [
    "/v1/models/m",
    "/v1/models/m/metadata",
    "/v2",
    "/v2/models/m/stats",
    "/healthz",
    "/monitoring/prometheus/metrics",
]


class MutatingClient:
    """Sends requests that it has made wrong. Any answer will do but a late one, and one that blames the server."""

    def __init__(self, server: FuzzedServer, seed: int, outcomes: Outcomes) -> None:
        self._address = server.http.split(":")[0], int(server.http.split(":")[1])
        self._rng = random.Random(seed)  # noqa: S311
        self._outcomes = outcomes
        self._kinds: list[Callable[[], bytes]] = [
            self._values,
            self._values,
            self._bytes,
            self._fields,
            self._tensors,
            self._paths,
        ]

    def ask(self, count: int) -> None:
        """Send `count` requests."""
        for number in range(count):
            make = self._bomb if number % _RARE == _RARE - 1 else self._rng.choice(self._kinds)
            self._send(make.__name__.strip("_"), make())

    def _send(self, kind: str, data: bytes) -> None:
        start = time.monotonic()
        reply = b""
        with socket.create_connection(self._address, timeout=ANSWER_S) as link:
            try:
                link.sendall(data)
                if not select.select([link], [], [], ANSWER_S if kind == "bomb" else _PATIENCE_S)[0]:
                    link.shutdown(socket.SHUT_WR)
                    start = time.monotonic()  # only now is it whole
                reply = link.recv(1 << 16)
            except ConnectionError:
                reply = b""  # the server may close before it has read all
            except TimeoutError:
                self._outcomes.add_fault(f"{kind}: no answer, and no end of the connection", data)
        match = _STATUS.match(reply)
        status = match[1].decode() if match else "closed" if not reply else "no HTTP"
        seconds = time.monotonic() - start
        self._outcomes.add(kind, status, seconds)
        if seconds > ANSWER_S:
            self._outcomes.add_fault(f"{kind}: answered after {seconds:.1f} s", data)
        if status == "no HTTP" or (status.startswith("5") and status not in {"501", "505"}):
            self._outcomes.add_fault(f"{kind}: {reply[-300:]!r}", data)

    def _request(
        self, path: str, body: bytes, fields: list[tuple[bytes, bytes]] | None = None, method: str = "POST"
    ) -> bytes:
        lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: localhost"]
        lines += [name + b": " + value for name, value in fields or []]
        if not any(name.lower() in {b"content-length", b"transfer-encoding"} for name, _ in fields or []):
            lines.append(b"Content-Length: %d" % len(body))
        return b"\r\n".join([*lines, b"", body])

    def _choose(self) -> tuple[str, bytes]:
        path = self._rng.choice([*_BODIES])
        return path, self._rng.choice(_BODIES[path]).encode()

    def _values(self) -> bytes:
        """Replace values of a JSON document: one of them, or several."""
        path, body = self._choose()
        for _ in range(self._rng.choice([1, 1, 2, 4])):
            places = [*re.finditer(rb'"[^"]*"|-?[0-9.]+|true|false|\[[^][]*\]|\{[^{}]*\}', body)]
            if not places:
                break
            place = self._rng.choice(places)
            body = body[: place.start()] + self._rng.choice(_VALUES).encode() + body[place.end() :]
        return self._request(path, body)

    def _bytes(self) -> bytes:
        """Change bytes anywhere in a request."""
        path, body = self._choose()
        data = bytearray(self._request(path, body))
        for _ in range(self._rng.choice([1, 1, 2, 8, 50])):
            at, other = self._rng.randrange(len(data) or 1), self._rng.randrange(len(data) or 1)
            match self._rng.randrange(5):
                case 0:
                    data[at : at + 1] = self._rng.randbytes(1)
                case 1:
                    del data[min(at, other) : min(at, other) + self._rng.choice([1, 2, 20])]
                case 2:
                    data[at:at] = data[other : other + self._rng.choice([1, 8, 64])]
                case 3:
                    data[at:at] = self._rng.randbytes(self._rng.choice([1, 4, 100]))
                case _:
                    del data[at:]
        return bytes(data)

    def _fields(self) -> bytes:
        """Add fields of the header that do not fit the body, or each other."""
        path, body = self._choose()
        pick = self._rng.choice
        fields = [(pick(_FIELDS), pick(_WORDS)) for _ in range(pick([1, 1, 2, 3, 60]))]
        if self._rng.random() < 0.2:
            body = pick([gzip.compress(body), zlib.compress(body), gzip.compress(body)[:-3], gzip.compress(body) * 2])
            fields.append((b"Content-Encoding", pick([b"gzip", b"deflate", b"GZIP"])))
        if self._rng.random() < 0.2:
            size = pick([b"%x" % len(body), b"%x" % (len(body) - 1), b"ffffffffffffffff", b"-1", b"1;a=b", b"", b"g"])
            body = size + b"\r\n" + body + b"\r\n0\r\n" + pick([b"\r\n", b"", b"X: y\r\n\r\n"])
            fields.append((b"Transfer-Encoding", b"chunked"))
        return self._request(path, body, fields)

    def _tensors(self) -> bytes:
        """Put tensors behind the JSON whose sizes, datatypes or lengths are wrong."""
        pick = self._rng.choice
        text = _BINARY
        for old, choices in _TENSOR_CHANGES.items():
            if self._rng.random() < 0.3:
                text = text.replace(old, pick(choices))
        tail = self._rng.randbytes(pick([32, 32, 32, 31, 33, 0, 64]))
        length = pick([b"%d" % len(text)] * 4 + _NUMBERS + [b"%d" % (len(text) + pick([-1, 1, 32]))])
        return self._request("/v2/models/m/infer", text.encode() + tail, [(b"Inference-Header-Content-Length", length)])

    def _paths(self) -> bytes:
        """Ask for other paths, by other methods, or several at once."""
        pick = self._rng.choice
        path = pick([*_BODIES, *_PATHS])
        for _ in range(pick([0, 1, 1, 2])):
            at = self._rng.randrange(len(path))
            path = path[:at] + pick(_INSERTS) + path[at + pick([0, 1]) :]
        method = pick(
            ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "CONNECT", "get", "A B", ""]
        )
        return self._request(path, b"", [], method) * pick([1, 1, 1, 3])

    def _bomb(self) -> bytes:
        """Make a large body, which may unfold into much more."""
        unit, start, end = self._rng.choice(_BOMBS)
        path = self._rng.choice(["/v1/models/m:predict", "/v1/models/m:classify", "/v2/models/m/infer"])
        body = (start + unit * (_LARGE_BYTES // len(unit)) + end).encode()
        if self._rng.random() < 0.5:
            return self._request(path, body)
        twice = body if self._rng.random() < 0.5 else body * 4  # more than the server takes
        return self._request(path, gzip.compress(twice, 1), [(b"Content-Encoding", b"gzip")])
