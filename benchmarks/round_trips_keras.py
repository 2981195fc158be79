"""The nets of the zoo's recipes as one writes them in Keras, with the weights that PyTorch has trained.

    python benchmarks/round_trips_keras.py RECIPE WEIGHTS.npz FILE.keras

They take what the recipes take, channels first, and turn it: so both can be asked the same (benchmarks/round_trips.py).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import layers

EPSILON = 1e-5  # of every norm in PyTorch; Keras has 1e-3
WIDTH, HEADS, LAYERS, TOKENS = 64, 4, 3, 16  # of digits-vit


class Trained:
    """Layers of Keras that have the weights of PyTorch's by their names there."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.weights = weights

    def dense(self, x: Any, name: str, /, **options: Any) -> Any:
        """nn.Linear; x (batch, ..., features)."""
        kernel, bias = self.weights[f"{name}.weight"].T, self.weights[f"{name}.bias"]
        return _with(layers.Dense(len(bias), **options), [kernel, bias], x)

    def conv(self, x: Any, name: str, /, **options: Any) -> Any:
        """nn.Conv2d; x (batch, height, width, channels)."""
        kernel = self.weights[f"{name}.weight"].transpose(2, 3, 1, 0)
        bias = [self.weights[f"{name}.bias"]] if f"{name}.bias" in self.weights else []
        return _with(layers.Conv2D(kernel.shape[3], kernel.shape[:2], use_bias=bool(bias), **options),
                     [kernel, *bias], x)  # fmt: skip

    def batch_norm(self, x: Any, name: str) -> Any:
        """nn.BatchNorm1d and 2d; channels last."""
        kinds = ("weight", "bias", "running_mean", "running_var")
        return _with(layers.BatchNormalization(epsilon=EPSILON), [self.weights[f"{name}.{kind}"] for kind in kinds], x)

    def layer_norm(self, x: Any, name: str) -> Any:
        """nn.LayerNorm of the last axis."""
        values = [self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]]
        return _with(layers.LayerNormalization(epsilon=EPSILON), values, x)

    def block(self, x: Any, conv: str, norm: str) -> Any:
        """A convolution of 3 x 3, its norm, and ReLU."""
        return layers.ReLU()(self.batch_norm(self.conv(x, conv, padding="same"), norm))

    def attention(self, x: Any, name: str) -> Any:
        """One product for queries, keys and values, as digits-vit has it, in Keras's three."""
        values = []
        for kernel, bias in zip(
            np.split(self.weights[f"{name}.qkv.weight"], 3), np.split(self.weights[f"{name}.qkv.bias"], 3), strict=True
        ):
            values += [kernel.T.reshape(WIDTH, HEADS, -1), bias.reshape(HEADS, -1)]
        values += [self.weights[f"{name}.out.weight"].T.reshape(HEADS, -1, WIDTH), self.weights[f"{name}.out.bias"]]
        layer = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        made = layer(x, x)
        layer.set_weights(values)
        return made

    def gru(self, x: Any, name: str, number: int) -> Any:
        """One layer of nn.GRU(bidirectional=True), batch first."""
        values: list[Any] = []
        for end in (f"l{number}", f"l{number}_reverse"):
            values += [_gates(self.weights[f"{name}.weight_{kind}_{end}"]).T for kind in ("ih", "hh")]
            values.append(np.stack([_gates(self.weights[f"{name}.bias_{kind}_{end}"]) for kind in ("ih", "hh")]))
        units = len(self.weights[f"{name}.weight_hh_l0"]) // 3
        return _with(layers.Bidirectional(layers.GRU(units, return_sequences=True)), values, x)


def _with(layer: Any, values: list[Any], x: Any) -> Any:
    """What a layer gives for x, once it has these weights."""
    made = layer(x)
    layer.set_weights(values)
    return made


def _gates(values: Any) -> Any:
    """PyTorch's order of reset, update and new as Keras's: update, reset, new."""
    reset, update, new = np.split(values, 3)
    return np.concatenate([update, reset, new])


def digits_cnn(net: Trained) -> keras.Model:
    """As models/zoo/digits_cnn.py."""
    image = keras.Input((1, 8, 8), name="image")
    x = net.block(net.block(layers.Permute((2, 3, 1))(image), "0", "1"), "3", "4")
    x = layers.MaxPooling2D()(net.block(layers.MaxPooling2D()(x), "7", "8"))
    x = net.dense(layers.Flatten()(layers.Permute((3, 1, 2))(x)), "12", activation="relu")
    return keras.Model(image, net.dense(x, "15", name="logits"))


def digits_vit(net: Trained) -> keras.Model:
    """As models/zoo/digits_vit.py. The class token is an empty one, and what it holds is added with the positions."""
    image = keras.Input((1, 8, 8), name="image")
    x = net.conv(layers.ZeroPadding2D(1)(layers.Permute((2, 3, 1))(image)), "patches", strides=2)
    x = layers.ZeroPadding1D((1, 0))(layers.Reshape((TOKENS, WIDTH))(x))
    places = np.array(net.weights["positions"])
    places[:, :1] += net.weights["class_token"]
    x = keras.ops.add(x, places)
    for at in range(LAYERS):
        name = f"layers.{at}"
        x = layers.Add()([x, net.attention(net.layer_norm(x, f"{name}.norm1"), name)])
        wide = net.dense(net.layer_norm(x, f"{name}.norm2"), f"{name}.mlp.0", activation="gelu")
        x = layers.Add()([x, net.dense(wide, f"{name}.mlp.2")])
    return keras.Model(image, net.dense(net.layer_norm(x[:, 0], "norm"), "head", name="logits"))


def digits_gru(net: Trained) -> keras.Model:
    """As models/zoo/digits_gru.py."""
    rows = keras.Input((8, 8), name="rows")
    read = net.gru(net.gru(rows, "gru", 0), "gru", 1)
    return keras.Model(rows, net.dense(layers.GlobalAveragePooling1D()(read), "head", name="logits"))


def digits_pair(net: Trained) -> keras.Model:
    """As models/zoo/digits_pair.py: one encoder, called twice."""
    image = keras.Input((1, 8, 8))
    x = net.block(net.block(layers.Permute((2, 3, 1))(image), "encoder.0", "encoder.1"), "encoder.3", "encoder.4")
    x = layers.MaxPooling2D()(net.block(layers.MaxPooling2D()(x), "encoder.7", "encoder.8"))
    seen = net.dense(layers.Flatten()(layers.Permute((3, 1, 2))(x)), "encoder.12", activation="relu")
    encoder = keras.Model(image, seen, name="encoder")
    left, right = keras.Input((1, 8, 8), name="left"), keras.Input((1, 8, 8), name="right")
    both = layers.Concatenate()([encoder(left), encoder(right)])
    return keras.Model([left, right], net.dense(net.dense(both, "head.0", activation="relu"), "head.2", name="logits"))


def breast_cancer_mlp(net: Trained) -> keras.Model:
    """As models/zoo/breast_cancer_mlp.py."""
    features = keras.Input((30,), name="features")
    x = layers.ReLU()(net.batch_norm(net.dense(features, "0"), "1"))
    x = layers.ReLU()(net.batch_norm(net.dense(x, "4"), "5"))
    return keras.Model(features, net.dense(x, "8", name="logits"))


NETS: dict[str, Callable[[Trained], keras.Model]] = {
    "digits-cnn": digits_cnn,
    "digits-vit": digits_vit,
    "digits-gru": digits_gru,
    "digits-pair": digits_pair,
    "breast-cancer-mlp": breast_cancer_mlp,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", choices=NETS)
    parser.add_argument("weights")
    parser.add_argument("file")
    options = parser.parse_args()
    NETS[options.recipe](Trained(np.load(options.weights))).save(options.file)
