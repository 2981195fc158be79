"""Make the contract's model in one framework's formats: `python artifact_maker.py torch|onnx|tensorflow OUT`.

    inputs   values float32[batch,2,3], ids int64[batch,4], keep bool[batch]
    outputs  zeta = keep ? values * scale : -values;  alpha = ids * 2 + 1;  count = sum of values, a scalar a sample;
             same = values as they came;  scale = the weights as they are

Neither inputs nor outputs are in the order of the alphabet. Each framework in a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from transload.converters.third_party import KNOWN_STEPS
from transload.models.artifact import write_artifact
from transload.models.extensible_table import load_entry
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec

SIGNATURE = Signature(
    (
        TensorSpec("values", "float32", ("batch", 2, 3)),
        TensorSpec("ids", "int64", ("batch", 4)),
        TensorSpec("keep", "bool", ("batch",)),
    ),
    (
        TensorSpec("zeta", "float32", ("batch", 2, 3)),
        TensorSpec("alpha", "int64", ("batch", 4)),
        TensorSpec("count", "float32", ("batch",)),
        TensorSpec("same", "float32", ("batch", 2, 3)),
        TensorSpec("scale", "float32", (3,)),
    ),
)
SCALE = (0.5, -3.0, 7.0)
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([0.5, -3.0, 7.0]))

    def forward(self, values, ids, keep):
        zeta = torch.where(keep[:, None, None], values * self.scale, -values)
        return zeta, ids.mul_(2).add_(1), values.sum((1, 2)), values, self.scale  # writes into its input
"""


def made(root: Path, form: Format) -> Path:
    folder = root / form
    folder.mkdir(parents=True)
    return folder


def record(folder: Path, form: Format) -> None:
    write_artifact(folder, Target(form), SIGNATURE)


def make_torch(root: Path) -> None:
    import torch

    from transload.models.sources import CodeRef, Source, write_source

    source = root / "source"
    source.mkdir(parents=True)
    (source / "net.py").write_text(NET)
    write_source(source, Source(CodeRef(f"{source / 'net.py'}:Net"), SIGNATURE, "0" * 64))
    space: dict[str, type] = {}
    exec(compile(NET, "net.py", "exec"), space)  # noqa: S102  (the text above)
    net = space["Net"]().eval().requires_grad_(False)
    example = (torch.ones(3, 2, 3), torch.ones(3, 4, dtype=torch.int64), torch.ones(3, dtype=torch.bool))
    folder = made(root, Format.TORCHSCRIPT)
    torch.jit.save(torch.jit.freeze(torch.jit.trace(net, example)), folder / Format.TORCHSCRIPT.spec.payload)
    record(folder, Format.TORCHSCRIPT)
    folder = made(root, Format.PT2)
    dynamic = tuple({0: torch.export.Dim.DYNAMIC} for _ in example)
    torch.export.save(torch.export.export(net, example, dynamic_shapes=dynamic), folder / Format.PT2.spec.payload)
    record(folder, Format.PT2)


def make_onnx(root: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
    node = helper.make_node
    nodes = [
        node("Mul", ["values", "w"], ["scaled"]),
        node("Neg", ["values"], ["negative"]),
        node("Unsqueeze", ["keep", "axes"], ["mask"]),
        node("Where", ["mask", "scaled", "negative"], ["zeta"]),
        node("Mul", ["ids", "two"], ["twice"]),
        node("Add", ["twice", "one"], ["alpha"]),
        # Joined to the nodes above, as OpenVINO's provider does not take a node that stands alone.
        node("ReduceSum", ["negative", "axes"], ["less"], keepdims=0),
        node("Neg", ["less"], ["count"]),
        node("Identity", ["values"], ["same"]),
        node("Identity", ["w"], ["scale"]),
    ]
    weights = {
        "w": np.array(SCALE, np.float32),
        "axes": np.array([1, 2], np.int64),
        "two": np.int64(2),
        "one": np.int64(1),
    }
    graph = helper.make_graph(
        nodes,
        "contract",
        [helper.make_tensor_value_info(spec.name, kinds[spec.dtype], spec.shape) for spec in SIGNATURE.inputs],
        [helper.make_tensor_value_info(spec.name, kinds[spec.dtype], spec.shape) for spec in SIGNATURE.outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    folder = made(root, Format.ONNX)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / Format.ONNX.spec.payload)
    record(folder, Format.ONNX)


def make_tensorflow(root: Path) -> None:
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tf.Variable(np.array(SCALE, np.float32))

        @tf.function(
            input_signature=[
                tf.TensorSpec([None if isinstance(a, str) else a for a in s.shape], s.dtype, s.name)
                for s in SIGNATURE.inputs
            ]
        )
        def serve(self, values: tf.Tensor, ids: tf.Tensor, keep: tf.Tensor) -> dict[str, tf.Tensor]:
            return {
                "zeta": tf.where(keep[:, None, None], values * self.scale, -values),
                "alpha": ids * 2 + 1,
                "count": tf.reduce_sum(values, [1, 2]),
                "same": tf.identity(values),
                "scale": tf.identity(self.scale),
            }

    net = Net()
    folder = made(root, Format.SAVED_MODEL)
    path = folder / Format.SAVED_MODEL.spec.payload
    tf.saved_model.save(net, str(path), signatures={"serving_default": net.serve})
    record(folder, Format.SAVED_MODEL)
    folder = made(root, Format.TFLITE)
    (folder / Format.TFLITE.spec.payload).write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(path)).convert())
    record(folder, Format.TFLITE)


def make_keras(root: Path) -> None:
    import keras
    from keras import ops

    values, ids, keep = (keras.Input(spec.shape[1:], dtype=spec.dtype, name=spec.name) for spec in SIGNATURE.inputs)
    # Whatever a Keras model gives must come of what it takes: the weights are added to nothing.
    scale = ops.sum(ops.zeros_like(values), (0, 1)) + np.array(SCALE, np.float32)
    outputs = {
        "zeta": ops.where(ops.reshape(keep, (-1, 1, 1)), values * np.array(SCALE, np.float32), -values),
        "alpha": ids * 2 + 1,
        "count": ops.sum(values, (1, 2)),
        "same": values,
        "scale": scale,
    }
    folder = made(root, Format.KERAS)
    keras.Model([values, ids, keep], outputs).save(folder / Format.KERAS.spec.payload)
    record(folder, Format.KERAS)


def make_by_step(root: Path, form: str) -> None:
    """Of a package: by its step from ONNX."""
    with tempfile.TemporaryDirectory() as work:
        make_onnx(Path(work))
        step = next(step for step in KNOWN_STEPS.values() if step.target == Target(Format(form)))
        load_entry(step.entry)(Job({"source": Path(work, "onnx")}, made(root, Format(form)), {}))


MAKERS = {"torch": make_torch, "onnx": make_onnx, "tensorflow": make_tensorflow, "keras": make_keras}
if __name__ == "__main__":
    name, out = sys.argv[1], Path(sys.argv[2])
    MAKERS[name](out) if name in MAKERS else make_by_step(out, name)
