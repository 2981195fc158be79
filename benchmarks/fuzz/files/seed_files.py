"""Write the good files that cases are mutations of: `python seed_files.py plain|torch|tensorflow OUT`."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
FRAMEWORKS = ("plain", "torch", "tensorflow")
CSV = "a,b,c,d,label\n" + "".join(f"{row},{row + 1},0.5,-{row},{row % 2}\n" for row in range(8))
PIPELINE = """data = "samples.npz"
device = "cpu"
[model]
recipe = "zoo:digits-cnn"
seconds = 20.0
[model.set]
width = 4
[train]
seed = 1
epochs = 2
[convert]
targets = ["onnx", "tflite:int8"]
keep_float = "auto"
[validate]
runtimes = ["onnxruntime"]
batches = [1, 2]
metric = "accuracy"
[bench]
rounds = 3
budget_s = 1
[gate]
require_verified = true
latency_p99 = 0.5
"""
MODELS = """model_config_list {
  config { name: "m" base_path: "d" model_platform: "tensorflow"
    model_version_policy { specific { versions: 1 versions: 2 } }
    version_labels { key: "stable" value: 1 } }
  config { name: "n" base_path: "/e" model_version_policy { latest { num_versions: 2 } } }
}
"""
BATCHING = """max_batch_size { value: 8 }
batch_timeout_micros { value: 1000 }
max_enqueued_batches { value: 4 }
num_batch_threads { value: 1 }
allowed_batch_sizes: 2
allowed_batch_sizes: 8
"""


def make_plain(out: Path) -> None:
    """Write what needs no framework: data, records, texts, ONNX, images, tables."""
    from tests.contract.artifact_maker import make_onnx
    from tests.hostile.corpus.folder_files import _golden as golden
    from tests.hostile.corpus.onnx_files import good_onnx
    from tests.unit.pipeline.show import samples
    from transload.pipeline.result.schema import to_json

    arrays: dict[str, Any] = {"x": np.arange(32, dtype=np.float32).reshape(8, 4), "labels": np.arange(8) % 2}
    np.savez(out / "arrays.npz", allow_pickle=False, **arrays)
    np.savez_compressed(out / "packed.npz", allow_pickle=False, **arrays)
    (out / "table.csv").write_text(CSV)
    _write_parquet(out / "table.parquet")
    _write_images(out)
    (out / "good.onnx").write_bytes(good_onnx().SerializeToString())
    make_onnx(out / "contract")
    (out / "contract.onnx").write_bytes((out / "contract" / "onnx" / "model.onnx").read_bytes())
    (out / "contract.json").write_bytes((out / "contract" / "onnx" / "artifact.json").read_bytes())
    (out / "run.json").write_bytes(to_json(samples.result()))
    (out / "pipeline.toml").write_text(PIPELINE)
    (out / "models.config").write_text(MODELS)
    (out / "batching.config").write_text(BATCHING)
    (out / "golden.json").write_text(golden())
    shards = {"metadata": {"total_size": 60}, "weight_map": {"a.w": "w-1.safetensors", "a.b": "w-2.bin"}}
    (out / "model.safetensors.index.json").write_text(json.dumps(shards))
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 10, "max_position_embeddings": 8,
              "layers": [{"n": 2}], "time_step_limit": [0.0, {"__float__": "Infinity"}]}  # fmt: skip
    (out / "config.json").write_text(json.dumps(config))
    _write_external(out)


def _write_parquet(path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"x": [[float(row), 1.0, 2.0, 3.0] for row in range(8)], "label": ["a", "b"] * 4}
    parquet.write_table(pa.table(columns), path)


def _write_images(out: Path) -> None:
    from PIL import Image

    image = Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))
    for suffix in ("png", "jpg", "gif", "bmp", "tiff", "webp"):
        image.save(out / f"image.{suffix}")


def _write_external(out: Path) -> None:
    """Write an ONNX file with a data file beside it."""
    from tests.hostile.corpus.onnx_files import good_onnx

    model = good_onnx()
    weights = model.graph.initializer[0]
    (out / "w.bin").write_bytes(weights.raw_data)
    weights.ClearField("raw_data")
    weights.data_location = 1
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "48")):
        weights.external_data.add(key=key, value=value)
    (out / "external.onnx").write_bytes(model.SerializeToString())


def make_torch(out: Path) -> None:
    """Write programs, archives and weights of PyTorch."""
    import torch
    from safetensors.torch import save_file

    from tests.contract.artifact_maker import make_torch as make_contract
    from tests.hostile.archive_samples import write_good
    from tests.hostile.framework_file_maker import make_torch as make_proxy

    write_good(out / "made")
    make_proxy(out / "made")
    make_contract(out / "contract")
    for name in ("good.pt2", "weights.pt", "old.pt", "good.pt"):
        (out / name).write_bytes((out / "made" / name).read_bytes())
    (out / "contract.pt2").write_bytes((out / "contract" / "pt2" / "model.pt2").read_bytes())
    (out / "contract.pt").write_bytes((out / "contract" / "torchscript" / "model.pt").read_bytes())
    state = {"inner.weight": torch.ones(3, 4), "inner.bias": torch.zeros(3)}
    save_file(state, out / "weights.safetensors")
    half = {"a": torch.ones(2, dtype=torch.bfloat16), "n": torch.tensor(7), "e": torch.empty(0, 3)}
    _write_transformers(out / "transformers")
    torch.save({"state_dict": state, "epoch": 3, "hyper_parameters": {"depth": 2}, "ema": half}, out / "lightning.ckpt")


def _write_transformers(folder: Path) -> None:
    """Write a small model as save_pretrained does."""
    from transload.models.loading.torchvision_ops import register_torchvision_stubs

    register_torchvision_stubs()
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(**sizes, vocab_size=12, max_position_embeddings=8)).save_pretrained(folder)


def make_tensorflow(out: Path) -> None:
    """Write SavedModels, TFLite and Keras files."""
    import keras

    from tests.contract.artifact_maker import make_tensorflow as make_contract
    from tests.hostile.framework_file_maker import make_tensorflow as make_proxy

    make_proxy(out / "made")
    make_contract(out / "contract")
    for name in ("good.keras", "good.tflite", "flex.tflite"):
        (out / name).write_bytes((out / "made" / name).read_bytes())
    (out / "contract.tflite").write_bytes((out / "contract" / "tflite" / "model.tflite").read_bytes())
    x = keras.Input((6, 4), name="x")
    y = keras.layers.LSTM(3)(keras.layers.Conv1D(4, 2, activation="relu")(x))
    model = keras.Model(x, {"y": keras.layers.Dense(2)(y), "z": keras.layers.Flatten()(x)})
    model.save(out / "deep.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(out / "model.h5")
    shutil.copytree(out / "made" / "good", out / "saved")
    shutil.copytree(out / "contract" / "saved-model" / "saved_model", out / "served")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "typings"), str(ROOT)]
    makers = {"plain": make_plain, "torch": make_torch, "tensorflow": make_tensorflow}
    (Path(sys.argv[2]) / "made").mkdir(parents=True)
    makers[sys.argv[1]](Path(sys.argv[2]))
