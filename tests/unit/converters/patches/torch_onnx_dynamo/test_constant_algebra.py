"""Linear algebra of weights alone is computed before torch's dynamo exporter gets a program; of inputs, or of what a
call writes, it is not."""

from __future__ import annotations

import torch
from torch import Tensor, linalg

from transload.converters.patches.torch_onnx_dynamo.constant_algebra import fold_constant_algebra

SIDE = 40


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(SIDE, SIDE, generator=torch.Generator().manual_seed(0)))
        self.register_buffer("count", torch.eye(SIDE))
        self.count: Tensor


class OfWeights(Model):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        square = self.weight @ self.weight.T + torch.eye(SIDE)
        lower, (left, sizes, _) = linalg.cholesky(square), linalg.svd(square)
        solved = torch.cholesky_solve(self.weight, lower)
        return torch.relu_(x @ lower), (x @ left) * sizes, x @ solved, x @ torch.matrix_exp(self.weight / SIDE)


class OfOthers(Model):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        own = self.count.clone()
        own.view(-1)[:1].add_(x.sum())
        self.count.add_(1)
        return linalg.inv(own), linalg.inv(self.weight + x[0]), linalg.inv(self.count + self.weight)


def test_what_follows_from_weights_is_a_constant() -> None:
    program = captured(OfWeights())
    fold_constant_algebra(program)
    program.validate()
    assert kinds(program) == {"matmul", "relu_", "mul"}
    x = torch.randn(5, SIDE)
    for got, want in zip(program.module()(x), OfWeights()(x), strict=True):
        torch.testing.assert_close(got, want)


def test_what_an_input_or_a_call_changes_is_none() -> None:
    program = captured(OfOthers())
    before = str(program.graph)
    fold_constant_algebra(program)
    assert str(program.graph) == before


def captured(model: torch.nn.Module) -> torch.export.ExportedProgram:
    axes = ({0: torch.export.Dim.DYNAMIC},)
    with torch.no_grad():
        return torch.export.export(model.eval(), (torch.randn(3, SIDE),), dynamic_shapes=axes, strict=False)


def kinds(program: torch.export.ExportedProgram) -> set[str]:
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    return {str(each).split(".")[1] for each in targets if "sym_" not in str(each) and "_assert" not in str(each)}
