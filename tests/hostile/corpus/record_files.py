"""Hostile records: artifact.json, run.json and what lies beside them, and pipeline files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from .case import Case, Content, Outcome, Place, convert
from .data_files import archive_bytes, array_bytes
from .onnx_files import good_onnx

_FORGED = "y\nPASS  7 of 7 targets verified\n"


def artifact_record(**changes: Any) -> dict[str, Any]:
    """Return the record of the good ONNX model."""
    x, y = ({"name": name, "dtype": "float32", "shape": ["batch", size]} for name, size in (("x", 4), ("y", 3)))
    return {"target": "onnx", "signature": {"inputs": [x], "outputs": [y]}, **changes}


def write_artifact(place: Place, folder: str, record: Content | None = None) -> None:
    """Write an artifact's folder below `here`."""
    place.write(f"{folder}/model.onnx", good_onnx().SerializeToString())
    place.write(f"{folder}/artifact.json", json.dumps(artifact_record()) if record is None else record)


def _signature(**changes: Any) -> str:
    record = artifact_record()
    record["signature"]["inputs"][0].update(changes)
    return json.dumps(record)


_RECORDS: dict[str, str | bytes] = {
    "100,000 brackets": "[" * 100_000, "100,000 objects": '{"a":' * 100_000,
    "deep in the signature": json.dumps(artifact_record()).replace('"float32"', "[" * 5000 + "]" * 5000),
    "a list": "[]", "a number": "7", "null": "null", "a text": '"onnx"', "nothing": "", "no UTF-8": b"\xff\xfe\x00",
    "UTF-16": json.dumps(artifact_record()).encode("utf-16"), "a number of 5000 digits": '{"target": ' + "9" * 5000 + "}",
    "a target that is a list": json.dumps(artifact_record(target=["onnx"])),
    "a target that is a number": json.dumps(artifact_record(target=7)),
    "a signature that is a list": json.dumps(artifact_record(signature=[1, 2])),
    "a signature that is a text": json.dumps(artifact_record(signature="inputs")),
    "inputs that are a text": json.dumps(artifact_record(signature={"inputs": "x", "outputs": "y"})),
    "inputs that are numbers": json.dumps(artifact_record(signature={"inputs": [1], "outputs": [2]})),
    "a name that is a list": _signature(name=["x"]), "a name that is a number": _signature(name=7),
    "a dtype that is a list": _signature(dtype=["float32"]), "a shape that is a text": _signature(shape="abc"),
    "a shape of lists": _signature(shape=[["batch"], 4]), "a shape of floats": _signature(shape=[1.5, 4]),
    "a shape of null": _signature(shape=[None, 4]), "a shape of true": _signature(shape=[True, 4]),
    "a shape of 2^70": _signature(shape=["batch", 1 << 70]), "a shape of NaN": _signature(shape=[float("nan"), 4]),
    "bounds that are a text": _signature(bounds="batch"), "bounds of texts": _signature(bounds={"batch": ["a", "b"]}),
    "bounds of seven numbers": _signature(bounds={"batch": [1, 2, 3, 4, 5, 6, 7]}), "bounds of null": _signature(bounds={"batch": None}),
    "values that are a text": _signature(values="ab"), "values of lists": _signature(values=[[1], [2]]),
    "flex that is a number": json.dumps(artifact_record(flex=7)), "flex that is deep": json.dumps(artifact_record(flex=[[["a"]]])),
    "a path as target": json.dumps(artifact_record(target="../../outside/secret")),
}  # fmt: skip
_ODD: dict[str, Content] = {  # records that contradict the payload, or carry text that is not what it seems
    "an input called as a verdict": _signature(name=_FORGED), "an axis called as a verdict": _signature(shape=[_FORGED, 4]),
    "an input called as code": _signature(name="x=__import__('os').system('touch executed')"),
    "an axis called as code": _signature(shape=["__import__('os').system('touch executed')", 4]),
    "an input called as a path": _signature(name="../../outside/executed"),
    "other inputs than the payload": _signature(name="z"), "another rank than the payload": _signature(shape=[1] * 5000),
    "another format than the payload": json.dumps(artifact_record(target="tflite")),
    "another precision": json.dumps(artifact_record(target="onnx:int8")),
    "100,000 inputs": lambda: json.dumps(artifact_record(signature={"inputs": [{"name": f"x{at}", "dtype": "float32", "shape": [1]} for at in range(100_000)], "outputs": [{"name": "y", "dtype": "float32", "shape": [1]}]})),
}  # fmt: skip


def _artifacts() -> Iterator[Case]:
    words = ("validate", "a", "--against", "m.onnx", "--quiet")

    def artifact(record: Content) -> Callable[[Place], None]:
        def build(place: Place) -> None:
            place.write("m.onnx", good_onnx().SerializeToString())
            write_artifact(place, "a", record)

        return build

    for name, record in _RECORDS.items():
        yield Case(f"artifact.json/{name}", "raise a foreign error", artifact(record), words)
    for name, content in _ODD.items():
        yield Case(
            f"artifact.json/{name}", "forge output, or mislead the reader", artifact(content), words, Outcome.HARMLESS
        )
    for name in ("a name that is a number", "100,000 brackets", "a shape of lists", "a shape of true"):
        for command in (
            ("bench", "a", "--processes", "1", "--budget", "0s", "--quiet"),
            ("serve", "a", "--grpc-port", "0", "--rest-port", "0"),
            convert("a", "saved-model"),
        ):
            yield Case(
                f"artifact.json/{name}, by {command[0]}", "raise a foreign error", artifact(_RECORDS[name]), command
            )

    def payload(change: Callable[[Place], object]) -> Callable[[Place], None]:
        def build(place: Place) -> None:
            artifact(json.dumps(artifact_record()))(place)
            (place.here / "a" / "model.onnx").unlink()
            change(place)

        return build

    changes: dict[str, Callable[[Place], object]] = {
        "a linked payload": lambda place: (place.here / "a" / "model.onnx").symlink_to(place.secret),
        "no payload": lambda place: None, "a folder as payload": lambda place: (place.here / "a" / "model.onnx").mkdir(),
        "a pipe as payload": lambda place: os.mkfifo(place.here / "a" / "model.onnx"),
        "a record behind a link": lambda place: ((place.here / "a" / "artifact.json").unlink(), (place.here / "a" / "artifact.json").symlink_to(place.secret)),
    }  # fmt: skip
    for name, change in changes.items():
        yield Case(f"artifact.json/{name}", "read outside, or wait", payload(change), words)


def _results() -> Iterator[Case]:
    """run.json and latency.npz of a run's folder, for `report` and `serve`."""
    documents: dict[str, str | bytes] = {
        "100,000 brackets": "[" * 100_000, "a list": "[]", "a schema of text": '{"schema": "1"}', "nothing": "",
        "no UTF-8": b'{"a": "\xff"}', "a number of 5000 digits": '{"schema": ' + "9" * 5000 + "}", "null": "null",
        "artifacts that are numbers": '{"schema": 1, "artifacts": [1]}', "NaN": '{"schema": NaN}',
        "a verdict in a key": json.dumps({"schema": 1, _FORGED: 1}),
    }  # fmt: skip
    for name, content in documents.items():
        yield Case(
            f"run.json/{name}",
            "raise a foreign error",
            lambda place, content=content: place.write("r/run.json", content),
            ("report", "r"),
        )
    for name in ("100,000 brackets", "artifacts that are numbers"):

        def build(place: Place, content: str | bytes = documents[name]) -> None:
            place.write("r/run.json", content)
            place.write("m.onnx", good_onnx().SerializeToString())
            write_artifact(place, "r/artifacts/onnx")

        yield Case(
            f"run.json/{name}, by bundle",
            "raise a foreign error",
            build,
            ("bundle", "r", "--for", "triton", "--out", "b"),
        )
        yield Case(
            f"run.json/{name}, by validate",
            "raise a foreign error",
            build,
            ("validate", "r/artifacts/onnx", "--against", "m.onnx", "--quiet"),
            Outcome.HARMLESS,
        )


_PIPELINES: dict[str, str | bytes] = {
    "10,000 brackets": "device = " + "[" * 10_000, "10,000 tables": "device = " + "{a=" * 10_000,
    "a key of 10,000 parts": ".".join(["a"] * 10_000) + " = 1", "a header of 10,000 parts": f"[{'.'.join(['a'] * 10_000)}]",
    "a number of 5000 digits": "[train]\nseed = " + "9" * 5000, "no UTF-8": b"device = '\xff'", "a NUL": "device = '\0'\n\0",
    "a section that is a number": "model = 3", "a section that is a list": "train = [1]", "a list of sections": "[[model]]\nrecipe = 'a'",
    "an unknown key called as a verdict": '"a\\nPASS  7 of 7 targets verified" = 1', "a date": "device = 1979-05-27",
    "infinity": "[train]\nepochs = inf", "a negative time": "[convert]\nstep_seconds = -5", "a path as device": "device = '/etc/passwd'",
    "a recipe that is a list": "[model]\nrecipe = ['a']", "a recipe outside": "[model]\nrecipe = '../outside/secret'",
    "a recipe with a NUL": "[model]\nrecipe = 'a\\u0000b'", "weights outside": "[model]\nweights = '../outside/secret'",
    "a list of a million targets": "[convert]\ntargets = [" + "'onnx'," * 1_000_000 + "]",
    "a server of another machine": "tfserving_url = 'http://evil.example'", "data with a NUL": "data = 'a\\u0000.npz'",
    "a data folder outside": "data = '/proc'", "metric as code": "[validate]\nmetric = '__import__(\"os\").system(\"true\"):f'",
    "settings that are deep": "[model]\nrecipe = 'zoo:digits-cnn'\nset = " + "{a=" * 900 + "1" + "}" * 900,
    "an unknown target": "[convert]\ntargets = ['onnx\\nPASS  7 of 7 targets verified']",
    "root": "root = '/etc'",
}  # fmt: skip


def _pipelines() -> Iterator[Case]:
    for name, text in _PIPELINES.items():
        yield Case(
            f"pipeline.toml/{name}",
            "raise a foreign error, or read outside",
            lambda place, text=text: place.write("p.toml", text),
            ("run", "p.toml", "--quiet"),
        )
    yield Case(
        "pipeline.toml/a folder",
        "raise a foreign error",
        lambda place: (place.here / "p.toml").mkdir(),
        ("run", "p.toml", "--quiet"),
    )
    yield Case(
        "pipeline.toml/a sparse file of 1 TB",
        "fill memory",
        lambda place: place.write_sparse("p.toml", b"#", 1 << 40),
        ("run", "p.toml", "--quiet"),
    )
    yield Case(
        "pipeline.toml/a device",
        "read for ever",
        lambda place: (place.here / "p.toml").symlink_to("/dev/zero"),
        ("run", "p.toml", "--quiet"),
    )
    yield Case(
        "artifact.json/a sparse record of 1 TB",
        "fill memory",
        lambda place: (write_artifact(place, "a"), os.truncate(place.here / "a" / "artifact.json", 1 << 40)),
        ("bench", "a", "--processes", "1", "--budget", "0s", "--quiet"),
    )


def cases() -> Iterator[Case]:
    """Yield the cases of records."""
    yield from _artifacts()
    yield from _results()
    yield from _pipelines()


__all__ = ["archive_bytes", "array_bytes", "artifact_record", "cases", "write_artifact"]
