"""Good models of TensorFlow's and TorchScript's formats to break: `framework_file_maker.py tensorflow|torch OUT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def make_tensorflow(out: Path) -> None:
    import keras
    import tensorflow as tf

    x = keras.Input((4,), name="x")
    keras.Model(x, keras.layers.Dense(3, name="y")(x)).save(out / "good.keras")
    keras.Model(x, keras.layers.Lambda(lambda t: t + 1, name="plus")(x)).save(out / "lambda.keras")

    keras.Sequential([keras.layers.Dense(3)]).save(out / "unbuilt.keras")

    rows = tf.TensorSpec([None, 4], name="x")

    def save(name: str, compute: Any, spec: tf.TensorSpec, *signatures: str) -> None:
        module = tf.Module()
        module.weight = tf.Variable(tf.ones([4, 3]))
        module.serve = tf.function(lambda x: {"y": compute(module, x)}, input_signature=[spec])
        served = dict.fromkeys(signatures or ("serving_default",), module.serve)
        tf.saved_model.save(module, str(out / name), signatures=served)

    @tf.function
    def writes(x: tf.Tensor) -> tf.Tensor:
        tf.raw_ops.WriteFile(filename="executed", contents="x")
        return x

    save("good", lambda m, x: x @ m.weight, rows)
    save("named", lambda m, x: x @ m.weight, rows, "embed", "classify")
    save("reads", lambda m, x: x + tf.cast(tf.strings.length(tf.io.read_file("/etc/hostname")), tf.float32), rows)
    save("hidden", lambda m, x: tf.cond(tf.reduce_sum(x) > 1e9, lambda: writes(x), lambda: x), rows)
    save("python", lambda m, x: tf.ensure_shape(tf.py_function(lambda t: t, [x], tf.float32), [None, 4]), rows)
    restore = {"prefix": "/other", "tensor_names": ["a"], "shape_and_slices": [""], "dtypes": [tf.float32]}
    save("restores", lambda m, x: x + tf.raw_ops.RestoreV2(**restore)[0][0], rows)
    save("measures", lambda m, x: x + tf.cast(tf.strings.length("ab"), tf.float32), rows)
    save("text", lambda m, x: x, tf.TensorSpec([None], tf.string, name="x"))
    features = {"x": tf.io.FixedLenFeature([4], tf.float32)}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    save("parses", lambda m, examples: tf.io.parse_example(examples, features)["x"], examples)
    save("shapeless", lambda m, x: tf.reduce_sum(x), tf.TensorSpec(None, name="x"))
    save("flex", lambda m, x: tf.math.erf(x), rows)
    (out / "good.tflite").write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(out / "good")).convert())
    converter = tf.lite.TFLiteConverter.from_saved_model(str(out / "flex"))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    (out / "flex.tflite").write_bytes(converter.convert())
    converter = tf.lite.TFLiteConverter.from_saved_model(str(out / "flex"))
    converter.allow_custom_ops = True
    (out / "custom.tflite").write_bytes(converter.convert())


def make_torch(out: Path) -> None:
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    class Listed(torch.nn.Module):
        def forward(self, many: list[torch.Tensor]) -> torch.Tensor:
            return torch.stack(many).sum(0)

    torch.jit.save(torch.jit.trace(Net().eval(), torch.randn(3, 4)), out / "good.pt")

    class Counts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x, x.shape[0]

    torch.jit.save(torch.jit.script(Listed()), out / "listed.pt")
    torch.jit.save(torch.jit.script(Counts()), out / "counts.pt")
    torch.save(Net().state_dict(), out / "weights.pt")
    torch.save(Net().state_dict(), out / "old.pt", _use_new_zipfile_serialization=False)
    torch.export.save(torch.export.export(Net(), (torch.randn(3, 4),)), out / "exported.pt2")


if __name__ == "__main__":
    {"tensorflow": make_tensorflow, "torch": make_torch}[sys.argv[1]](Path(sys.argv[2]))
