"""Scripts for pieces of SavedModels and TFLite files, which lie beside them as graphs and as files.

They need only TensorFlow, or tf2onnx with ONNX Runtime if that fails. The script of another step, or of operators that
our step patches, needs transload.
"""

from __future__ import annotations

import pprint
import re
from collections.abc import Sequence
from typing import TypeAlias

from ...converters.minimal_repro.saved_model_pieces import SavedModelPiece
from ...converters.minimal_repro.tflite_pieces import TflitePiece
from ...converters.patches.tf2onnx.registry import REPLACED_OPERATORS
from ...converters.to_onnx.onnx_from_tensorflow import OPSET
from ...models.signature import TensorSpec
from .script import convert_by_step
from .search_records import SearchOptions

_TF2ONNX = """
from pathlib import Path

import numpy as np
import onnxruntime
import tensorflow as tf
from tf2onnx import optimizer
from tf2onnx.tfonnx import process_tf_graph

MODEL = Path(__file__).resolve().with_suffix("{suffix}")
DATA = np.load(MODEL.with_suffix(".npz"))
# What the tensors are called in the model, by name.
INPUTS = {inputs}
OUTPUTS = {outputs}


def convert_and_run(inputs):
    fed, given = list(INPUTS.values()), list(OUTPUTS.values())
    with tf.Graph().as_default() as graph:
        {made}
    model = optimizer.optimize_graph(made).make_model("piece")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    taken = [each.name for each in session.get_inputs()]
    feeds = {{INPUTS[name]: array for name, array in inputs.items() if INPUTS[name] in taken}}
    return dict(zip(OUTPUTS, session.run(given, feeds)))
"""
_MADE = {
    ".pb": f"""tf.import_graph_def(tf.compat.v1.GraphDef.FromString(MODEL.read_bytes()), name="")
        made = process_tf_graph(graph, opset={OPSET}, input_names=fed, output_names=given)""",
    ".tflite": f"""made = process_tf_graph(
            None, opset={OPSET}, input_names=fed, output_names=given, tflite_path=str(MODEL)
        )""",
}

_TFLITE = """
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

MODEL = Path(__file__).resolve().with_suffix(".pb")
DATA = np.load(MODEL.with_suffix(".npz"))
INPUTS = [
{specs}
]
# What the tensors are called in the graph, by name.
OUTPUTS = {outputs}


@tf.function(input_signature=INPUTS, autograph=False)
def piece(*inputs):
    graph = tf.compat.v1.GraphDef.FromString(MODEL.read_bytes())
    nodes = [node for node in graph.node if node.op != "Placeholder"]
    graph = tf.compat.v1.GraphDef(node=nodes, library=graph.library, versions=graph.versions)
    fed = dict(zip([spec.name for spec in INPUTS], inputs))
    return dict(zip(OUTPUTS, tf.graph_util.import_graph_def(graph, fed, list(OUTPUTS.values()), name="")))


def convert_and_run(inputs):
    with tempfile.TemporaryDirectory() as folder:
        module = tf.Module()
        module.piece = piece
        tf.saved_model.save(module, folder, signatures={{"serving_default": piece}})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [{kernels}]
        converter.canonicalizing_inf_as_min_max_float = False
{precision}        flat = converter.convert()
    return tf.lite.Interpreter(model_content=flat).get_signature_runner()(**inputs)
"""
_PRECISIONS = {
    "tflite:fp16": """\
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
""",
    "tflite:int8-dynamic": """\
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
""",
}

_WRITE = """write_saved_model(
            given / "saved_model",
            tf.compat.v1.GraphDef.FromString(MODEL.read_bytes()),
            SIGNATURE,
            {tensors},
        )"""
_IMPORTS = """import tensorflow as tf
from transload.converters.minimal_repro.saved_model_pieces import write_saved_model
"""


TensorFlowPiece: TypeAlias = SavedModelPiece | TflitePiece


def convert_tensorflow(options: SearchOptions, piece: TensorFlowPiece) -> str:
    """Return the conversion of a piece of a SavedModel or TFLite file by the step in the options of a search."""
    step = re.split(r"[-@]", options.step)[0]  # without precision and variant: tf2onnx-tflite is tf2onnx
    if step == "tf2onnx" and REPLACED_OPERATORS.isdisjoint(piece.runs):
        inputs, outputs = (_format_names(specs, piece) for specs in (piece.signature.inputs, piece.signature.outputs))
        return _TF2ONNX.format(inputs=inputs, outputs=outputs, made=_MADE[piece.suffix], suffix=piece.suffix)
    if isinstance(piece, TflitePiece):
        return convert_by_step(options, piece)
    if step == "tflite":
        return _convert_by_tflite(options, piece)
    return convert_by_step(options, piece, _WRITE.format(tensors=dict(piece.tensors)), _IMPORTS)


def _format_names(specs: Sequence[TensorSpec], piece: TensorFlowPiece) -> str:
    return pprint.pformat({spec.name: piece.tensors[spec.name] for spec in specs}, width=100, sort_dicts=False)


def _convert_by_tflite(options: SearchOptions, piece: TensorFlowPiece) -> str:
    signature = piece.signature
    shapes = [[axis if isinstance(axis, int) else None for axis in spec.shape] for spec in signature.inputs]
    specs = [
        f"    tf.TensorSpec({shape}, tf.{spec.dtype}, name={spec.name!r}),"
        for shape, spec in zip(shapes, signature.inputs, strict=True)
    ]
    kernels = ["TFLITE_BUILTINS", *(["SELECT_TF_OPS"] if options.chain[-1][1].get("flex") else [])]
    return _TFLITE.format(
        specs="\n".join(specs),
        outputs=_format_names(signature.outputs, piece),
        kernels=", ".join(f"tf.lite.OpsSet.{kernel}" for kernel in kernels),
        precision=_PRECISIONS.get(options.target, ""),
    )
