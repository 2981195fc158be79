"""digits-vit: a vision transformer of three layers that names a handwritten digit (Dosovitskiy et al., 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recipe import Recipe, Training
from ..signature import Signature, TensorSpec
from ..training.objectives import accuracy, cross_entropy
from .digits import CLASSES, PIXELS, PREPROCESSING, as_images

if TYPE_CHECKING:
    import torch

WIDTH, HEADS, LAYERS, PATCH, TOKENS = 64, 4, 3, 2, 16


def net() -> torch.nn.Module:
    """Map an image (batch, 1, 8, 8) in 0..1 to logits (batch, 10): 16 patches, a class token, norm before each part."""
    import torch
    from torch import nn

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(1, WIDTH, 2 * PATCH, stride=PATCH, padding=PATCH // 2)
            self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
            self.positions = nn.Parameter(torch.randn(1, TOKENS + 1, WIDTH) * 0.02)
            self.layers = nn.Sequential(*(_encoder_layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, 10)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            tokens = self.patches(image).flatten(2).transpose(1, 2)  # (batch, 16, width)
            first = self.class_token.expand(tokens.shape[0], -1, -1)
            seen = self.layers(torch.cat([first, tokens], dim=1) + self.positions)
            logits: torch.Tensor = self.head(self.norm(seen[:, 0]))
            return logits

    return ViT()


def _encoder_layer() -> torch.nn.Module:
    from torch import nn
    from torch.nn import functional

    class EncoderLayer(nn.Module):
        """Attention and two linear layers, each added to its input, of tokens (batch, tokens, width)."""

        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(WIDTH)
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Linear(WIDTH, WIDTH)
            self.norm2 = nn.LayerNorm(WIDTH)
            self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            self.drop = nn.Dropout(0.1)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            batch, count = tokens.shape[0], tokens.shape[1]
            qkv = self.qkv(self.norm1(tokens)).reshape(batch, count, 3, HEADS, WIDTH // HEADS)
            query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (batch, heads, tokens, width / heads)
            mixed = functional.scaled_dot_product_attention(query, key, value)
            tokens = tokens + self.drop(self.out(mixed.transpose(1, 2).reshape(batch, count, WIDTH)))
            changed: torch.Tensor = self.drop(self.mlp(self.norm2(tokens)))
            return tokens + changed

    return EncoderLayer()


RECIPE = Recipe(
    name="digits-vit",
    summary="Handwritten digits, a small vision transformer",
    signature=Signature(
        (TensorSpec("image", "float32", ("batch", 1, 8, 8), values=PIXELS),),
        (TensorSpec("logits", "float32", ("batch", 10)),),
    ),
    net=net,
    data=as_images,
    metric=accuracy("logits"),
    training=Training(
        epochs=40,
        batch_size=64,
        learning_rate=2e-3,
        loss=cross_entropy("logits"),
        weight_decay=0.05,
        patience=12,
    ),
    allowed_loss=0.02,
    requires=("torch", "sklearn"),
    labels=CLASSES,
    preprocessing=PREPROCESSING,
)
