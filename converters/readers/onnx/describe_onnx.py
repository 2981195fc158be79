"""What an .onnx file says of itself."""

from __future__ import annotations

import math
from pathlib import Path

from ...lazy_import import onnx
from ..describe_file import COPY_AGAIN, counted, plain_text, summed
from ..file_content import whole_file
from ..reader_records import FileDescription
from .onnx_file import OnnxFile, parse_onnx


def describe_onnx(path: Path) -> FileDescription:
    """Describe a file. Raises BadRequest."""
    model = parse_onnx(path)
    file = OnnxFile(model, path)
    file.check_nodes()
    with whole_file(path, "ONNX model", COPY_AGAIN):
        graph = model.graph
        weights = {tensor.name for tensor in graph.initializer}
        tensors = [(_onnx_dtype(tensor.data_type), math.prod(tensor.dims)) for tensor in graph.initializer]
        return FileDescription(
            producer=plain_text(f"{model.producer_name} {model.producer_version}"),
            versions=(
                f"IR {model.ir_version}",
                *(plain_text(f"opset {entry.version}{f' of {entry.domain}' if entry.domain else ''}")
                  for entry in model.opset_import),
            ),
            inputs=tuple(_onnx_value(value) for value in graph.input if value.name not in weights),
            outputs=tuple(map(_onnx_value, graph.output)),
            operators=counted(node.op_type for node in graph.node),
            weights=summed(tensors),
            metadata={plain_text(entry.key): plain_text(entry.value) for entry in model.metadata_props},
        )  # fmt: skip


def _onnx_dtype(number: int) -> str:
    name: str = onnx.TensorProto.DataType.Name(number).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def _onnx_value(value: onnx.ValueInfoProto) -> str:
    if value.type.WhichOneof("value") != "tensor_type":
        return plain_text(f"{value.name}={value.type.WhichOneof('value')}")
    tensor = value.type.tensor_type
    axes = [
        str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim
    ]  # fmt: skip
    shape = f"[{','.join(axes)}]" if tensor.HasField("shape") else "[of any rank]"
    return plain_text(f"{value.name}={_onnx_dtype(tensor.elem_type)}{shape}")
