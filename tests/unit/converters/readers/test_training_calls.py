"""Layers of a Keras model that are called with training=True: `predict` does not follow that, and a note says so."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.converters.readers.keras.keras_reader import import_keras
from transload.models.job import Job
from transload.models.store import digest_of

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def _noise(x: Any, **options: Any) -> Any:
    import keras

    return keras.layers.Dropout(0.5, name="noise")(x, **options)


def _inside(x: Any, **options: Any) -> Any:
    import keras

    held = keras.Input((3,))
    return keras.Model(held, keras.layers.BatchNormalization(name="norm")(held, **options), name="block")(x)


def _whole(x: Any, **options: Any) -> Any:
    import keras

    held = keras.Input((3,))
    return keras.Model(held, keras.layers.Dense(2)(_noise(held)), name="block")(x, **options)


@pytest.mark.parametrize(("part", "name"), [(_noise, "noise"), (_inside, "norm"), (_whole, "block")])
def test_layers_that_are_called_in_training_are_named(part: Callable[..., Any], name: str, tmp_path: Path) -> None:
    (note,) = _notes_of(part, tmp_path, training=True)
    assert note == (
        f"called with training=True: {name}. model(x) follows that, and model.predict does not: copies answer as "
        "model.predict does, without dropout and by the recorded averages"
    )


@pytest.mark.parametrize("options", [{}, {"training": False}])
@pytest.mark.parametrize("part", [_noise, _inside, _whole])
def test_layers_that_are_called_as_usual_are_not(part: Callable[..., Any], options: Any, tmp_path: Path) -> None:
    assert _notes_of(part, tmp_path, **options) == []


def _notes_of(part: Callable[..., Any], root: Path, **options: Any) -> list[str]:
    import keras

    x = keras.Input((3,), name="x")
    path = root / "m.keras"
    keras.Model(x, part(x, **options)).save(path)
    (root / "model").mkdir()
    return list(import_keras(Job({}, root / "model", {"path": str(path), "sha256": digest_of(path)})).get("notes", []))
