"""Hostile arrays and loops, against the readers themselves."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import BufferT, ModelT, SignatureDefT, SubGraphT, TensorMapT, TensorT

from transload.converters.readers.keras.keras_file import check_keras
from transload.converters.readers.onnx import onnx_reader
from transload.converters.readers.onnx.onnx_file import OnnxFile, check_external, parse_onnx
from transload.converters.readers.saved_model import saved_model_folder
from transload.converters.readers.saved_model.saved_model_proto import message_class
from transload.converters.readers.tflite.tflite_file import TfliteFile, _check_buffers
from transload.converters.to_tflite.flatbuffer import model_of
from transload.models import untrusted_files
from transload.models.array_file import map_arrays
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.weight_files import read_weight_file, weights_digest
from transload.models.store import digest_of

from .corpus.case import Place
from .corpus.data_files import _HEADERS, archive_bytes, array_bytes
from .corpus.onnx_files import _doubling, _recursive, _two_locations, endless_onnx, good_onnx


@pytest.mark.parametrize("name", _HEADERS)
def test_a_broken_header_of_an_array_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    path.write_bytes(archive_bytes({"x.npy": array_bytes(_HEADERS[name], body=bytes(48))}))
    with pytest.raises(BadRequest, match=r"is not an \.npz file of plain arrays: "):
        map_arrays(path)


@pytest.fixture
def no_bytes_are_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a zip of a megabyte count as one that could fill a disk."""
    monkeypatch.setattr(untrusted_files, "_LEAST_UNPACKED_BYTES", 1000)


@pytest.mark.usefixtures("no_bytes_are_harmless")
def test_arrays_and_weights_that_unpack_to_far_more_are_refused(tmp_path: Path) -> None:
    zeros = archive_bytes({"x.npy": array_bytes() + bytes(1_000_000)}, zipfile.ZIP_DEFLATED)
    for name, read in (("d.npz", map_arrays), ("w.ckpt", read_weight_file)):
        (tmp_path / name).write_bytes(zeros)
        with pytest.raises(BadRequest, match=r"unpacks to 0\.001 GB, more than 100 times its own size"):
            read(tmp_path / name)


def test_the_checksum_of_arrays_from_elsewhere_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=np.full(9, 7, np.int64))
    path.write_bytes(path.read_bytes().replace(np.int64(7).tobytes() * 9, np.int64(8).tobytes() * 9))
    assert map_arrays(path)["x"][0] == 8, "of files that are ours it costs a look at all of them"
    with pytest.raises(BadRequest, match=r"the checksum of x\.npy is another"):
        map_arrays(path, tmp_path / "scratch")


def test_weights_that_no_disk_holds_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"x")
    (tmp_path / "w.index.json").write_text('{"weight_map": {"a": "w.safetensors"}}')
    os.truncate(tmp_path / "w.safetensors", 1 << 40)
    for name in ("w.safetensors", "w.index.json"):
        with pytest.raises(BadRequest, match="is said to have"):
            weights_digest(tmp_path / name)


def test_an_error_quotes_no_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    """A pickle's opcode `c` names the two lines after it, and any text may begin with one."""
    (tmp_path / "w.ckpt").write_bytes(b"canary-1\ncanary-2\n.")
    with pytest.raises(BadRequest, match="it is no checkpoint") as caught:
        read_weight_file(tmp_path / "w.ckpt")
    assert "anary" not in str(caught.value)


def test_arrays_that_are_packed_well_are_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", x=np.zeros((1000, 1000), np.float32))  # a thousandth of its size
    assert map_arrays(tmp_path / "d.npz")["x"].shape == (1000, 1000)


@pytest.mark.parametrize("loops", [True, False])
def test_a_model_with_a_loop_is_called_when_it_is_taken_in(
    loops: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Mapping[str, Any]] = []

    def shapes_of(feeds: Mapping[str, Any]) -> list[tuple[int, ...]]:
        calls.append(feeds)
        return [()]

    monkeypatch.setattr(onnx_reader, "onnx_runner", lambda path: shapes_of)
    place = Place(tmp_path / "case")
    place.make()
    path = place.write("m.onnx", (endless_onnx() if loops else good_onnx()).SerializeToString())
    (tmp_path / "out").mkdir()
    onnx_reader.import_onnx(Job({}, tmp_path / "out", {"path": str(path), "sha256": digest_of(path), "inputs": []}))
    assert bool(calls) == loops


def test_nodes_are_counted_with_those_of_functions_at_each_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    OnnxFile(_doubling(10), tmp_path).check_nodes()
    for model, said in (
        (_doubling(40), r"holds 2,199,023,255,551 nodes, and 500,000 are the most"), (_recursive(), "call themselves"),
    ):  # fmt: skip
        with pytest.raises(BadRequest, match=said):
            OnnxFile(model, tmp_path).check_nodes()
    monkeypatch.setattr(saved_model_folder, "MOST_NODES", 2)
    graph = message_class("Graph")()
    graph.node.add(name=b"a")
    graph.library.function.add().node_def.add(name=b"b")
    saved_model_folder._check_size(graph, tmp_path)
    graph.library.function.add().node_def.add(name=b"c")
    with pytest.raises(BadRequest, match="holds 3 nodes, and 2 are the most that are read"):
        saved_model_folder._check_size(graph, tmp_path)


def test_data_with_two_locations_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path / "case")
    place.make()
    _two_locations(place)
    with pytest.raises(BadRequest, match=r"in 'w\.bin', and says twice where"):
        check_external(parse_onnx(place.here / "m.onnx"), place.here / "m.onnx")


@pytest.mark.parametrize(
    ("metadata", "said"), [(b"[" * 100_000, "recursion"), (b"[]", "is no object"), (None, "lacks")]
)
def test_the_metadata_of_keras_are_an_object(metadata: bytes | None, said: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.weights.h5", b"")
        if metadata is not None:
            archive.writestr("metadata.json", metadata)
    with pytest.raises(BadRequest, match=said):
        check_keras(tmp_path / "m.keras")


def test_weights_of_tflite_lie_within_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    for end, offset in ((100, 90), (101, 91)):
        model = ModelT(buffers=[BufferT(), BufferT(offset=offset, size=10)])
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output())[:100].ljust(100, b"\0"))
        if end == 100:
            _check_buffers(model_of(path.read_bytes()), path)
            continue
        with pytest.raises(BadRequest, match="keeps weights behind its own end"):
            _check_buffers(model_of(path.read_bytes()), path)


def test_a_loop_in_a_branch_or_a_function_is_seen(tmp_path: Path) -> None:
    in_branch, in_function = good_onnx(), good_onnx()
    branch = in_branch.graph.node.add(op_type="If").attribute.add(name="then_branch")
    branch.g.node.add(op_type="Scan")
    in_function.functions.add(name="f").node.add(op_type="Loop")
    assert [OnnxFile(model, tmp_path).has_loops() for model in (in_branch, in_function, good_onnx())] == [
        True,
        True,
        False,
    ]


def test_a_signature_of_tflite_that_names_another_tensor_is_refused(tmp_path: Path) -> None:
    """LiteRT verifies each table, and not that a signature's tensors are those of the graph."""
    file = object.__new__(TfliteFile)
    file.path = tmp_path / "m.tflite"
    entry = TensorMapT(name="x", tensorIndex=1)
    tensors = [TensorT(name="a", shape=[1]), TensorT(name="b", shape=[1])]
    model = ModelT(
        subgraphs=[SubGraphT(tensors=tensors, inputs=[0], outputs=[0])],
        signatureDefs=[SignatureDefT(inputs=[entry], outputs=[entry], signatureKey="serving_default")],
    )
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    file._model = model_of(bytes(builder.Output()))
    with pytest.raises(BadRequest, match=r"m\.tflite is not a whole TFLite file: tuple\.index"):
        file.inputs()
