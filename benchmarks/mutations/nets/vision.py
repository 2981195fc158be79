"""Models of images: convolutions with batch norm, residuals, mobile blocks, U-Net, super-resolution, detection."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeded
from torch import Tensor, nn


class BatchNormNet(nn.Module):
    """Convolutions with batch norm, a padding that is wider on one side, and both poolings."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(12)
        self.max_pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.border = nn.ZeroPad2d((1, 2, 0, 1))
        self.conv = nn.Conv2d(12, 16, 3, stride=2)
        self.norm2 = nn.BatchNorm2d(16)
        self.act = nn.LeakyReLU(0.1)
        self.mean_pool = nn.AvgPool2d(3, 1, padding=1, count_include_pad=False)
        self.head = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.max_pool(F.relu(self.norm1(self.stem(image))))
        x = self.act(self.norm2(self.conv(self.border(x))))
        x = self.mean_pool(x)
        return self.head(x.mean((2, 3)))


class ResidualNet(nn.Module):
    """Two residual blocks, then all pixels of all channels through one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.conv1, self.conv2 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.conv3, self.conv4 = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Conv2d(8, 8, 1)
        self.square = nn.Linear(64, 64)
        self.head = nn.Linear(8 * 8 * 8, 6)

    def forward(self, image: Tensor) -> Tensor:
        x = F.relu(self.stem(image))
        x = F.relu(x + self.conv2(F.relu(self.conv1(x))))
        x = F.relu(x + self.conv4(F.relu(self.conv3(x))))
        x = torch.tanh(self.square(x.flatten(2))).reshape(x.shape)
        return self.head(torch.flatten(x, 1))


class MobileNet(nn.Module):
    """Depthwise blocks with relu6 and hard swish, squeeze and excitation with hard sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.deep = nn.Conv2d(8, 16, 3, padding=1, groups=8)
        self.relu6 = nn.ReLU6()
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.gate = nn.Hardsigmoid()
        self.point = nn.Conv2d(16, 12, 1)
        self.swish = nn.Hardswish()
        self.clip = nn.Hardtanh(-1.0, 1.0)
        self.head = nn.Linear(12, 7)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.relu6(self.deep(F.relu(self.stem(image)) * 2.0))
        scale = self.gate(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        x = self.swish(self.point(x * scale))
        logits = self.head(x.mean((2, 3)))
        return logits, self.clip(x.amax((2, 3)))


class UNet(nn.Module):
    """Down, up by a transposed convolution and by a bilinear resize to the size of the skip."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 12, 3, stride=2, padding=1)
        self.down3 = nn.Conv2d(12, 12, 3, stride=2, padding=1)
        self.up1 = nn.ConvTranspose2d(12, 8, 4, stride=2, padding=1)
        self.mix1, self.mix2 = nn.Conv2d(20, 8, 3, padding=1), nn.Conv2d(16, 6, 3, padding=1)
        self.head = nn.Conv2d(6, 3, 1)

    def forward(self, scan: Tensor) -> Tensor:
        first = F.relu(self.down1(scan))
        second = F.relu(self.down2(first))
        x = self.up1(F.relu(self.down3(second)))
        x = F.interpolate(x, size=second.shape[-2:], mode="nearest")
        x = F.relu(self.mix1(torch.cat([x, second], 1)))
        x = F.interpolate(x, size=first.shape[-2:], mode="bilinear", align_corners=False)
        x = F.relu(self.mix2(torch.cat([x, first], 1)))
        return F.softmax(self.head(x), 1)


class SuperResolution(nn.Module):
    """Reflection padding, pixel shuffle, and the difference from an upscaled input."""

    def __init__(self) -> None:
        super().__init__()
        self.pad = nn.ReflectionPad2d(2)
        self.conv1 = nn.Conv2d(3, 12, 5)
        self.slope = nn.PReLU(12)
        self.conv2 = nn.Conv2d(12, 12, 3, padding=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, image: Tensor) -> Tensor:
        x = self.slope(self.conv1(self.pad(image)))
        x = self.shuffle(self.conv2(x))
        base = F.interpolate(image, scale_factor=2.0, mode="nearest")
        return torch.flip(base - 0.5 * x, [-1]).clamp(0.0, 1.0)


class Detector(nn.Module):
    """Scores and boxes of a grid of cells: the best four by top-k, their classes by argmax, all scores sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 10, 3, stride=4, padding=1)
        self.scores, self.boxes = nn.Conv2d(10, 6, 1), nn.Conv2d(10, 4, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = F.relu(self.body(image))
        scores = self.scores(x).flatten(2).transpose(1, 2)
        boxes = self.boxes(x).flatten(2).transpose(1, 2)
        best, places = scores.amax(-1).topk(4, dim=1)
        corners = torch.cat([boxes[..., :2] - boxes[..., 2:].exp() / 2, boxes[..., :2] + boxes[..., 2:].exp() / 2], -1)
        chosen = corners.gather(1, places[..., None].expand(-1, -1, 4))
        classes = scores.gather(1, places[..., None].expand(-1, -1, 6)).argmax(-1)
        return chosen, torch.sigmoid(best), classes


def batch_norm_net() -> nn.Module:
    return seeded(BatchNormNet(), 1)


def residual_net() -> nn.Module:
    return seeded(ResidualNet(), 2)


def mobile_net() -> nn.Module:
    return seeded(MobileNet(), 3)


def u_net() -> nn.Module:
    return seeded(UNet(), 4)


def super_resolution() -> nn.Module:
    return seeded(SuperResolution(), 5)


def detector() -> nn.Module:
    return seeded(Detector(), 6)
