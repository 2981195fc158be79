"""ONNX from a SavedModel or a TFLite file by tf2onnx.

tf2onnx calls inputs `serving_default_x:0`, loses the names of axes, and succeeds even if it left an operator of
TensorFlow's in the model. Here names, order and axes come from the record, and leftover operators are refused by name.
Layouts stay as declared: where ONNX wants channels first, the transposes are inside the model.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.errors import Refused, TransloadError
from ...models.formats import Format
from ...models.job import Job
from ...models.library_messages import first_line
from ...models.signature import Signature, TensorSpec
from ..lazy_import import onnx, tf
from ..patches import private_tf2onnx
from ..patches.tf2onnx.complex_pairs import rewrite_complex_as_pairs
from ..patches.tf2onnx.registry import register
from ..to_tflite.flatbuffer import inputs_and_outputs, model_of, quantising_operators, with_unique_names
from ..to_tflite.xnnpack_workarounds import with_floats_joined
from .finish_model import declare, finish, nodes_of, rename_value, save
from .frozen_graph import FrozenGraph, freeze

_INNER_PREFIX = "transload.inner."
OPSET = 18  # the newest that tf2onnx 1.17 writes
_OPERATOR_FIX = "serve this model as SavedModel or TFLite, or write that operator in others"


def onnx_from_saved_model(job: Job) -> Mapping[str, Any]:
    """Convert `serving_default` of the SavedModel in inputs["source"].

    The variables become constants first. TensorFlow's graph optimiser is not used: tf2onnx has its own.

    Raises Refused if tf2onnx lacks an operator, or the model is too large or keeps state.
    """
    source = read_artifact(job.inputs["source"])
    frozen = freeze(source.path)
    _check_dtypes(frozen)
    return _convert(job, source.signature, frozen.inputs, frozen.outputs, graph_def=frozen.graph.as_graph_def())


def onnx_from_tflite(job: Job) -> Mapping[str, Any]:
    """Convert the main graph of the TFLite file in inputs["source"].

    Quantised tensors become pairs of QuantizeLinear and DequantizeLinear.

    Raises Refused if tf2onnx lacks an operator, or LiteRT quantises an operator's inputs while it runs.
    """
    source = read_artifact(job.inputs["source"])
    content = source.path.read_bytes()
    if quantising := quantising_operators(content):
        raise Refused(
            f"LiteRT rounds what {', '.join(quantising)} of this file take to 8 bits in each call (dynamic range), and "
            "no ONNX rounds alike",
            fix="name the model that this file was made from, or convert that one to float32, or in full to int8",
        )
    flat = with_unique_names(with_floats_joined(content))  # tf2onnx identifies tensors by name
    path = Path("given.tflite")
    path.write_bytes(flat)
    inputs, outputs = ({tensor.name: tensor.tensor for tensor in side} for side in inputs_and_outputs(model_of(flat)))
    return _convert(job, source.signature, inputs, outputs, tflite=path)


def _convert(
    job: Job,
    signature: Signature,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    *,
    graph_def: tf.compat.v1.GraphDef | None = None,
    tflite: Path | None = None,
) -> Mapping[str, Any]:
    """Run tf2onnx on a graph or a file. `inputs`, `outputs`: the tensors' names by the signature's names."""
    register()
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)
    with tf.Graph().as_default() as graph, warnings.catch_warnings(), _naming_failed_operators():
        warnings.filterwarnings("ignore", r"\s*Warning: tf.lite.Interpreter is deprecated", UserWarning)
        if tflite is None:
            tf.import_graph_def(graph_def, name="")
        converted = private_tf2onnx.process_tf_graph(
            graph if tflite is None else None,
            opset=OPSET,
            custom_rewriter=[rewrite_complex_as_pairs],
            input_names=_ordered_tensors("inputs", signature.inputs, inputs),
            output_names=list(dict.fromkeys(_ordered_tensors("outputs", signature.outputs, outputs))),
            tflite_path=None if tflite is None else str(tflite),
        )
        model = private_tf2onnx.optimizer.optimize_graph(converted).make_model("transload")
    _check_operators(model)
    _apply_names(model.graph, signature, inputs, outputs)
    save(model, job.out / Format.ONNX.spec.payload)
    return {**finish(job, signature), "version": metadata.version("tf2onnx")}


@contextmanager
def _naming_failed_operators() -> Iterator[None]:
    """Turn an error of tf2onnx into Refused with the operator at which it failed, which only its log names."""
    failed: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if str(record.msg).startswith("Failed to convert node") and isinstance(record.args, tuple):
                name, _, summary = map(str, record.args)
                operator = summary.partition("\n")[0].removeprefix("OP=")  # empty, where the graph is broken by then
                failed.append(f"{operator} ({name})" if operator else name)

    log, listener = logging.getLogger("tf2onnx.tfonnx"), Listener()
    log.addHandler(listener)
    try:
        yield
    except TransloadError:
        raise
    except Exception as error:
        if not failed:
            raise
        why = first_line(error).removeprefix("make_sure failure: ")
        raise Refused(f"tf2onnx fails at {failed[0]}: {why}", fix=_OPERATOR_FIX) from error
    finally:
        log.removeHandler(listener)


def _ordered_tensors(side: str, specs: Sequence[TensorSpec], tensors: Mapping[str, str]) -> list[str]:
    """Return the tensors of a side in the record's order. Raises Refused if the names differ from the record's."""
    if sorted(tensors) != sorted(spec.name for spec in specs):
        raise Refused(
            f"the model's {side} are {', '.join(tensors)}, its record says {', '.join(spec.name for spec in specs)}",
            fix="make the artifact again: payload and record are not of one model",
        )
    return [tensors[spec.name] for spec in specs]


def _check_dtypes(frozen: FrozenGraph) -> None:
    """Raise Refused for bfloat16, which tf2onnx lacks."""
    halves = [op for op in frozen.graph.get_operations() if tf.bfloat16 in {out.dtype for out in op.outputs}]
    if halves:
        raise Refused(
            f"the model computes in bfloat16 ({halves[0].name}), which tf2onnx has not",
            fix="make the same layers with the dtype policy float32, and load these weights into them",
        )


def _check_operators(model: onnx.ModelProto) -> None:
    """Raise Refused for operators of TensorFlow's that tf2onnx left in the model while reporting success."""
    known = {
        schema.name
        for schema in onnx.defs.get_all_schemas()
        if schema.domain in {opset.domain for opset in model.opset_import}
    }
    unknown = dict.fromkeys(
        f"{node.op_type} ({node.name})" for node in nodes_of(model.graph) if node.op_type not in known
    )
    if unknown:
        raise Refused(f"tf2onnx has no ONNX for {', '.join(unknown)}", fix=_OPERATOR_FIX)


def _apply_names(
    graph: onnx.GraphProto, signature: Signature, inputs: Mapping[str, str], outputs: Mapping[str, str]
) -> None:
    """Give the inputs and outputs of a graph the signature's names and order.

    In TFLite one tensor may be several outputs, or an input and an output; ONNX needs a node between.
    """
    if shared := {spec.name for spec in signature.inputs} & {spec.name for spec in signature.outputs}:
        raise Refused(
            f"an input and an output are both called {min(shared)}, and ONNX tells values apart by their names",
            fix="save the model with another name for one of them",
        )
    prefix = _prefix(graph, signature, {**inputs, **outputs})
    if prefix:
        onnx.compose.add_prefix_graph(graph, prefix, inplace=True)
    declared = {value.name: value for value in (*graph.input, *graph.output)}
    del graph.input[:]
    del graph.output[:]
    named: dict[str, str] = {}
    for spec in signature.inputs:
        inner = prefix + inputs[spec.name]
        rename_value(graph, inner, spec.name)
        named[inner] = spec.name
        graph.input.append(_declaration(spec, declared.get(inner)))
    for spec in signature.outputs:
        inner = prefix + outputs[spec.name]
        if inner in named:
            graph.node.append(
                onnx.helper.make_node("Identity", [named[inner]], [spec.name], name=f"{_INNER_PREFIX}{spec.name}")
            )
        else:
            rename_value(graph, inner, spec.name)
            named[inner] = spec.name
        graph.output.append(_declaration(spec, declared.get(inner)))


def _prefix(graph: onnx.GraphProto, signature: Signature, tensors: Mapping[str, str]) -> str:
    """Return the prefix that inner names need, so that none equals one of the signature's by chance."""
    inside = {name for node in nodes_of(graph) for name in (*node.input, *node.output)}
    inside |= {value.name for value in (*graph.initializer, *graph.input)}
    mine = {spec.name for spec in (*signature.inputs, *signature.outputs)}
    return _INNER_PREFIX if any(name in inside and tensors[name] != name for name in mine) else ""


def _declaration(spec: TensorSpec, converted: onnx.ValueInfoProto | None) -> onnx.ValueInfoProto:
    """Return the declaration of an input or output; tf2onnx drops that of an input that nothing reads."""
    value = onnx.ValueInfoProto(name=spec.name)
    element_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(spec.dtype))
    value.type.tensor_type.elem_type = converted.type.tensor_type.elem_type if converted else element_type
    declare(value, spec)
    return value
