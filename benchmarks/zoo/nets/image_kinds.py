"""Kinds of networks that work on pictures, volumes and films, each as small as it can be with its own parts."""

from __future__ import annotations

import math
from itertools import pairwise

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


class Detector(nn.Module):
    """An anchor-free head: boxes and scores of 64 places."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(3, 16, 2), _conv(16, 32, 2), _conv(32, 32, 2))
        self.box, self.score = nn.Conv2d(32, 4, 1), nn.Conv2d(32, 3, 1)
        ys, xs = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        self.register_buffer("places", torch.stack([xs, ys]).reshape(1, 2, 64) * 8 + 4)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        found = self.body(image)
        sides = F.softplus(self.box(found)).flatten(2) * 8
        boxes = torch.cat([self.places - sides[:, :2], self.places + sides[:, 2:]], 1)
        return boxes.transpose(1, 2), self.score(found).flatten(2).sigmoid().transpose(1, 2)


class DetectorTopK(Detector):
    """The best ten of each picture."""

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        boxes, scores = super().forward(image)
        best, labels = scores.max(-1)
        best, rows = best.topk(10, 1)
        return boxes.gather(1, rows[:, :, None].expand(-1, -1, 4)), best, labels.gather(1, rows)


class DetectorNms(Detector):
    """What non-maximum suppression leaves of all pictures of the batch: each apart by a shift, as torchvision does."""

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        boxes, scores = super().forward(image)
        picture = torch.arange(image.shape[0])[:, None].expand(-1, 64).reshape(-1)
        flat, (best, labels) = boxes.reshape(-1, 4), scores.reshape(-1, 3).max(-1)
        kept = torch.ops.torchvision.nms(flat + picture[:, None] * 1000.0, best, 0.5)
        return flat[kept], best[kept], labels[kept], picture[kept]


class DetectorPeaks(nn.Module):
    """CenterNet: local maxima of a heat map by pooling, and what the other maps say there."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(3, 16, 2), _conv(16, 24, 2))
        self.heat, self.size = nn.Conv2d(24, 3, 1), nn.Conv2d(24, 2, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.body(image)
        heat = self.heat(found).sigmoid()
        peaks = torch.where(F.max_pool2d(heat, 3, 1, 1) == heat, heat, torch.zeros_like(heat))
        best, at = peaks.flatten(1).topk(8, 1)
        place = at % (16 * 16)
        sizes = self.size(found).flatten(2).gather(2, place[:, None].expand(-1, 2, -1))
        return (
            best,
            at // (16 * 16),
            torch.cat([(place % 16)[:, None].float(), (place // 16)[:, None].float(), sizes], 1),
        )


class Anchors(nn.Module):
    """SSD: boxes decoded from anchors of two scales, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Sequential(_conv(3, 16, 2), _conv(16, 24, 2)), _conv(24, 32, 2)
        self.heads = nn.ModuleList([nn.Conv2d(24, 3 * 7, 3, padding=1), nn.Conv2d(32, 3 * 7, 3, padding=1)])
        for at, side in enumerate((12, 6)):
            self.register_buffer(f"anchors_{at}", torch.rand(3 * side * side, 4) + 0.1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.first(image)
        found = []
        for head, features in zip(self.heads, (fine, self.second(fine)), strict=True):
            maps = head(features)
            found.append(maps.view(maps.shape[0], 3, 7, -1).permute(0, 1, 3, 2).reshape(maps.shape[0], -1, 7))
        raw, anchors = torch.cat(found, 1), torch.cat([self.anchors_0, self.anchors_1])
        centre = raw[..., :2] * 0.1 * anchors[:, 2:] + anchors[:, :2]
        size = torch.exp(raw[..., 2:4].clamp(max=4) * 0.2) * anchors[:, 2:]
        return torch.cat([centre - size / 2, centre + size / 2], -1), raw[..., 4:].softmax(-1)


class SuperResolution(nn.Module):
    """Reflected and repeated edges, pixel shuffle, bicubic resizing; height and width are free."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(3, 16, 3), nn.ReLU(),
            nn.Conv2d(16, 12, 3, padding=1, padding_mode="replicate"), nn.PixelShuffle(2),
        )  # fmt: skip

    def forward(self, image: Tensor) -> Tensor:
        return self.body(image) + F.interpolate(image, scale_factor=2, mode="bicubic", align_corners=False)


class SpatialTransformer(nn.Module):
    """A grid that the network makes, and sampling by it."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(
            nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 6)
        )
        self.body = nn.Conv2d(1, 4, 3)

    def forward(self, image: Tensor) -> Tensor:
        turn = self.where(image).view(-1, 2, 3) * 0.3 + torch.tensor([[1.0, 0, 0], [0, 1.0, 0]])
        grid = F.affine_grid(turn, (image.shape[0], 1, 16, 16), align_corners=False)
        return self.body(F.grid_sample(image, grid, align_corners=False))


class Flow(nn.Module):
    """One picture bent towards another: a cost volume of shifts, and sampling at moved places."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.move = _conv(3, 12, 2), nn.Conv2d(9, 2, 3, padding=1)
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, 24), torch.linspace(-1, 1, 24), indexing="ij")
        self.register_buffer("places", torch.stack([xs, ys], -1)[None])

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        one, two = self.features(first), F.pad(self.features(second), (1, 1, 1, 1))
        costs = [(one * two[:, :, y : y + 24, x : x + 24]).mean(1) for y in range(3) for x in range(3)]
        flow = self.move(torch.stack(costs, 1)).tanh() * 0.2
        bent = F.grid_sample(
            second, self.places + flow.permute(0, 2, 3, 1), mode="bilinear", padding_mode="border", align_corners=True
        )
        return flow, bent


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


class VectorQuantised(nn.Module):
    """An autoencoder whose code is the nearest row of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(_conv(3, 16, 2), nn.Conv2d(16, 8, 3, 2, 1))
        self.table = nn.Embedding(32, 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(image).permute(0, 2, 3, 1)
        table = self.table.weight
        apart = code.pow(2).sum(-1, keepdim=True) - 2 * code @ table.t() + table.pow(2).sum(-1)
        nearest = apart.argmin(-1)
        return self.decoder(self.table(nearest).permute(0, 3, 1, 2)), nearest


class Generator(nn.Module):
    """DCGAN: pictures out of noise."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (32, 64, 32, 16)
        layers: list[nn.Module] = [
            nn.ConvTranspose2d(sizes[0], sizes[1], 4, bias=False),
            nn.BatchNorm2d(sizes[1]),
            nn.ReLU(),
        ]
        for before, after in pairwise(sizes[1:]):
            layers += [nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.ConvTranspose2d(sizes[-1], 3, 3, 2, 1, output_padding=1), nn.Tanh())

    def forward(self, seed: Tensor) -> Tensor:
        return self.body(seed[:, :, None, None])


class Styled(nn.Module):
    """StyleGAN's block: weights scaled by a style and demodulated, and noise by a learnt strength."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 16, 8, 8))
        self.style, self.weight = nn.Linear(12, 16), nn.Parameter(torch.randn(16, 16, 3, 3) * 0.2)
        self.colour = nn.Conv2d(16, 3, 1)

    def forward(self, style: Tensor) -> Tensor:
        scale = self.style(style)[:, :, None, None] + 1
        found = F.conv2d(self.start * scale, self.weight, padding=1)
        strength = torch.rsqrt((self.weight[None] * scale[:, None]).pow(2).sum((2, 3, 4)) + 1e-8)
        found = F.leaky_relu(found * strength[:, :, None, None], 0.2)
        return self.colour(F.interpolate(found, scale_factor=2, mode="bilinear", align_corners=False))


class Translation(nn.Module):
    """CycleGAN: instance norms without weights, reflected edges, residual blocks, output padding."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 12, 7), nn.InstanceNorm2d(12), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(12, 24, 3, 2, 1), nn.InstanceNorm2d(24), nn.ReLU())
        self.block = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(24, 24, 3), nn.InstanceNorm2d(24))
        self.up = nn.ConvTranspose2d(24, 12, 3, 2, 1, output_padding=1)
        self.out = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(12, 3, 7), nn.Tanh())

    def forward(self, image: Tensor) -> Tensor:
        x = self.down(self.into(image))
        return self.out(F.relu(self.up(x + self.block(x))))


class Keypoints(nn.Module):
    """Stacked hourglass in small: heat maps and their soft maximum as coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(3, 16, 2), _conv(16, 16))
        self.inner, self.heat = _conv(16, 16), nn.Conv2d(16, 5, 1)
        self.register_buffer("axis", torch.linspace(0, 1, 24))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(image)
        x = x + F.interpolate(self.inner(F.max_pool2d(x, 2)), scale_factor=2, mode="nearest")
        shares = (self.heat(x) * 4).flatten(2).softmax(-1).view(-1, 5, 24, 24)
        across, down = (shares.sum(2) * self.axis).sum(-1), (shares.sum(3) * self.axis).sum(-1)
        return torch.stack([across, down], -1), shares.amax((2, 3))


class Pyramid(nn.Module):
    """Feature pyramid for depth: laterals, nearest resizing to the size of another map, all scales summed."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList([_conv(3, 12, 2), _conv(12, 16, 2), _conv(16, 24, 2)])
        self.laterals = nn.ModuleList([nn.Conv2d(width, 12, 1) for width in (12, 16, 24)])
        self.head = nn.Conv2d(12, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        maps = []
        for level in self.levels:
            image = level(image)
            maps.append(image)
        found = self.laterals[2](maps[2])
        for at in (1, 0):
            found = self.laterals[at](maps[at]) + F.interpolate(found, size=maps[at].shape[2:], mode="nearest")
        return 1 / (self.head(F.interpolate(found, scale_factor=2, mode="bicubic", align_corners=True)).sigmoid() + 0.1)


class Diffusion(nn.Module):
    """A block of a diffusion U-Net: time as sines, group norms, scale and shift, both attentions, up and down."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.into, self.norms = nn.Conv2d(4, 32, 3, padding=1), nn.ModuleList([nn.GroupNorm(8, 32) for _ in range(4)])
        self.convs = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=1) for _ in range(2)])
        self.shift = nn.Linear(64, 64)
        self.down, self.up = nn.Conv2d(32, 32, 3, 2, 1), nn.Conv2d(32, 32, 3, padding=1)
        self.own = nn.MultiheadAttention(32, 4, batch_first=True)
        self.other = nn.MultiheadAttention(32, 4, kdim=24, vdim=24, batch_first=True)
        self.wide, self.narrow, self.out = nn.Linear(32, 128), nn.Linear(64, 32), nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, latent: Tensor, step: Tensor, text: Tensor) -> Tensor:
        rates = torch.exp(-math.log(10000.0) * torch.arange(16) / 16)
        angles = step[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.into(latent)
        h = self.convs[0](F.silu(self.norms[0](x)))
        scale, shift = self.shift(F.silu(time))[:, :, None, None].chunk(2, 1)
        x = x + self.convs[1](F.silu(self.norms[1](h) * (1 + scale) + shift))
        small = self.down(x)
        count, width, height, breadth = small.shape
        flat = self.norms[2](small).flatten(2).transpose(1, 2)
        flat = flat + self.own(flat, flat, flat, need_weights=False)[0]
        flat = flat + self.other(flat, text, text, need_weights=False)[0]
        value, gate = self.wide(flat).chunk(2, -1)
        flat = flat + self.narrow(value * F.gelu(gate))
        small = small + flat.transpose(1, 2).reshape(count, width, height, breadth)
        x = x + self.up(F.interpolate(small, scale_factor=2.0, mode="nearest"))
        return self.out(F.silu(self.norms[3](x)))


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


def detector() -> nn.Module:
    return realistic(Detector(), *pictures(64))


def detector_topk() -> nn.Module:
    return realistic(DetectorTopK(), *pictures(64))


def detector_nms() -> nn.Module:
    import torchvision_ops  # noqa: F401  (before torchvision)

    # isort: split
    import torchvision  # noqa: F401  (tells exporters of the operator)

    return realistic(DetectorNms(), *pictures(64))


def detector_peaks() -> nn.Module:
    return realistic(DetectorPeaks(), *pictures(64))


def anchors() -> nn.Module:
    return realistic(Anchors(), *pictures(48))


def super_resolution() -> nn.Module:
    return realistic(SuperResolution())


def spatial_transformer() -> nn.Module:
    return realistic(SpatialTransformer())


def flow() -> nn.Module:
    return realistic(Flow(), *[(one, two) for (one,), (two,) in zip(pictures(48), pictures(48)[::-1], strict=True)])


def dynamic_convolution() -> nn.Module:
    return realistic(DynamicConvolution())


def vector_quantised() -> nn.Module:
    return realistic(VectorQuantised(), *pictures(32))


def generator() -> nn.Module:
    return realistic(Generator(), *noise(8, 32))


def styled() -> nn.Module:
    return realistic(Styled())


def translation() -> nn.Module:
    return realistic(Translation())


def keypoints() -> nn.Module:
    return realistic(Keypoints(), *pictures(48))


def pyramid() -> nn.Module:
    return realistic(Pyramid(), *pictures(64))


def diffusion() -> nn.Module:
    return realistic(Diffusion())


def film_memory() -> nn.Module:
    return realistic(FilmMemory())


def twins() -> nn.Module:
    return realistic(Twins(), *[(one, one) for (one,) in pictures(40)])


def capsules() -> nn.Module:
    return realistic(Capsules(), *pictures(28, channels=1))


def blocks() -> nn.Module:
    return realistic(Blocks())
