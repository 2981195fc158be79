"""Models of TensorFlow for the tests of converters, and steps that are called as a worker calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.models.job import Job
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import TensorSpec
from transload.models.store import digest_of

Step = Callable[[Job], Mapping[str, Any]]


class TensorFlowModels:
    """Makes models of TensorFlow, calls the converters' steps on them, and compares the results."""

    def save(self, folder: Path, compute: Callable[..., Any], *specs: Any) -> Path:
        """Save a function as a SavedModel."""
        import tensorflow as tf

        module = tf.Module()
        module.serve = tf.function(compute, input_signature=list(specs))
        tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
        return folder

    def to_tflite(self, folder: Path, path: Path) -> Path:
        """Write a SavedModel as a TFLite file."""
        import tensorflow as tf

        path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder)).convert())
        return path

    def edit_tflite(self, path: Path, change: Callable[[Any], None]) -> None:
        """Change the model in a TFLite file."""
        from ai_edge_litert import schema_py_generated as schema
        from flatbuffers import Builder

        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
        change(model)
        builder = Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))

    def import_file(self, entry: Step, path: Path, out: Path, *inputs: TensorSpec) -> Path:
        """Take a file in by its step, and return the artifact's folder."""
        out.mkdir()
        options = {"path": str(path), "sha256": digest_of(path), "inputs": [spec.to_json() for spec in inputs]}
        entry(Job({}, out, options))
        return out

    def convert(self, entry: Step, source: Path, out: Path) -> Path:
        """Convert an artifact by a step, and return the result's folder."""
        out.mkdir()
        entry(Job({"source": source}, out))
        return out

    def assert_agrees(self, session: Any, reference: Any, least_db: float = 100) -> None:
        """Compare two sessions at batches 1, 2 and 5, in names, order, shapes, dtypes and values."""
        specs = reference.signature.inputs
        for batch in (1, 2, 5):
            open_axes = {axis for spec in specs for axis in spec.dynamic_axes.values()}
            feeds = sample_tensors(specs, {axis: batch if axis == "batch" else batch + 5 for axis in open_axes}, batch)
            want, got = reference.run(feeds), session.run(feeds)
            assert list(got) == list(want)
            for name, value in want.items():
                assert (got[name].shape, got[name].dtype) == (value.shape, value.dtype)
                noise = float(np.linalg.norm(got[name].astype(np.float64) - value))
                assert 20 * np.log10(np.linalg.norm(value.astype(np.float64)) / max(noise, 1e-30)) > least_db, name


@pytest.fixture
def tf_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TensorFlowModels:
    """The maker of models, in a current folder of its own, as a worker has one: steps leave files in it."""
    monkeypatch.chdir(tmp_path)
    return TensorFlowModels()
