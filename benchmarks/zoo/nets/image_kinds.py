"""Kinds of networks that work on pictures, volumes and films, each as small as it can be with its own parts."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import noise, pictures, realistic


def _conv(before: int, after: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), act())


class UNet(nn.Module):
    """Transposed convolutions, two kinds of pooling, skips, and resizing both ways of counting corners."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([_conv(3, 16), _conv(16, 32), _conv(32, 64)])
        self.up1, self.join1 = nn.ConvTranspose2d(64, 32, 2, stride=2), _conv(64, 32, act=nn.ReLU)
        self.up2 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join2 = _conv(48, 16)
        self.up3, self.out = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.down[0](image)
        middle = self.down[1](F.max_pool2d(fine, 2))
        coarse = self.down[2](F.avg_pool2d(middle, 2))
        found = self.join1(torch.cat([self.up1(coarse), middle], 1))
        found = self.join2(torch.cat([self.up2(found), fine], 1))
        return self.out(F.interpolate(self.up3(found), scale_factor=0.5, mode="bilinear", align_corners=True))


class Norms(nn.Module):
    """Every normalisation beside BatchNorm, and a dozen activations."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 24, 3, padding=1), nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.group, self.instance = nn.GroupNorm(6, 24), nn.InstanceNorm2d(24, affine=True)
        self.layer, self.rms, self.local = nn.LayerNorm(24), nn.RMSNorm(24), nn.LocalResponseNorm(5)
        self.linear, self.prelu, self.head = nn.Linear(24, 24), nn.PReLU(24), nn.Linear(24, 8)

    def forward(self, image: Tensor) -> Tensor:
        x = F.mish(self.instance(self.second(F.gelu(self.group(self.first(image))))))
        x = self.local(self.prelu(x))
        y = self.rms(F.gelu(self.linear(self.layer(x.permute(0, 2, 3, 1))), approximate="tanh"))
        y = F.silu(y.permute(0, 3, 1, 2)) + F.hardsigmoid(x) + F.softplus(x) + F.elu(x) + F.relu6(x) + F.selu(x)
        y = (
            y
            + F.softsign(x)
            + F.celu(x, 0.7)
            + F.logsigmoid(x)
            + F.hardtanh(x, -0.5, 0.8)
            + F.glu(torch.cat([x, y], 1), 1)
        )
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Volume(nn.Module):
    """Convolution, normalisation and both poolings in three dimensions, and back up by a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(1, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(8, 16, 3, padding=1, stride=(1, 2, 2)), nn.BatchNorm3d(16), nn.ReLU(), nn.AvgPool3d((1, 2, 2)),
        )  # fmt: skip
        self.up, self.head = nn.ConvTranspose3d(16, 4, 2, stride=2), nn.Linear(16, 4)

    def forward(self, volume: Tensor) -> tuple[Tensor, Tensor]:
        found = self.body(volume)
        return self.head(found.mean((2, 3, 4))), self.up(found)


class Film(nn.Module):
    """(2+1)-D convolutions over frames, then the frames through the temporal mean and maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.space = nn.Conv3d(3, 12, (1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1), bias=False)
        self.time = nn.Conv3d(12, 16, (3, 1, 1), padding=(1, 0, 0), bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm3d(12), nn.BatchNorm3d(16)])
        self.head = nn.Linear(32, 6)

    def forward(self, frames: Tensor) -> Tensor:
        x = F.relu(self.norms[0](self.space(frames)))
        x = F.relu(self.norms[1](self.time(x))).mean((3, 4))
        return self.head(torch.cat([x.mean(2), x.amax(2)], 1))


class DynamicConvolution(nn.Module):
    """Kernels that are mixed anew for every picture: a grouped convolution whose weights are no constants."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = nn.Parameter(torch.randn(4, 12, 3, 3, 3) * 0.3)
        self.mixture, self.head = nn.Linear(3, 4), nn.Linear(12, 5)

    def forward(self, image: Tensor) -> Tensor:
        count = image.shape[0]
        shares = self.mixture(image.mean((2, 3)) * 3).softmax(-1)
        kernels = torch.einsum("nk,koihw->noihw", shares, self.kernels)
        patches = F.unfold(image, 3, padding=1).view(count, 27, -1)
        found = torch.relu(kernels.reshape(count, 12, 27) @ patches)
        return self.head(found.mean(-1))


class FilmMemory(nn.Module):
    """A convolutional LSTM over the frames of a film."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.head = nn.Conv2d(3 + 8, 32, 3, padding=1), nn.Conv2d(8, 1, 1)

    def forward(self, frames: Tensor) -> Tensor:
        state = cell = torch.zeros_like(frames[:, 0, :1]).expand(-1, 8, -1, -1)
        for at in range(4):
            keep, take, give, new = self.gates(torch.cat([frames[:, at], state], 1)).chunk(4, 1)
            cell = keep.sigmoid() * cell + take.sigmoid() * new.tanh()
            state = give.sigmoid() * cell.tanh()
        return self.head(state)


class Twins(nn.Module):
    """Two pictures through one network; how alike they are, three ways."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(3, 16, 2), _conv(16, 24, 2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(96, 16)
        )

    def forward(self, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        one, two = F.normalize(self.body(left), dim=-1), F.normalize(self.body(right), dim=-1)
        return F.cosine_similarity(one, two), torch.linalg.vector_norm(one - two, dim=-1), one @ two.t()


class Capsules(nn.Module):
    """Dynamic routing in three rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.weight = _conv(1, 16, 4, nn.ReLU), nn.Parameter(torch.randn(5, 98, 8, 8) * 0.3)

    def forward(self, image: Tensor) -> Tensor:
        parts = self._squash(self.body(image).flatten(1).view(-1, 98, 8))
        votes = torch.einsum("npi,cpij->ncpj", parts, self.weight)
        logits = torch.zeros_like(votes[..., 0])
        found = votes.mean(2)
        for _ in range(3):
            found = self._squash((logits.softmax(1)[..., None] * votes).sum(2))
            logits = logits + (votes * found[:, :, None]).sum(-1)
        return torch.linalg.vector_norm(found, dim=-1)

    @staticmethod
    def _squash(x: Tensor) -> Tensor:
        size = x.pow(2).sum(-1, keepdim=True)
        return x * size / (1 + size) / torch.sqrt(size + 1e-8)


class Blocks(nn.Module):
    """Moves between space and depth, shuffled channels, rolled windows, patches taken apart and put together."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.mix = nn.Conv2d(12, 16, 1), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.linear, self.out = nn.Linear(16, 16), nn.Conv2d(16, 12, 1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.mix(F.channel_shuffle(self.into(F.pixel_unshuffle(image, 2)), 4))
        count, width, high, broad = x.shape
        windows = torch.roll(x, (-2, -2), (2, 3)).view(count, width, high // 4, 4, broad // 4, 4)
        windows = windows.permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, width)
        windows = windows + torch.softmax(windows @ windows.transpose(1, 2), -1) @ self.linear(windows)
        x = (
            windows.view(count, high // 4, broad // 4, 4, 4, width)
            .permute(0, 5, 1, 3, 2, 4)
            .reshape(count, width, high, broad)
        )
        patches = F.unfold(torch.roll(x, (2, 2), (2, 3)), 2, stride=2)
        return F.pixel_shuffle(self.out(F.fold(patches * 0.5, (12, 12), 2, stride=2)), 2)


def unet() -> nn.Module:
    return realistic(UNet(), *pictures(48))


def norms() -> nn.Module:
    return realistic(Norms())


def volume() -> nn.Module:
    return realistic(Volume(), *noise(4, 1, 8, 16, 16))


def film() -> nn.Module:
    return realistic(Film(), *noise(4, 3, 6, 24, 24))


def dynamic_convolution() -> nn.Module:
    return realistic(DynamicConvolution())


def film_memory() -> nn.Module:
    return realistic(FilmMemory())


def twins() -> nn.Module:
    return realistic(Twins(), *[(one, one) for (one,) in pictures(40)])


def capsules() -> nn.Module:
    return realistic(Capsules(), *pictures(28, channels=1))


def blocks() -> nn.Module:
    return realistic(Blocks())
