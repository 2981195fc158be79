"""Kinds of networks that work on tables, graphs, sets of points and the like."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import noise, realistic


class Perceptron(nn.Module):
    """Batch norms before and between linear layers, dropout, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(20)
        self.body = nn.Sequential(
            nn.Linear(20, 64),
            nn.ReLU(),
            nn.BatchNorm1d(64),
            nn.Dropout(0.2),
            nn.Linear(64, 64),
            nn.Tanh(),
            nn.Linear(64, 3),
        )

    def forward(self, features: Tensor) -> Tensor:
        return self.body(self.norm(features)).softmax(-1)


class Mixed(nn.Module):
    """A picture, numbers and categories in; three answers out."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 24, 3, 2, 1), nn.Hardswish())
        self.numbers, self.table = nn.Linear(7, 24), nn.Embedding(50, 24)
        self.head, self.mask = nn.Linear(72, 10), nn.Conv2d(24, 1, 1)

    def forward(self, image: Tensor, numbers: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.body(image)
        joined = torch.cat([found.mean((2, 3)), self.numbers(numbers), self.table(kinds).sum(1)], 1)
        return self.head(joined), self.mask(found).sigmoid(), found.amax((2, 3))


class Algebra(nn.Module):
    """Einsum, running sums, rolls, norms, conditions, sorting, triangles."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.linear = nn.Parameter(torch.randn(6, 8, 8) * 0.3), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.cumsum(torch.einsum("bij,ijk->bik", x, self.weight), 1)
        y = torch.roll(torch.where(y > 0, y, torch.exp(y) - 1), 1, 1)
        size = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        z = F.normalize(self.linear(y) + F.pad(size, (0, 7)), dim=-1)
        ordered, places = torch.sort(z, -1, descending=True)
        return (
            z,
            z.argmax(-1),
            torch.logsumexp(z, 1),
            ordered[..., :3],
            places[..., 0],
            torch.tril(z @ z.transpose(1, 2)),
        )


class Recommender(nn.Module):
    """DLRM: embedding bags, numbers through a tower, every pair of vectors multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(100, 12, mode=mode) for mode in ("sum", "mean", "sum")])
        self.bottom = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(12 + 6, 24), nn.ReLU(), nn.Linear(24, 1))
        rows, columns = torch.tril_indices(4, 4, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, numbers: Tensor, kinds: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *(bag(kinds[:, at]) for at, bag in enumerate(self.bags))], 1)
        pairs = (vectors @ vectors.transpose(1, 2))[:, self.rows, self.columns]
        return self.top(torch.cat([dense, pairs], 1)).sigmoid()


class Factorised(nn.Module):
    """DeepFM: a factorisation machine and a deep tower over the same embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.bias = nn.Embedding(400, 8), nn.Embedding(400, 1)
        self.deep = nn.Sequential(nn.Linear(4 * 8, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("offsets", torch.arange(4) * 100)

    def forward(self, kinds: Tensor) -> Tensor:
        rows = kinds + self.offsets
        found = self.table(rows)
        pairs = 0.5 * (found.sum(1).pow(2) - found.pow(2).sum(1)).sum(1, keepdim=True)
        return (self.bias(rows).sum(1) + pairs + self.deep(found.flatten(1))).sigmoid()


class TwoTowers(nn.Module):
    """A user and items, scored by a product, and the best five items with their places."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(80, 16), nn.Embedding(60, 16)
        self.tower = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))

    def forward(self, user: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.tower(self.users(user)) @ self.items.weight.t()
        best, places = scores.topk(5)
        return best.softmax(-1), places


class TabTransformer(nn.Module):
    """Attention over columns of categories, numbers beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.column = nn.Embedding(90, 16), nn.Parameter(torch.randn(1, 6, 16) * 0.3)
        self.body = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(6 * 16 + 4, 3)

    def forward(self, kinds: Tensor, numbers: Tensor) -> Tensor:
        found = self.body(self.table(kinds) + self.column)
        return self.head(torch.cat([found.flatten(1), self.norm(numbers)], 1))


class SoftTree(nn.Module):
    """A differentiable tree of depth three: the product of the decisions on the way to each leaf."""

    def __init__(self) -> None:
        super().__init__()
        self.split, self.leaves = nn.Linear(9, 7), nn.Parameter(torch.randn(8, 4))

    def forward(self, features: Tensor) -> Tensor:
        right = (self.split(features) * 3).sigmoid()
        share = torch.ones_like(right[:, :1])
        for depth in range(3):
            now = right[:, 2**depth - 1 : 2 ** (depth + 1) - 1]
            share = torch.stack([share * (1 - now), share * now], -1).flatten(1)
        return share @ self.leaves


class Autoencoder(nn.Module):
    """Variational, at its mean: two heads, and how far the code is from a normal one."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Sequential(nn.Linear(16, 24), nn.Softplus()), nn.Linear(4, 16)
        self.middle, self.spread = nn.Linear(24, 4), nn.Linear(24, 4)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        found = self.encoder(features)
        middle, spread = self.middle(found), self.spread(found).clamp(-5, 5)
        return self.decoder(middle), -0.5 * (1 + spread - middle.pow(2) - spread.exp()).sum(-1)


class Radiance(nn.Module):
    """NeRF: places and directions as sines, a skip half-way, colours composed along the ray."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3 * 13, 48), nn.Linear(48 + 3 * 13, 48)
        self.out = nn.Linear(48, 4)
        self.register_buffer("octaves", 2.0 ** torch.arange(6))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        angles = (points[..., None] * self.octaves).flatten(-2)
        waves = torch.cat([points, angles.sin(), angles.cos()], -1)
        found = F.relu(self.second(torch.cat([F.relu(self.first(waves)), waves], -1)))
        colour, density = self.out(found).split([3, 1], -1)
        opaque = 1 - torch.exp(-F.softplus(density[..., 0]) * 0.2)
        clear = torch.log1p(-opaque + 1e-6)  # ONNX has no running product
        share = opaque * torch.exp(torch.cumsum(clear, 1) - clear)
        return (share[..., None] * colour.sigmoid()).sum(1), share.sum(1)


class GraphConvolution(nn.Module):
    """Messages along edges, added up by scatter and divided by degree; nodes and edges are free in number."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList([nn.Linear(6, 16), nn.Linear(16, 16)]), nn.Linear(16, 4)

    def forward(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        start, end = edges[..., 0], edges[..., 1]
        degree = torch.ones_like(nodes[..., 0]).scatter_add(1, end, torch.ones_like(end, dtype=nodes.dtype))
        for layer in self.layers:
            message = layer(nodes)
            sent = message.gather(1, start[..., None].expand(-1, -1, message.shape[-1]))
            where = end[..., None].expand(-1, -1, message.shape[-1])
            nodes = F.relu(message.scatter_add(1, where, sent) / degree[..., None])
        return self.head(nodes), nodes.amax(1)


class GraphAttention(nn.Module):
    """Shares of neighbours by a dense adjacency, minus infinity where there is no edge."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.left, self.right = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        found = self.linear(nodes)
        scores = F.leaky_relu(self.left(found) + self.right(found).transpose(1, 2), 0.2)
        linked = (adjacency > 0.5) | torch.eye(nodes.shape[1], dtype=torch.bool)
        return F.elu(scores.masked_fill(~linked, float("-inf")).softmax(-1) @ found)


class GraphMean(nn.Module):
    """GraphSAGE with a minimum, a maximum and a mean of neighbours by scatter_reduce and index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5 * 3, 8)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        where = edges[..., 1:].expand(-1, -1, 5)
        sent = nodes.gather(1, edges[..., :1].expand(-1, -1, 5))
        parts = [nodes.scatter_reduce(1, where, sent, reduce) for reduce in ("amax", "amin", "sum")]
        return self.linear(torch.cat(parts, -1)).tanh()


class Points(nn.Module):
    """PointNet: a transform of its own for every cloud, shared layers, the maximum over the points."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.first = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Linear(16, 9)
        self.body = nn.Sequential(
            nn.Conv1d(3, 24, 1), nn.BatchNorm1d(24), nn.ReLU(), nn.Conv1d(24, 32, 1), nn.BatchNorm1d(32)
        )
        self.head = nn.Linear(32, 5)

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        turn = self.first(self.turn(points.transpose(1, 2)).amax(-1)).view(-1, 3, 3) + torch.eye(3)
        best, where = self.body((points @ turn).transpose(1, 2)).max(-1)
        return self.head(best), where


class Neighbours(nn.Module):
    """DGCNN: the four nearest points of each by distance, and what their edges say."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.head = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, points: Tensor) -> Tensor:
        apart = torch.cdist(points, points)
        near = apart.topk(4, -1, largest=False).indices
        size = points.shape[1]
        wide = points[:, None].expand(-1, size, -1, -1)
        others = wide.gather(2, near[..., None].expand(-1, -1, -1, 3))
        middle = points[:, :, None].expand(-1, -1, 4, -1)
        return self.head(F.leaky_relu(self.edge(torch.cat([middle, others - middle], -1))).amax(2).mean(1))


class Sets(nn.Module):
    """Set transformer: learnt seeds look at a set of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds, self.into = nn.Parameter(torch.randn(1, 3, 16)), nn.Linear(4, 16)
        self.look, self.norm, self.head = (
            nn.MultiheadAttention(16, 4, batch_first=True),
            nn.LayerNorm(16),
            nn.Linear(48, 2),
        )

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor]:
        x = self.into(items)
        found, shares = self.look(self.seeds.expand(x.shape[0], -1, -1), x, x)
        return self.head(self.norm(found).flatten(1)), shares


class Policy(nn.Module):
    """An actor and a critic; what may not be done is masked; the best action by argmax."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = (
            nn.Sequential(nn.Linear(12, 32), nn.Tanh()),
            nn.Linear(32, 6),
            nn.Linear(32, 1),
        )

    def forward(self, state: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.body(state)
        scores = torch.where(allowed, self.actor(found), torch.full((), -1e9))
        return F.softmax(scores, -1), scores.argmax(-1), self.critic(found).squeeze(-1)


class Spline(nn.Module):
    """KAN: piecewise functions on every edge, by bucketing and linear interpolation between learnt values."""

    def __init__(self) -> None:
        super().__init__()
        self.values, self.base = nn.Parameter(torch.randn(5, 6, 9) * 0.4), nn.Linear(5, 6)

    def forward(self, features: Tensor) -> Tensor:
        place = (features.clamp(-1.999, 1.999) + 2) * 2
        cell = place.floor()
        share = (place - cell)[:, :, None]
        at = cell.long()[:, :, None, None].expand(-1, -1, 6, 1)
        table = self.values.expand(features.shape[0], -1, -1, -1)
        low, high = table.gather(3, at)[..., 0], table.gather(3, at + 1)[..., 0]
        return self.base(F.silu(features)) + (low * (1 - share) + high * share).sum(1)


class Fourier(nn.Module):
    """FNet's mixing and a spectral filter, written as products with sine and cosine matrices."""

    def __init__(self) -> None:
        super().__init__()
        turns = 2 * math.pi * torch.outer(torch.arange(12.0), torch.arange(12.0)) / 12
        self.register_buffer("cos", turns.cos())
        self.register_buffer("sin", turns.sin())
        self.filter, self.norm, self.head = nn.Parameter(torch.randn(12, 2, 1)), nn.LayerNorm(10), nn.Linear(10, 4)

    def forward(self, series: Tensor) -> Tensor:
        real, imaginary = self.cos @ series, -self.sin @ series
        one, two = self.filter[:, 0], self.filter[:, 1]
        real, imaginary = real * one - imaginary * two, real * two + imaginary * one
        return self.head(self.norm(series + (self.cos @ real - self.sin @ imaginary) / 12))


class Integers(nn.Module):
    """Hashing and binning with integers: remainders, shifts, comparisons, a histogram by one-hot, and types changed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(64, 10)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mixed = (words * 31 + 7) % 64
        bins = torch.div(words, 16, rounding_mode="floor").clamp(0, 7)
        counted = F.one_hot(bins, 8).sum(1)
        odd = (words & 1).bool() | (words > 100)
        return self.table(mixed).sum(1), counted, odd.to(torch.int32).sum(-1).to(torch.int64)


def perceptron() -> nn.Module:
    return realistic(Perceptron(), *noise(32, 20))


def points() -> nn.Module:
    return realistic(Points(), *noise(8, 32, 3))


def __getattr__(name: str) -> object:
    """The other kinds, by their names in small letters."""
    kind = _PLAIN.get(name)
    if kind is None:
        raise AttributeError(name)
    return lambda: realistic(kind())


_PLAIN = {
    "mixed": Mixed, "algebra": Algebra, "recommender": Recommender, "factorised": Factorised, "two_towers": TwoTowers,
    "tab_transformer": TabTransformer, "soft_tree": SoftTree, "autoencoder": Autoencoder, "radiance": Radiance,
    "graph_convolution": GraphConvolution, "graph_attention": GraphAttention, "graph_mean": GraphMean,
    "neighbours": Neighbours, "sets": Sets, "policy": Policy, "spline": Spline, "fourier": Fourier,
    "integers": Integers,
}  # fmt: skip
