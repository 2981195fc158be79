"""Write a SavedModel with strings: `python strings_model.py FOLDER`."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf


class Words(tf.Module):
    """Looks words up, scores tf.Examples that the graph parses, and decodes images."""

    def __init__(self) -> None:
        keys = tf.lookup.KeyValueTensorInitializer(tf.constant(["cat", "dog"]), tf.constant([1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(keys, -1)
        self.weight = tf.Variable([[1.0, 2.0], [4.0, 0.5]])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def look_up(self, text: Any) -> Any:
        return {"id": self.table.lookup(text), "upper": tf.strings.upper(text)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def classify(self, inputs: Any) -> Any:
        features = {"x": tf.io.FixedLenFeature([2], tf.float32), "word": tf.io.FixedLenFeature([], tf.string, "")}
        example = tf.io.parse_example(inputs, features)
        scores = example["x"] @ self.weight
        labels = tf.stack([example["word"], tf.fill(tf.shape(example["word"]), "other")], 1)
        return {"classes": labels, "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="image_bytes")])
    def colour(self, image_bytes: Any) -> Any:
        def mean(data: Any) -> Any:
            return tf.reduce_mean(tf.cast(tf.io.decode_png(data, 3), tf.float32), [0, 1])

        return {"colour": tf.map_fn(mean, image_bytes, fn_output_signature=tf.float32)}


if __name__ == "__main__":
    words = Words()
    tf.saved_model.save(
        words,
        sys.argv[1],
        signatures={"serving_default": words.look_up, "classes": words.classify, "colour": words.colour},
    )
