"""Models that make whole numbers of data and of sizes by `int(...)` and `len(...)` are captured as those that call
`item()` and `size(0)`."""

from __future__ import annotations

import io

import torch
from torch import Tensor

from transload.converters.to_pytorch.pt2_from_source import export
from transload.models.signature import Signature, parse_input


class Pooled(torch.nn.Module):
    """Nodes summed by graph, of which the last is known by its number alone."""

    def forward(self, nodes: Tensor, graphs: Tensor) -> tuple[Tensor, Tensor]:
        rows = nodes.reshape(int(nodes.shape[0]) * int(nodes.size(1)))
        rows = rows + torch.zeros(len(graphs) * len([*nodes.shape, 0]), nodes.shape[1])[: len(nodes)].reshape(-1)
        rows = rows + int(0.7 * nodes.shape[0])
        count = int(graphs.max()) + int("1") if isinstance(nodes.dim(), int) else 0
        return torch.zeros(count, nodes.shape[1]).index_add_(0, graphs, nodes), rows * int(2.9)


def test_whole_numbers_of_data_and_of_sizes_stay_open() -> None:
    inputs = parse_input("nodes=float32[n,m]"), parse_input("graphs=int64[n]")
    outputs = parse_input("sums=float32[any,m]"), parse_input("rows=float32[all]")
    held, model = io.BytesIO(), Pooled()
    torch.export.save(export(model, Signature(inputs, outputs)), held)
    assert not {"int", "len"} & {*globals()}
    held.seek(0)
    made = torch.export.load(held).module()
    for graphs, width in (([0, 0, 2, 1], 3), ([4, 4], 1), ([1, 0, 5, 5, 5, 5, 0], 8)):
        given = torch.randn(len(graphs), width), torch.tensor(graphs)
        for got, want in zip(made(*given), model(*given), strict=True):
            torch.testing.assert_close(got, want)
