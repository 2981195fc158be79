"""A net in Keras as a SavedModel and as TFLite: python make_keras.py NET FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import nets_keras
import tensorflow as tf


def main() -> None:
    """Write FOLDER/saved and FOLDER/model.tflite, with a dynamic batch, as Keras and TensorFlow write them."""
    net, folder = sys.argv[1], Path(sys.argv[2])
    model = getattr(nets_keras, net)()
    model.export(str(folder / "saved"), verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved"))
    (folder / "model.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()
