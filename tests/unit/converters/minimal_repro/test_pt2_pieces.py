"""Pieces of an exported program compute what they compute in the whole, and are written as code that does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from transload.converters.minimal_repro.pt2_pieces import ProgramCutter
from transload.models.signature import Signature, parse_input

SIGNATURE = Signature(
    (parse_input("x=float32[batch,3,time]"), parse_input("bias=float32[2]")),
    (parse_input("y=float32[rows,1]"), parse_input("z=float32[1,2]")),
)


class Net(torch.nn.Module):
    """A convolution, an operator that writes into its input, two results, sizes that are worked out, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv1d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.topk(self.first(x).relu_(), 2, dim=1)
        rows = values.reshape(x.shape[0] * x.shape[2], 2) + bias
        return rows.sum(1, keepdim=True), (bias + places.sum()).unsqueeze(0).clamp(max=float("inf"))


@pytest.fixture(scope="module")
def cutter(tmp_path_factory: pytest.TempPathFactory) -> ProgramCutter:
    path = tmp_path_factory.mktemp("program") / "model.pt2"
    dynamic = torch.export.Dim.DYNAMIC
    given = (torch.randn(3, 3, 7), torch.randn(2))
    made = torch.export.export(Net().eval(), given, dynamic_shapes=({0: dynamic, 2: dynamic}, None), strict=False)
    torch.export.save(made, path)
    rng = np.random.default_rng(0)
    bias = rng.standard_normal(2).astype(np.float32)
    feeds = [
        {"x": rng.standard_normal((batch, 3, time)).astype(np.float32), "bias": bias}
        for batch, time in ((2, 9), (3, 5))
    ]
    return ProgramCutter(torch.export.load(path), SIGNATURE, *feeds)


def at(cutter: ProgramCutter, name: str) -> int:
    return next(number for number, node in enumerate(cutter.nodes) if name in str(node.target))


@pytest.mark.parametrize("names", [["conv1d"], ["relu_"], ["topk"], ["reshape"], ["topk", "reshape"], ["clamp"]])
def test_a_piece_is_fed_and_gives_what_it_is_and_does_in_the_whole(names: list[str], cutter: ProgramCutter) -> None:
    piece = cutter.piece([at(cutter, name) for name in names])
    assert piece is not None
    assert piece.operators == len(names)
    whole = cutter.piece(range(len(cutter.nodes)))
    assert whole is not None
    inner = {node.name: value for node, value in cutter._values[0].items()}
    for name, value in piece.expected.items():
        if names != ["conv1d"]:  # what it gave is written into, by the next
            np.testing.assert_array_equal(value, inner[name].numpy())


def test_sizes_are_worked_out_in_the_piece_and_axes_keep_their_names(cutter: ProgramCutter) -> None:
    piece = cutter.piece([at(cutter, "reshape")])
    assert piece is not None
    assert [(spec.name, spec.shape) for spec in piece.signature.inputs] == [("getitem", ("batch", 2, "time"))]
    assert [spec.shape for spec in piece.signature.outputs] == [("n18_15", 2)]


def test_an_operator_is_named_with_its_line(cutter: ProgramCutter) -> None:
    operator, description, where = cutter.describe(at(cutter, "reshape"))
    assert operator == "aten.reshape.default"
    line = "rows = values.reshape(x.shape[0] * x.shape[2], 2) + bias"
    assert (where or "").endswith(f" (`{line}`)")
    assert description.startswith("the operator aten.reshape.default (reshape), from test_pt2_pieces.py:")


def test_what_is_behind_an_operator_comes_nearest_first(cutter: ProgramCutter) -> None:
    reshape = at(cutter, "reshape")
    assert cutter.with_predecessors(reshape, 1) == [reshape]
    assert cutter.with_predecessors(reshape, 3) == [reshape, at(cutter, "topk"), at(cutter, "relu_")]


def test_the_code_of_a_piece_needs_torch_and_what_it_says_alone(cutter: ProgramCutter) -> None:
    piece = cutter.piece([at(cutter, "conv1d"), at(cutter, "clamp")])
    assert piece is not None
    held: dict[str, object] = {}
    exec("\n".join(["import torch", *piece.imports, "class Made:", piece.code]), held)  # noqa: S102
    assert piece.imports == ["from math import inf"]
    made = held["Made"]()  # type: ignore[operator]
    for name, value in piece.weights.items():
        setattr(made, name, torch.from_numpy(value))
    answers = made.forward(*map(torch.from_numpy, piece.feeds.values()))
    for name, value in zip(piece.expected, answers, strict=True):
        np.testing.assert_allclose(value.numpy(), piece.expected[name], rtol=1e-6)


def test_a_piece_is_a_source_that_answers_as_it_does(cutter: ProgramCutter, tmp_path: Path) -> None:
    from transload.models.loading.build import build_model

    piece = cutter.piece([at(cutter, "topk"), at(cutter, "reshape")])
    assert piece is not None
    piece.write(tmp_path)
    answers = build_model(tmp_path)(*map(torch.from_numpy, piece.feeds.values()))
    assert [tuple(each.shape) for each in answers] == [value.shape for value in piece.expected.values()]
