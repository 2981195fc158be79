"""The range of each float input that an int8 file was calibrated on, read from the file itself. Worker only.

A quantised file holds the range: the first operator to read an input quantises it, by a scale and a zero point whose
ends are what calibration saw. What lies beyond is cut off there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from ..models.extensible_table import load_entry
from ..models.formats import Format
from .lazy_import import onnx, tflite
from .to_tflite.flatbuffer import Subgraph, inputs_and_outputs, model_of, subgraphs

Range: TypeAlias = tuple[float, float]
_MOVERS = frozenset({"Identity", "Reshape", "Transpose", "Flatten", "Unsqueeze", "Squeeze"})
_TFLITE_MOVERS = frozenset({"RESHAPE", "TRANSPOSE", "EXPAND_DIMS", "SQUEEZE"})


def calibrated_ranges(path: Path, form: Format) -> dict[str, Range]:
    """Return the ranges by input; none for an input that is not quantised, or a format that holds none."""
    return dict(load_entry(form.spec.calibrated_ranges)(path)) if form.spec.calibrated_ranges else {}


def onnx_ranges(path: Path) -> Iterator[tuple[str, Range]]:
    """Yield the ranges of an ONNX file's inputs."""
    return _of_onnx(onnx.load(path, load_external_data=False))


def _of_onnx(model: onnx.ModelProto) -> Iterator[tuple[str, Range]]:
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        tensors = (part.t for part in node.attribute if node.op_type == "Constant" and part.name == "value")
        constants.update((node.output[0], tensor) for tensor in tensors)
    arrays = {
        name: onnx.numpy_helper.to_array(tensor)
        for name, tensor in constants.items()
        if tensor.data_location != onnx.TensorProto.EXTERNAL and len(tensor.dims) < 2
    }
    for value in model.graph.input:
        names, own_range = {value.name}, None
        for node in model.graph.node:  # in order: what moves an input comes before what reads it
            if names.isdisjoint(node.input[:1]):
                continue
            if node.op_type in _MOVERS:
                names.update(node.output)
            elif node.op_type == "QuantizeLinear" and own_range is None:
                zero = arrays.get(node.input[2]) if len(node.input) > 2 else np.zeros(1, np.uint8)
                own_range = _ends(arrays.get(node.input[1]), zero, None if zero is None else zero.dtype)
        if own_range:
            yield value.name, own_range


def tflite_ranges(path: Path) -> Iterator[tuple[str, Range]]:
    """Yield the ranges of a TFLite file's inputs."""
    flat = np.memmap(path, mode="r")
    main = next(subgraphs(flat))
    for tensor in inputs_and_outputs(model_of(flat))[0]:
        indices, own_range = {tensor.index}, None
        for operator in main.operators():
            if indices.isdisjoint(operator.inputs[:1]):
                continue
            if operator.name in _TFLITE_MOVERS:
                indices.update(operator.outputs)
            elif operator.name == "QUANTIZE" and own_range is None:
                own_range = _ends_of_tensor(main, operator.outputs[0])
        if own_range:
            yield tensor.name, own_range


def _ends_of_tensor(graph: Subgraph, index: int) -> Range | None:
    table = graph.tables.Tensors(index)
    dtypes: Mapping[int, type[np.integer]] = {
        tflite.TensorType.INT8: np.int8, tflite.TensorType.UINT8: np.uint8, tflite.TensorType.INT16: np.int16,
    }  # fmt: skip
    steps, dtype = table.Quantization(), dtypes.get(table.Type())
    if steps is None or dtype is None or steps.ScaleLength() != 1 or steps.ZeroPointLength() != 1:
        return None
    return _ends(np.array(steps.Scale(0)), np.array(steps.ZeroPoint(0)), np.dtype(dtype))


def _ends(scale: np.ndarray | None, zero: np.ndarray | None, dtype: np.dtype | None) -> Range | None:
    """Return the numbers that the ends of an integer dtype stand for; None of several scales, as for channels."""
    if scale is None or zero is None or dtype is None or dtype.kind not in "iu" or scale.size != 1 or zero.size != 1:
        return None
    limits, step, at = np.iinfo(dtype), float(scale.ravel()[0]), int(zero.ravel()[0])
    return (limits.min - at) * step, (limits.max - at) * step
