"""Three nets whose cost everybody knows, in plain torch with seeded random weights: no data set and no model hub.

ResNet-50 v1.5 (He et al. 2015, the stride in the 3x3 convolution), ViT-B/16 at 224 pixels (Dosovitskiy et al. 2020) and
an encoder of BERT-base's size with its pooler (Devlin et al. 2018), 128 tokens. Parameter counts are those of the
published models, and are checked when a net is built. The small variants run the same code on a CPU in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 0
ROWS = 32  # different samples; a larger batch repeats them


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, and the input beside them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        # Untrained statistics normalise nothing: without this, 16 sums in a row would leave the range of fp16.
        nn.init.constant_(self.bn3.weight, 0.25)

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) to (n, 4 width, h / stride, w / stride)."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        return functional.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Blocks in four stages over images (n, 3, h, w)."""

    def __init__(self, blocks: Sequence[int], width: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        stages: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            for index in range(count):
                stages.append(Bottleneck(channels, width * 2**stage, 2 if stage and not index else 1))
                channels = 4 * width * 2**stage
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes)."""
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    """Self-attention by scaled_dot_product_attention, the kernel that users get."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_size = heads, size // heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, tokens, size) to the same."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.head_size)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and two linear layers. `first`: normalises before each (ViT), else after (BERT)."""

    def __init__(self, size: int, heads: int, inner: int, eps: float, *, first: bool) -> None:
        super().__init__()
        self.first = first
        self.norm1, self.norm2 = nn.LayerNorm(size, eps), nn.LayerNorm(size, eps)
        self.attention = Attention(size, heads)
        self.wide, self.narrow = nn.Linear(size, inner), nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        """(n, tokens, size) to the same."""
        if self.first:
            x = x + self.attention(self.norm1(x))
            return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.narrow(functional.gelu(self.wide(x))))


class VisionTransformer(nn.Module):
    """Patches as tokens, over images (n, 3, pixels, pixels)."""

    def __init__(self, *, pixels: int, patch: int, size: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, size) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (pixels // patch) ** 2 + 1, size) * 0.02)
        self.blocks = nn.Sequential(*(Block(size, heads, 4 * size, 1e-6, first=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(size, 1e-6)
        self.head = nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes)."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(tokens.shape[0], -1, -1), tokens], 1) + self.positions
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class Encoder(nn.Module):
    """Words, positions and segments through transformer blocks, and the pooler over the first token."""

    def __init__(self, words: int, positions: int, size: int, depth: int, heads: int) -> None:
        super().__init__()
        self.words, self.segments = nn.Embedding(words, size), nn.Embedding(2, size)
        self.positions = nn.Embedding(positions, size)
        self.norm = nn.LayerNorm(size, 1e-12)
        self.blocks = nn.Sequential(*(Block(size, heads, 4 * size, 1e-12, first=False) for _ in range(depth)))
        self.pooler = nn.Linear(size, size)
        for table in (self.words, self.segments, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Ids (n, tokens) to the hidden states (n, tokens, size) and the pooled ones (n, size)."""
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) + self.positions(at) + self.segments(torch.zeros_like(ids))
        x = self.blocks(self.norm(x))
        return x, torch.tanh(self.pooler(x[:, 0]))


@dataclass(frozen=True, slots=True)
class NetSpec:
    """One net. `parameters`: the published count, None for a small variant. `words`: above 0 the input is ids."""

    make: Callable[[], nn.Module]
    parameters: int | None
    shape: tuple[int, ...]  # of one sample
    outputs: tuple[str, ...]
    words: int = 0

    @property
    def input_name(self) -> str:
        """The name of the one input."""
        return "ids" if self.words else "image"


def _vit_b16() -> nn.Module:
    return VisionTransformer(pixels=224, patch=16, size=768, depth=12, heads=12, classes=1000)


def _vit_small() -> nn.Module:
    return VisionTransformer(pixels=32, patch=16, size=32, depth=2, heads=2, classes=10)


_FULL = {
    "resnet50": NetSpec(lambda: ResNet((3, 4, 6, 3), 64, 1000), 25_557_032, (3, 224, 224), ("logits",)),
    "vit-b16": NetSpec(_vit_b16, 86_567_656, (3, 224, 224), ("logits",)),
    "bert-base": NetSpec(lambda: Encoder(30522, 512, 768, 12, 12), 109_482_240, (128,), ("hidden", "pooled"), 30522),
}
_SMALL = {
    "resnet50": NetSpec(lambda: ResNet((1, 1, 1, 1), 8, 10), None, (3, 32, 32), ("logits",)),
    "vit-b16": NetSpec(_vit_small, None, (3, 32, 32), ("logits",)),
    "bert-base": NetSpec(lambda: Encoder(100, 32, 32, 2, 2), None, (16,), ("hidden", "pooled"), 100),
}


def net_spec(name: str, *, small: bool = False) -> NetSpec:
    """Return a net by name, or its small variant."""
    return (_SMALL if small else _FULL)[name]


def build_net(spec: NetSpec) -> nn.Module:
    """Build a net in eval mode, the same weights in every process. Raises ValueError at a wrong parameter count."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        net = spec.make().eval()
    count = sum(parameter.numel() for parameter in net.parameters())
    if spec.parameters is not None and count != spec.parameters:
        raise ValueError(f"the net has {count} parameters and the published one {spec.parameters}")
    return net.requires_grad_(requires_grad=False)


def host_input(spec: NetSpec, batch: int) -> Any:
    """Return an input as it comes to a server: float32 (batch, *shape), or int64 ids. Rows repeat after ROWS."""
    rng = np.random.default_rng(SEED)
    rows = (
        rng.integers(0, spec.words, (ROWS, *spec.shape))
        if spec.words
        else rng.standard_normal((ROWS, *spec.shape), dtype=np.float32)
    )
    return np.ascontiguousarray(rows[np.arange(batch) % ROWS])


class InPrecision(nn.Module):
    """A net in a reduced dtype that takes and gives float32, so that every precision is fed and read alike."""

    def __init__(self, net: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.net, self.dtype = net.to(dtype), dtype

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The net's outputs, as a tuple."""
        answers = self.net(x.to(self.dtype) if x.is_floating_point() else x)
        answers = answers if isinstance(answers, tuple) else (answers,)
        return tuple(answer.to(torch.float32 if self.dtype != torch.float64 else torch.float64) for answer in answers)


def count_flops(spec: NetSpec) -> int:
    """Count the floating-point operations of one sample (a multiplication with its addition is two), by PyTorch's own
    counter on tensors without data. Attention is counted as its two products."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        net = spec.make().eval()
        sample = torch.zeros((1, *spec.shape), dtype=torch.int64 if spec.words else torch.float32)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        net(sample)
    return int(counter.get_total_flops())
