"""Embedding bags through the dynamo exporter: PyTorch's answers, and no loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

from transload.converters.patches.ledger import translation_table
from transload.converters.patches.torch_onnx_dynamo.embedding_bags import PATCHES

BAGS = [
    (11, [0, 2, 2, 5, 11]),
    (4, [0, 0, 0, 4]),
    (6, [0, 6]),
    (3, [0, 0, 3]),
    (9, [0, 2, 4]),
    (7, [0, 3, 3]),
]  # items, and where bags begin; empty ones, and a last offset that is not the end


class Bags(torch.nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.table = torch.nn.EmbeddingBag(20, 6, **options)
        self.weighs = options["mode"] == "sum"
        torch.nn.init.normal_(self.table.weight)  # the row of the padding too: it must not count

    def forward(self, items: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor) -> Any:
        return self.table(items, offsets, weights if self.weighs else None)


@pytest.mark.parametrize("options", [
    {"mode": "sum"},
    {"mode": "sum", "padding_idx": 3, "include_last_offset": True},
    {"mode": "mean", "padding_idx": 3, "include_last_offset": True},
    {"mode": "mean", "include_last_offset": True},
    {"mode": "max", "padding_idx": -17, "include_last_offset": True},
    {"mode": "max"},
], ids=str)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # torch's exporter has some
def test_a_bag_is_what_pytorch_makes_of_it(options: dict[str, Any], tmp_path: Path) -> None:
    model = Bags(**options).eval()
    free = ({0: torch.export.Dim.AUTO},) * 3
    program = torch.export.export(model, drawn(*BAGS[0]), dynamic_shapes=free)
    path = tmp_path / "model.onnx"
    exported = torch.onnx.export(
        program, dynamo=True, custom_translation_table=translation_table(PATCHES), verbose=False
    )
    assert exported is not None
    exported.save(path)
    assert not {"Loop", "SequenceEmpty"} & {node.op_type for node in onnx.load(path).graph.node}
    session = onnxruntime.InferenceSession(path)
    for items, offsets in BAGS:
        given = drawn(items, offsets)
        wanted = model(*given).detach()
        feeds = {spec.name: value.numpy() for spec, value in zip(session.get_inputs(), given, strict=False)}
        torch.testing.assert_close(torch.from_numpy(session.run(None, feeds)[0]), wanted)


def drawn(items: int, offsets: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(items)
    chosen = torch.randint(0, 20, (items,), generator=draw)
    chosen[items // 2 :: 3] = 3
    return chosen, torch.tensor(offsets), torch.randn(items, generator=draw)
