"""Thirteen small models of a stranger's project, written for Python 3.9 to 3.13 and torch 2.2 to the newest.

`branching` has to be compiled: a trace of it holds one way only.

Weights are random from a seed, and the same in two environments only as far as their torch draws the same numbers.
"""

import torch
from bricks import Squeeze
from torch import nn
from torch.nn import functional as F  # noqa: N812


def _seeded(make):
    torch.manual_seed(7)
    model = make()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):  # as after training: not the identity
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 2)
    return model.eval()


class ImageNet(nn.Module):
    """Convolutions with batch norm, a residual sum and a classifier."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.Dropout(0.1))
        self.head = nn.Linear(8, 5)

    def forward(self, image):
        x = self.stem(image)
        x = F.max_pool2d(x + self.body(x), 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class DictMlp(nn.Module):
    """Rows of numbers into a dict of two outputs."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(13, 16), nn.GELU(), nn.LayerNorm(16))
        self.label, self.score = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, rows):
        x = self.body(rows)
        return {"probabilities": self.label(x).softmax(-1), "score": self.score(x).squeeze(-1)}


class TextLstm(nn.Module):
    """Word ids through a table and a two-way LSTM, mean over the words that are no padding."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 12, padding_idx=0)
        self.lstm = nn.LSTM(12, 10, batch_first=True, bidirectional=True)
        self.head = nn.Linear(20, 4)

    def forward(self, ids):
        x, _ = self.lstm(self.table(ids))
        mask = (ids != 0).unsqueeze(-1).to(x.dtype)
        return self.head((x * mask).sum(1) / mask.sum(1).clamp(min=1.0))


class Encoder(nn.Module):
    """Two transformer encoder layers over word ids, with learned positions."""

    def __init__(self):
        super().__init__()
        self.table, self.positions = nn.Embedding(40, 16), nn.Parameter(torch.randn(1, 12, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 16)

    def forward(self, ids):
        x = self.layers(self.table(ids) + self.positions)
        query = self.head(x)
        x = F.scaled_dot_product_attention(query, x, x)
        return x.mean(1)


class UNet(nn.Module):
    """A U-Net of two levels, for images of any height and width in steps of 4."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = (
            nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
            for i, o in ((1, 6), (6, 8), (8, 8))
        )
        self.up_two = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.back_two = nn.Conv2d(16, 6, 3, padding=1)
        self.back_one = nn.Conv2d(12, 2, 3, padding=1)

    def forward(self, image):
        one = self.one(image)
        two = self.two(F.max_pool2d(one, 2))
        x = self.up_two(self.three(F.max_pool2d(two, 2)))
        x = torch.relu(self.back_two(torch.cat([x, two], 1)))
        x = F.interpolate(x, size=one.shape[-2:], mode="bilinear", align_corners=False)
        return self.back_one(torch.cat([x, one], 1))


class SeveralInputs(nn.Module):
    """Image features, a table of numbers and, by keyword, weights of the two."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(6, 8), nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, features, table, *, weight, temperature=2.0):
        x = torch.tanh(self.left(features)) * weight + torch.tanh(self.right(table)) * (1 - weight)
        return self.head(x) / temperature, x


class FlagsAndIds(nn.Module):
    """Ids of whole numbers and flags of true and false, beside floats."""

    def __init__(self):
        super().__init__()
        self.day, self.shop = nn.Embedding(7, 4), nn.Embedding(12, 4)
        self.head = nn.Linear(4 + 4 + 3, 1)
        self.register_buffer("scale", torch.tensor([1.0, 0.5, 2.0]))

    def forward(self, day, shop, is_open, prices):
        x = torch.cat([self.day(day), self.shop(shop), prices / self.scale], -1)
        return torch.where(is_open.unsqueeze(-1), self.head(x), torch.zeros_like(x[..., :1])).squeeze(-1)


class Audio(nn.Module):
    """Dilated convolutions over a wave of any length, and a mean over time."""

    def __init__(self):
        super().__init__()
        self.one = nn.Conv1d(1, 8, 9, stride=2, padding=4)
        self.two = nn.Conv1d(8, 8, 3, padding=2, dilation=2, groups=2)
        self.head = nn.Linear(16, 3)

    def forward(self, wave):
        x = F.leaky_relu(self.one(wave.unsqueeze(1)), 0.1)
        x = F.elu(self.two(x))
        return F.log_softmax(self.head(torch.cat([x.mean(-1), x.amax(-1)], 1)), -1)


class Forecast(nn.Module):
    """A GRU over a series, whose last state tells the next three values."""

    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(5, 12, num_layers=2, batch_first=True), nn.Linear(12, 3)

    def forward(self, series):
        _, state = self.gru(series)
        return self.head(state[-1])


class SuperResolution(nn.Module):
    """Group norm and pixel shuffle: an image of twice the size."""

    def __init__(self):
        super().__init__()
        self.one, self.norm = nn.Conv2d(3, 12, 3, padding=1), nn.GroupNorm(3, 12)
        self.two = nn.Conv2d(12, 12, 3, padding=1, padding_mode="replicate")
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, image):
        x = F.hardswish(self.norm(self.one(image)))
        return torch.sigmoid(self.shuffle(self.two(x)))


class Branching(nn.Module):
    """A branch on the data: one sample's answer depends on the batch that it comes in. A trace holds one way only."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, rows):
        if rows.sum() > 0:
            return self.one(rows)
        return self.two(rows).tanh()


class Gated(nn.Module):
    """A block of the package beside this file, between convolutions."""

    def __init__(self):
        super().__init__()
        self.one, self.gate, self.two = nn.Conv2d(3, 8, 3), Squeeze(8), nn.Conv2d(8, 4, 1)

    def forward(self, image):
        return self.two(self.gate(F.mish(self.one(image)))).flatten(2).amax(-1)


class HalfPrecision(nn.Module):
    """A perceptron whose weights are float16; it computes in them and returns float32."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4)).half()

    def forward(self, rows):
        return self.body(rows.to(self.body[0].weight.dtype)).float()


def image_net():
    return _seeded(ImageNet)


def dict_mlp():
    return _seeded(DictMlp)


def text_lstm():
    return _seeded(TextLstm)


def encoder():
    return _seeded(Encoder)


def unet():
    return _seeded(UNet)


def several_inputs():
    return _seeded(SeveralInputs)


def flags_and_ids():
    return _seeded(FlagsAndIds)


def audio():
    return _seeded(Audio)


def forecast():
    return _seeded(Forecast)


def super_resolution():
    return _seeded(SuperResolution)


def branching():
    return _seeded(Branching)


def gated():
    return _seeded(Gated)


def half_precision():
    return _seeded(HalfPrecision)
