"""Kinds of networks that say where something is in a picture: boxes, points, depth, movement."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import pictures, realistic


def _conv(before: int, after: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), act())


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


def detector() -> nn.Module:
    return realistic(Detector(), *pictures(64))


def detector_topk() -> nn.Module:
    return realistic(DetectorTopK(), *pictures(64))


def detector_nms() -> nn.Module:
    import torchvision  # noqa: F401  (tells exporters of the operator)

    return realistic(DetectorNms(), *pictures(64))


def detector_peaks() -> nn.Module:
    return realistic(DetectorPeaks(), *pictures(64))


def anchors() -> nn.Module:
    return realistic(Anchors(), *pictures(48))


def keypoints() -> nn.Module:
    return realistic(Keypoints(), *pictures(48))


def pyramid() -> nn.Module:
    return realistic(Pyramid(), *pictures(64))


def spatial_transformer() -> nn.Module:
    return realistic(SpatialTransformer())


def flow() -> nn.Module:
    return realistic(Flow(), *[(one, two) for (one,), (two,) in zip(pictures(48), pictures(48)[::-1], strict=True)])
