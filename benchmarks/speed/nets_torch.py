"""The nets whose conversion and speed are measured, with random weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES, TOKENS = 1000, 128


def resnet50() -> nn.Module:
    """ResNet-50 v1.5 (He et al. 2015; the stride is in the 3x3 convolution)."""
    return _settled(_ResNet((3, 4, 6, 3)))


def bert_base() -> nn.Module:
    """An encoder of BERT-base's size: 12 layers of width 768, 12 heads, 128 tokens."""
    return _settled(_Encoder(width=768, heads=12, layers=12, vocabulary=30522))


def digits_cnn() -> nn.Module:
    """The net of the digits recipe."""
    return nn.Sequential(
        _conv(1, 32, 3), nn.ReLU(), _conv(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128),
        nn.ReLU(), nn.Linear(128, 10),
    ).eval()  # fmt: skip


def above_2gb() -> nn.Module:
    """Four square layers, 2.3 GB of weights."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(12000, 12000), nn.Tanh()) for _ in range(4))).eval()


def _settled(model: nn.Module) -> nn.Module:
    """In eval mode, with BatchNorm statistics of what it is fed, so that its answers vary with the input."""
    torch.manual_seed(0)
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in norms:
        nn.init.uniform_(layer.weight, 0.7, 1.3)
        nn.init.normal_(layer.bias, std=0.1)
        layer.momentum = None  # the mean of all batches
    if norms:
        with torch.no_grad():
            model.train()(torch.randn(8, 3, 224, 224))
    return model.eval()


def _conv(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outer)
    )


class _Bottleneck(nn.Module):
    def __init__(self, inner: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inner, width, 1), nn.ReLU(), _conv(width, width, 3, stride), nn.ReLU(), _conv(width, 4 * width, 1)
        )
        self.short = _conv(inner, 4 * width, 1, stride) if stride > 1 or inner != 4 * width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.short(x))


class _ResNet(nn.Module):
    def __init__(self, depths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks: list[nn.Module] = []
        inner = 64
        for stage, depth in enumerate(depths):
            for at in range(depth):
                width = 64 << stage
                blocks.append(_Bottleneck(inner, width, 2 if stage and not at else 1))
                inner = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inner, CLASSES)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        given = self.norm1(x)
        query, key, value = (
            part(given).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class _Encoder(nn.Module):
    def __init__(self, width: int, heads: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(TOKENS, width) * 0.1)
        self.layers = nn.Sequential(*(_Layer(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.words(tokens) + self.places)).mean(1))
