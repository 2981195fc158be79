"""Edits of files in reduced precision, and of SavedModels with more than one function: wrong copies and right ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from declarations import Array, Feeds
from onnx import NodeProto, TensorProto
from onnx_edit import GraphEdit, Site

if TYPE_CHECKING:
    from torch import nn

FileEdit: TypeAlias = Callable[["Base", Path], tuple[Site, ...]]


class Base:
    """What an edit starts from: the model, a right copy of it, and samples."""

    def __init__(self, module: nn.Module, path: Path, samples: Sequence[Feeds]) -> None:
        self.module, self.path, self.samples = module, path, samples

    def graph(self) -> GraphEdit:
        """Return the ONNX file of the right copy under edit."""
        return GraphEdit.load(self.path, self.module)


# float16


def all_in_half(op_type: str, at: int = 0) -> FileEdit:
    """Return an edit that converts every operator, as a plain converter does; one of them leaves the range."""

    def edit(base: Base, path: Path) -> tuple[Site, ...]:
        write_half(base.path, path)
        return _sites(base.graph(), op_type, at)

    return edit


def operators_in_half(*op_types: str, at: int | None = None) -> FileEdit:
    """Return an edit that computes some operators in float16, between casts."""

    def edit(base: Base, path: Path) -> tuple[Site, ...]:
        graph = base.graph()
        nodes = [node for op_type in op_types for node in graph.nodes(op_type)]
        for node in nodes if at is None else nodes[at : at + 1]:
            graph.note(node)
            _compute_in_half(graph, node)
        graph.save(path)
        return tuple(graph.sites)

    return edit


def weights_in_half(base: Base, path: Path) -> tuple[Site, ...]:
    """Keep large weights in float16, and compute in float32."""
    graph = base.graph()
    for node in graph.nodes("Gemm"):
        node.input[1] = graph.constant(graph.array(node.input[1]).astype(np.float16))
        graph.insert_before(node, 1, "Cast", to=TensorProto.FLOAT)
    graph.save(path)
    return ()


def write_half(source: Path, path: Path) -> None:
    """Convert a whole file to float16, but for its inputs and outputs."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    onnx.save(convert_float_to_float16(onnx.load(source), keep_io_types=True), path)


def _compute_in_half(graph: GraphEdit, node: NodeProto) -> None:
    for at, name in enumerate(node.input):
        if name and not (graph.is_constant(name) and graph.array(name).dtype != np.float32):
            graph.insert_before(node, at, "Cast", to=TensorProto.FLOAT16)
    graph.insert_after(node, "Cast", to=TensorProto.FLOAT)


def _sites(graph: GraphEdit, op_type: str, at: int) -> tuple[Site, ...]:
    graph.node(op_type, at=at)
    return tuple(graph.sites)


# int8: ONNX files with QuantizeLinear and DequantizeLinear


def weight_scale(by: float, at: int = 1) -> FileEdit:
    """Return an edit of the scale of one layer's weights."""
    return _quantised(at, 1, lambda scale, zero: (scale * np.float32(by), zero))


def zero_point(by: int, at: int = 1) -> FileEdit:
    """Return an edit of the zero point that one layer reads its input with."""

    def change(scale: Array, zero: Array) -> tuple[Array, Array]:
        ends = np.iinfo(zero.dtype)
        moved = zero.astype(np.int64) + (by if zero.astype(np.int64) + by <= ends.max else -by)
        return scale, np.clip(moved, ends.min, ends.max).astype(zero.dtype)

    return _quantised(at, 0, change)


def input_scale(by: float, at: int = 1) -> FileEdit:
    """Return an edit of the scale that one layer reads its input with."""
    return _quantised(at, 0, lambda scale, zero: (scale * np.float32(by), zero))


def _quantised(at: int, operand: int, change: Callable[[Array, Array], tuple[Array, Array]]) -> FileEdit:
    def edit(base: Base, path: Path) -> tuple[Site, ...]:
        graph = base.graph()
        layers = [node for node in graph.model.graph.node if node.op_type in ("Conv", "Gemm", "MatMul")]
        layers = [node for node in layers if all(_dequantiser(graph, name) is not None for name in node.input[:2])]
        layer = layers[min(at, len(layers) - 1)]
        reader = _dequantiser(graph, layer.input[operand])
        if reader is None:
            raise LookupError("no quantised layer")
        scale, zero = change(graph.array(reader.input[1]), graph.array(reader.input[2]))
        graph.change(reader, 1, lambda _: scale)
        graph.change(reader, 2, lambda _: zero)
        graph.note(layer)
        graph.note(reader)
        graph.save(path)
        return tuple(graph.sites)

    return edit


def _dequantiser(graph: GraphEdit, name: str) -> NodeProto | None:
    return next((node for node in graph.nodes("DequantizeLinear") if node.output[0] == name), None)


def quantised_by_onnxruntime(**options: Any) -> FileEdit:
    """Return a maker of a right int8 copy by ONNX Runtime's quantiser, with other options than transload's."""

    def make(base: Base, path: Path) -> tuple[Site, ...]:
        from onnxruntime.quantization import QuantFormat, quantize_static
        from onnxruntime.quantization.calibrate import CalibrationDataReader
        from onnxruntime.quantization.shape_inference import quant_pre_process

        class Reader(CalibrationDataReader):  # type: ignore[misc]
            def __init__(self) -> None:
                self._left = iter(base.samples)

            def get_next(self) -> Feeds | None:
                return next(self._left, None)

        ready = path.with_name("ready.onnx")
        quant_pre_process(str(base.path), str(ready), skip_symbolic_shape=True)
        quantize_static(str(ready), str(path), Reader(), quant_format=QuantFormat.QDQ, reduce_range=True, **options)
        ready.unlink()
        return ()

    return make


# TFLite


def tflite_by_tensorflow(*, int8: bool) -> FileEdit:
    """Return a maker of a TFLite file by TensorFlow's converter, from the right SavedModel."""

    def make(base: Base, path: Path) -> tuple[Site, ...]:
        import tensorflow as tf

        converter = tf.lite.TFLiteConverter.from_saved_model(str(base.path))
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if int8:
            converter.representative_dataset = lambda: iter(base.samples)
        else:
            converter.target_spec.supported_types = [tf.float16]
        path.write_bytes(converter.convert())
        return ()

    return make


def tflite_in_half(op_type: str, at: int = 0) -> FileEdit:
    """Return a maker of a TFLite file with float16 weights, one of whose operators leaves the range on a GPU."""

    def make(base: Base, path: Path) -> tuple[Site, ...]:
        tflite_by_tensorflow(int8=False)(base, path)
        beside = base.path.parent.parent / "onnx" / "model.onnx"
        return _sites(GraphEdit.load(beside, base.module), op_type, at)

    return make


TensorChange: TypeAlias = Callable[[Any, Any, Any], bool]  # layer's operator, its graph, model; whether it fits


def tflite_layer(change: TensorChange, at: int = 1) -> FileEdit:
    """Return an edit of one layer's tensors in a TFLite file: its place among those that the change fits."""

    def edit(base: Base, path: Path) -> tuple[Site, ...]:
        from ai_edge_litert.interpreter import Interpreter
        from ai_edge_litert.schema_py_generated import BuiltinOperator, ModelT

        from transload.converters.to_tflite.flatbuffer import model_of, packed

        names = {number: name for name, number in vars(BuiltinOperator).items() if isinstance(number, int)}
        flat = base.path.read_bytes()
        count = len(ModelT.InitFromObj(model_of(flat)).subgraphs[0].operators)
        fitting: list[tuple[bytes, Site]] = []
        for index in range(count):
            model = ModelT.InitFromObj(model_of(flat))
            graph = model.subgraphs[0]
            operator = graph.operators[index]
            name = names[model.operatorCodes[operator.opcodeIndex].builtinCode]
            if name not in _LAYERS or not change(operator, graph, model):
                continue
            changed = packed(model)
            try:
                Interpreter(model_content=changed).allocate_tensors()
            except (RuntimeError, ValueError):  # a kernel refuses these scales
                continue
            fitting.append((changed, Site(graph.tensors[operator.outputs[0]].name.decode(), name)))
        changed, site = fitting[min(at, len(fitting) - 1)]
        path.write_bytes(changed)
        return (site,)

    return edit


_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL")


def tflite_weight_scale(by: float) -> TensorChange:
    """Return a change of the scales of a layer's weights and bias."""

    def change(operator: Any, graph: Any, model: Any) -> bool:
        tensors = [graph.tensors[index] for index in operator.inputs[1:] if index >= 0]
        scales = [tensor.quantization.scale for tensor in tensors if tensor.quantization is not None]
        if len(scales) < len(tensors) or any(scale is None for scale in scales):
            return False
        for tensor in tensors:
            tensor.quantization.scale = np.asarray(tensor.quantization.scale, np.float32) * np.float32(by)
        return _is_constant(tensors[0], model)

    return change


def _scheme_of_result(operator: Any, graph: Any, name: str) -> Any:
    """Return the quantisation of a layer's result; None where it has not one number called `name` for all of it."""
    scheme = graph.tensors[operator.outputs[0]].quantization
    numbers = None if scheme is None else getattr(scheme, name)
    return scheme if numbers is not None and len(numbers) == 1 else None


def tflite_output_scale(by: float) -> TensorChange:
    """Return a change of the range of a layer's result: its scale."""

    def change(operator: Any, graph: Any, _: Any) -> bool:
        scheme = _scheme_of_result(operator, graph, "scale")
        if scheme is None:
            return False
        scheme.scale = np.asarray(scheme.scale, np.float32) * np.float32(by)
        return True

    return change


def tflite_zero_point(by: int) -> TensorChange:
    """Return a change of the zero point of a layer's result, towards the other end."""

    def change(operator: Any, graph: Any, _: Any) -> bool:
        scheme = _scheme_of_result(operator, graph, "zeroPoint")
        if scheme is None:
            return False
        zero = int(scheme.zeroPoint[0])
        scheme.zeroPoint = np.asarray([zero - by if zero > 0 else zero + by], np.int64)
        return True

    return change


def tflite_half_weights(change_weights: Callable[[Array], Array]) -> TensorChange:
    """Return a change of a layer's float16 weights, which an operator DEQUANTIZE brings to float32."""

    def change(operator: Any, graph: Any, model: Any) -> bool:
        index = operator.inputs[1]
        source = next((row.inputs[0] for row in graph.operators if row.outputs[0] == index), index)
        tensor = graph.tensors[source]
        if tensor.type != 1 or not _is_constant(tensor, model):  # TensorType.FLOAT16
            return False
        data = np.asarray(model.buffers[tensor.buffer].data, np.uint8).view(np.float16).reshape(tensor.shape)
        model.buffers[tensor.buffer].data = np.ascontiguousarray(change_weights(data.copy())).view(np.uint8).ravel()
        return True

    return change


def first_row_lost(weights: Array) -> Array:
    """Make zeros of the first row of weights."""
    weights[0] = 0
    return weights


def _is_constant(tensor: Any, model: Any) -> bool:
    return model.buffers[tensor.buffer].data is not None


# Signatures of a SavedModel

Answer: TypeAlias = Callable[[Any], Any]


def unchanged(array: Any) -> Any:
    """Return an answer as it is."""
    return array


def negated(array: Any) -> Any:
    """Return an answer with the other sign, or a truth value turned round."""
    import tensorflow as tf

    return tf.logical_not(array) if array.dtype == tf.bool else -array


def scaled(array: Any) -> Any:
    """Return an answer that is 2 % larger, or by one where it is an integer."""
    return array * 1.02 if array.dtype.is_floating else array + 1


def functions(*, signature: Answer | None = None, call: Answer | None = None, restored: bool = False) -> FileEdit:
    """Return a maker of a SavedModel with a second signature, or a `__call__`, beside a right `serving_default`.
    `restored`: the second function computes by a graph of its own, with weights of its own."""

    def make(base: Base, path: Path) -> tuple[Site, ...]:
        import tensorflow as tf

        shutil.rmtree(path, ignore_errors=True)
        module = tf.Module()
        module.served = tf.saved_model.load(str(base.path))
        module.again = tf.saved_model.load(str(base.path)) if restored else module.served
        served, again = (loaded.signatures["serving_default"] for loaded in (module.served, module.again))
        specs = served.structured_input_signature[1]

        def changed(answer: Answer) -> Any:
            return tf.function(lambda **feeds: {name: answer(array) for name, array in again(**feeds).items()})

        signatures = {"serving_default": served}
        if signature is not None:
            signatures["predict"] = changed(signature).get_concrete_function(**specs)
        if call is not None:
            module.__call__ = changed(call)
            module.__call__.get_concrete_function(**specs)
        tf.saved_model.save(module, str(path), signatures=signatures)
        return ()

    return make
