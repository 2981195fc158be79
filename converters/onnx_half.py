"""ONNX in fp16, but for the operators whose values float16 cannot hold. Inputs and outputs keep their dtypes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..models.artifact import Artifact, read_artifact
from ..models.dataset import CALIBRATION, Dataset, read_dataset, telling_rows
from ..models.errors import Refused
from ..models.formats import Format, Precision, Target
from ..models.job import Job
from ..models.probes.feeds import make_feeds
from ..models.probes.sizes import bounds_within
from ..models.signature import Array
from .lazy_import import onnx
from .minimal_repro.onnx_pieces import OnnxCutter
from .onnx_graph.topological_order import sort_nodes
from .to_onnx.finish_model import save
from .write_converted import write_converted

_MOST = float(np.finfo(np.float16).max)
_WIDE = _MOST / 2  # of calibration samples: others may be larger
_NOISE = 1e-4  # of the signal: 40 dB, by which a float16 copy is judged
_TELLING = 4  # samples: the first, and as many with the largest numbers


def onnx_fp16_from_onnx(job: Job) -> Mapping[str, Any]:
    """Convert weights and arithmetic to float16 between float32 inputs and outputs.
    Where that would ruin the answers to calibration samples, operators of large values stay in float32."""
    source, path = read_artifact(job.inputs["source"]), job.out / Format.ONNX.spec.payload
    data = read_dataset(job.inputs["data"] / CALIBRATION, source.signature.inputs)
    write_half(source.path, path)
    wide = wide_values(source, path, data)
    note = None
    if wide:
        count = write_half(source.path, path, wide)
        reach = f"{max(wide.values()):,.0f}, and float16 ends at {_MOST:,.0f}"
        note = f"{count} operator{'s' * (count > 1)} in float32, as values there reach {reach}"
    write_converted(job, Target(Format.ONNX, Precision.FP16), source.signature)
    return {"note": note}


def write_half(source: Path, path: Path, wide: Collection[str] = ()) -> int:
    """Write a model in float16. Operators that read or write one of the values in `wide` stay in float32; return how
    many these are."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(source)
    for at, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{at}"
    kept = [node.name for node in model.graph.node if not {*node.input, *node.output}.isdisjoint(wide)]
    model = convert_float_to_float16(model, keep_io_types=True, node_block_list=kept)
    if kept:
        _join_float32(model.graph)
    sort_nodes(model.graph)
    save(model, path)
    return len(kept)


def _join_float32(graph: onnx.GraphProto) -> None:
    """Let operators in float32 read each other's values, between which the converter has put float16.
    It writes a cast for each reader, all of one name."""
    written: set[str] = set()
    for node in list(graph.node):
        if written.intersection(node.output):
            graph.node.remove(node)
        written.update(name for name in node.output if name)
    narrowed = {node.output[0]: node.input[0] for node in graph.node if _casts_to(node, onnx.TensorProto.FLOAT16)}
    for node in graph.node:
        if _casts_to(node, onnx.TensorProto.FLOAT) and node.input[0] in narrowed:
            node.input[0], node.op_type = narrowed[node.input[0]], "Identity"
            del node.attribute[:]
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    unread = [node for node in graph.node if node.output and node.output[0] in narrowed.keys() - read]
    for node in unread:
        graph.node.remove(node)


def _casts_to(node: onnx.NodeProto, dtype: int) -> bool:
    return node.op_type == "Cast" and any(part.name == "to" and part.i == dtype for part in node.attribute)


def wide_values(source: Artifact, half: Path, data: Dataset) -> dict[str, float]:
    """Return the values of a model that hold more than half of what float16 does, with the largest number of each.
    None where the model in the file `half` agrees with it in float16 arithmetic, or cannot be run node by node."""
    signature = source.signature
    rows = telling_rows(data, _TELLING, _TELLING)
    batch = bounds_within(signature.inputs, signature.batch).nearest(len(rows))
    feeds = make_feeds(data, np.resize(rows, batch), signature)
    try:
        narrow, full = OnnxCutter(half), OnnxCutter(source.path)
    except Refused:  # too large
        return {}
    if not narrow.record_in_half(feeds):
        return {}
    full.record(feeds)
    if all(_agree(narrow.values[spec.name], full.values[spec.name]) for spec in signature.outputs):
        return {}
    floats = {name: array for name, array in full.values.items() if array.dtype == np.float32}
    largest = {
        name: float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0)) for name, array in floats.items()
    }
    return {name: number for name, number in largest.items() if number > _WIDE}


def _agree(half: Array, full: Array) -> bool:
    """Return whether an output is as right as float16 allows; integers, and what is not finite in both, are passed."""
    if full.dtype.kind != "f" or half.shape != full.shape:
        return True
    wanted = full.astype(np.float64)
    with np.errstate(invalid="ignore"):
        noise = np.where(np.isfinite(wanted), half - wanted, 0.0)
    return bool(np.square(noise).sum() <= _NOISE * np.square(np.where(np.isfinite(wanted), wanted, 0.0)).sum())
