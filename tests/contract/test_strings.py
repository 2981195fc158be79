"""`transload serve` as a person starts it, over a SavedModel that takes and gives strings."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transload import convert
from transload.models.errors import BadRequest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("strings") / "words"
    maker = Path(__file__).parent / "strings_model.py"
    subprocess.run([sys.executable, str(maker), str(path)], check=True, capture_output=True, timeout=300)
    return path


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    argv = [sys.executable, "-P", "-m", "transload", "serve", str(folder), "--grpc-port", "0", "--rest-port", "0"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout
    title = server.stdout.readline()
    assert "http://" in title, server.communicate()
    yield f"http://{title.split('http://')[1].split('/')[0]}"
    server.terminate()
    server.communicate()


def post(url: str, document: Any) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, json.dumps(document).encode(), timeout=60) as reply:
            return 200, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def png(size: int, colour: tuple[int, int, int]) -> bytes:
    rows = zlib.compress((b"\0" + bytes(colour) * size) * size)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
              for kind, data in parts]  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_words_are_looked_up(url: str) -> None:
    predict = f"{url}/v1/models/model:predict"
    rows = [{"id": 1, "upper": "CAT"}, {"id": -1, "upper": {"b64": "/w=="}}]
    assert post(predict, {"instances": ["cat", {"b64": "/w=="}]}) == (200, {"predictions": rows})
    many = ["cat", "dog"] * 100_000  # are read in the model's process
    assert post(predict, {"inputs": many})[1]["outputs"]["id"] == [1, 2] * 100_000
    tensor = {"name": "text", "datatype": "BYTES", "shape": [2], "data": ["dog", "ä"]}
    status, document = post(f"{url}/v2/models/model/infer", {"inputs": [tensor]})
    assert (status, [row["data"] for row in document["outputs"]]) == (200, [[2, -1], ["DOG", "ä"]])


def test_examples_are_parsed_in_the_graph(url: str) -> None:
    classify = f"{url}/v1/models/model:classify"
    rows: list[dict[str, Any]] = [{"x": [1.0, 2.0], "word": "cat"}, {"x": [0.5, 0.0]}]
    body = {"signature_name": "classes", "examples": rows}
    results = [[["cat", 9.0], ["other", 3.0]], [["", 0.5], ["other", 1.0]]]
    assert post(classify, body) == (200, {"results": results})
    assert len(post(classify, {**body, "examples": rows * 20_000})[1]["results"]) == 40_000
    status, document = post(classify, {**body, "examples": [{"word": "cat"}]})
    assert status == 400
    assert "Feature: x (data type: float) is required" in document["error"]
    assert post(f"{url}/v1/models/model:predict", {"signature_name": "classes", "instances": ["no example"]})[0] == 400
    assert post(classify, body)[0] == 200


@pytest.mark.parametrize("size", [2, 300])
def test_images_come_in_base64(size: int, url: str) -> None:
    image = {"b64": base64.b64encode(png(size, (10, 20, 30))).decode()}
    body = {"signature_name": "colour", "instances": [{"image_bytes": image}] * 2}
    assert post(f"{url}/v1/models/model:predict", body) == (200, {"predictions": [[10, 20, 30]] * 2})
    assert post(f"{url}/v1/models/model:predict", {**body, "instances": ["no image"]})[0] == 400


def test_no_copy_is_made(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as refused:
        convert(str(folder), to=["onnx"], out=tmp_path / "out")
    assert str(refused.value) == (
        f"{folder}: upper is text, and no copy can be made: the other formats do not carry it\n"
        f"  fix: serve it as it is: transload serve {folder}; "
        "or save a signature that takes and gives numbers or booleans"
    )
