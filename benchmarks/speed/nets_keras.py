"""The nets of nets_torch.py, written in Keras as one writes them there: channels last, functional."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers
from nets_table import CLASSES, HEADS, LAYERS, MOBILE, TOKENS, VOCABULARY, WIDTH, Block


def resnet50() -> keras.Model:
    """ResNet-50 v1.5."""
    image = keras.Input((224, 224, 3), name="image")
    x = layers.ReLU()(_conv(layers.ZeroPadding2D(3)(image), 64, 7, 2, "valid"))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for stage, depth in enumerate((3, 4, 6, 3)):
        for at in range(depth):
            x = _bottleneck(x, 64 << stage, 2 if stage and not at else 1)
    return keras.Model(image, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


def mobilenet_v3() -> keras.Model:
    """MobileNetV3-Large."""
    image = keras.Input((224, 224, 3), name="image")
    x = _swish(_conv(image, 16, 3, 2))
    for block in MOBILE:
        x = _inverted(x, block)
    x = layers.GlobalAveragePooling2D()(_swish(_conv(x, 960, 1)))
    return keras.Model(image, layers.Dense(CLASSES)(_swish(layers.Dense(1280)(x))))


def transformer() -> keras.Model:
    """The encoder over 128 tokens."""
    tokens = keras.Input((TOKENS,), dtype="int64", name="tokens")
    x = Places()(layers.Embedding(VOCABULARY, WIDTH)(tokens))
    for _ in range(LAYERS):
        given = layers.LayerNormalization(epsilon=1e-5)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(given, given)])
        wide = layers.Dense(4 * WIDTH, activation=lambda t: keras.activations.gelu(t, approximate=False))
        x = layers.Add()([x, layers.Dense(WIDTH)(wide(layers.LayerNormalization(epsilon=1e-5)(x)))])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-5)(x))
    return keras.Model(tokens, layers.Dense(10)(x))


class Places(layers.Layer):
    """Adds what the places of the tokens say; a name that begins with _ cannot be saved."""

    def build(self, shape: Any) -> None:
        """One row for each place."""
        self.places = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, x: Any) -> Any:
        """With the places."""
        return x + self.places


def _swish(x: Any) -> Any:
    return layers.Activation("hard_swish")(x)


def _conv(x: Any, width: int, kernel: int, stride: int = 1, padding: str = "same") -> Any:
    if padding == "same" and stride > 1 and kernel > 1:  # PyTorch pads both sides alike
        x, padding = layers.ZeroPadding2D(kernel // 2)(x), "valid"
    return _norm(layers.Conv2D(width, kernel, stride, padding, use_bias=False)(x))


def _norm(x: Any) -> Any:
    return layers.BatchNormalization(
        epsilon=1e-5, beta_initializer="random_normal", moving_mean_initializer="random_normal"
    )(x)


def _bottleneck(x: Any, width: int, stride: int) -> Any:
    short = _conv(x, 4 * width, 1, stride) if stride > 1 or x.shape[-1] != 4 * width else x
    y = layers.ReLU()(_conv(x, width, 1))
    y = layers.ReLU()(_conv(y, width, 3, stride))
    return layers.ReLU()(layers.Add()([_conv(y, 4 * width, 1), short]))


def _inverted(x: Any, block: Block) -> Any:
    kernel, wide, stride = block.kernel, block.wide, block.stride
    act = _swish if block.swish else layers.ReLU()
    inner = x.shape[-1]
    y = act(_conv(x, wide, 1)) if wide != inner else x
    padding = "same"
    if stride > 1:
        y, padding = layers.ZeroPadding2D(kernel // 2)(y), "valid"
    y = act(_norm(layers.DepthwiseConv2D(kernel, stride, padding, use_bias=False)(y)))
    if block.excite:
        seen = layers.GlobalAveragePooling2D(keepdims=True)(y)
        seen = layers.Conv2D(wide // 4, 1, activation="relu")(seen)
        y = layers.Multiply()([y, layers.Activation("hard_sigmoid")(layers.Conv2D(wide, 1)(seen))])
    y = _conv(y, block.outer, 1)
    return layers.Add()([x, y]) if stride == 1 and inner == block.outer else y
