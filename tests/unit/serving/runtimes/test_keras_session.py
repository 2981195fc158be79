"""What Keras declares of its answers, and what it gives: dense tensors of the declared dtype."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.readers.keras.keras_reader import import_keras
from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.store import digest_of
from transload.serving.runtimes.keras_session import open_session
from transload.serving.session import Session

# Keras 3.15 asks h5py for weights in a way that numpy 2.4 deprecates.
of_keras = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def opened(model: Any, folder: Path) -> Session:
    path = folder / "m.keras"
    model.save(path)
    (folder / "given").mkdir()
    import_keras(Job({}, folder / "given", {"path": str(path), "sha256": digest_of(path)}))
    return open_session(folder / "given", "cpu", 1)


@of_keras
def test_a_product_with_a_number_is_dense_whatever_keras_calls_it(tmp_path: Path) -> None:
    import keras

    x = keras.Input((3,), name="x")
    model = keras.Model(x, {"double": x * 2})
    assert model.output["double"].sparse  # so says Keras 3.15
    rows = np.array([[1, 2, 3]], np.float32)
    np.testing.assert_array_equal(opened(model, tmp_path).run({"x": rows})["double"], rows * 2)


@of_keras
def test_an_answer_that_is_sparse_is_refused_by_name(tmp_path: Path) -> None:
    import keras

    x = keras.Input((3,), name="x")
    bins = keras.layers.Discretization([0.0, 1.0], output_mode="one_hot", sparse=True, name="bins")(x)
    session = opened(keras.Model(x, bins), tmp_path)
    with pytest.raises(BadRequest) as caught:
        session.run({"x": np.array([[1, 2, 3]], np.float32)})
    assert caught.value.what == "the model's output bins is a sparse or ragged tensor"
    assert caught.value.fix == "save a model of dense tensors"


@of_keras
def test_a_resized_picture_of_bytes_is_in_floats_as_predict_has_it(tmp_path: Path) -> None:
    """In a model in a model, too; called without a graph such a layer rounds to bytes."""
    import keras

    inner = keras.Input((None, None, 1), dtype="uint8")
    resized = keras.Model(inner, keras.layers.Resizing(4, 4)(inner))
    photo = keras.Input((None, None, 1), dtype="uint8", name="photo")
    model = keras.Model(photo, keras.layers.Rescaling(1 / 255)(resized(photo)))
    pixels = np.arange(9, dtype=np.uint8).reshape(1, 3, 3, 1) * 28
    (got,) = opened(model, tmp_path).run({"photo": pixels}).values()
    np.testing.assert_allclose(got, model.predict(pixels, verbose=0), rtol=1e-6)
    assert len(np.unique(got * 255 % 1 > 0.1)) == 2
