"""Small matrices inverted, solved, factored and measured, exported by torch's dynamo exporter: in ONNX Runtime as in
PyTorch, at several batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, linalg

from transload.converters.patches.torch_onnx_dynamo.translations import translations

Tensors = tuple[Tensor, ...]
SIDE = 4


def inverses(x: Tensor) -> Tensors:
    """Of matrices whose rows have to change places, one of them for a pivot that is 0."""
    turned, halved = x.flip(-1), x.clone()
    halved[..., 0, 0] = 0
    alone = x[:, :1, :1], x[:, :2, :2].double(), x[0], torch.stack([x, turned], 1)
    wide = torch.eye(20).flip(0) + torch.nn.functional.pad(x, (16, 0, 0, 16)) / 20
    return *(torch.inverse(each) for each in (x, turned, halved, *alone)), linalg.inv(wide), linalg.matrix_power(x, -2)


def solutions(x: Tensor) -> Tensors:
    right, vector = x[..., :3].flip(-1), x.sum(-1)
    triangles = linalg.solve_triangular, torch.triangular_solve
    return (
        linalg.solve(x, right),
        linalg.solve(x, vector),
        linalg.solve(x[0], vector[0]),
        linalg.solve(x[0], right),
        linalg.solve(x.unsqueeze(1), right[0]),
        linalg.solve(x, right.mT, left=False),
        *(triangles[0](x, right, upper=upper, unitriangular=upper) for upper in (True, False)),
        *(triangles[0](x[0], right.mT, upper=upper, left=False) for upper in (True, False)),
        triangles[0](x, right[0], upper=True, unitriangular=True),
        *triangles[1](right, x, upper=False, transpose=True),
    )


def factors(x: Tensor) -> Tensors:
    square = x @ x.mT + torch.eye(SIDE)
    lower, upper = linalg.cholesky(square.tril()), linalg.cholesky(square.triu(), upper=True)
    solved = torch.cholesky_solve(x, lower), torch.cholesky_solve(x[0], upper, upper=True)
    inverted = torch.cholesky_inverse(lower), torch.cholesky_inverse(upper, upper=True)
    return lower, upper, torch.cholesky(square[0]), linalg.cholesky(square[:, :1, :1]), *solved, *inverted


def determinants(x: Tensor) -> Tensors:
    """One of them 0, and some beyond what float32 holds."""
    nothing, large = x * torch.tensor([1.0, 0, 1, 1]), x * 1e15
    swapped = x.flip(-1), x[:, [1, 0, 2, 3]]
    logs = (linalg.slogdet(each) for each in (*swapped, nothing, large, x[0]))
    return (
        *(linalg.det(each) for each in (x, *swapped, nothing, x[:, :1, :1], x[0])),
        *(each for pair in logs for each in pair),
        torch.logdet(x @ x.mT),
        torch.logdet(-large.abs() * torch.eye(SIDE).flip(0) / 1e15),
    )


def failures(x: Tensor) -> Tensors:
    """Which row is the first that fails, counted from 1: of each matrix."""
    nothing, negative = torch.zeros(SIDE), torch.ones(SIDE)
    nothing[2], negative[1] = 1, -1
    square = x @ x.mT + torch.eye(SIDE)
    return (
        linalg.inv_ex(x)[1],
        linalg.inv_ex(x * (1 - nothing))[1],
        linalg.solve_ex(x * (1 - nothing), x)[1],
        linalg.cholesky_ex(square)[1],
        linalg.cholesky_ex(square * torch.diag(negative))[1],
    )


@pytest.mark.filterwarnings("ignore:torch.cholesky is deprecated", "ignore:torch.triangular_solve is deprecated")
@pytest.mark.parametrize(
    "function",
    [factors, failures, *(pytest.param(each, marks=pytest.mark.slow) for each in (inverses, solutions, determinants))],
)
def test_small_matrices_are_as_in_pytorch(function: Callable[[Tensor], Tensors], tmp_path: Path) -> None:
    session = exported(function, tmp_path / "model.onnx")
    for batch in (3, 1, 2, SIDE, 5):
        x = given(batch)
        for at, (got, want) in enumerate(zip(session.run(None, {"x": x.numpy()}), function(x), strict=True)):
            assert got.dtype == want.numpy().dtype, at
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5, err_msg=f"output {at} of {batch}")


def test_an_inverse_is_as_near_as_pytorch_s(tmp_path: Path) -> None:
    session = exported(lambda x: (torch.inverse(x),), tmp_path / "model.onnx")
    x = given(50)
    truth, own = torch.inverse(x.double()), torch.inverse(x).double()
    (got,) = session.run(None, {"x": x.numpy()})
    assert np.abs(got - truth.numpy()).max() < 4 * (own - truth).abs().max()


@pytest.mark.slow
def test_of_a_triangle_more_rows_are_written_out(tmp_path: Path) -> None:
    def solved(x: Tensor) -> Tensors:
        wide = torch.nn.functional.pad(x / 9, (56, 0, 56, 0)) + torch.eye(60)
        return (torch.cholesky_solve(torch.ones(60, 2), wide),)

    session = exported(solved, tmp_path / "model.onnx")
    x = given(5)
    np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], solved(x)[0], rtol=1e-4, atol=1e-5)


def test_larger_matrices_are_refused_with_the_limit(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="matrices of up to 32 rows, and one has 33"):
        exported(lambda x: (torch.inverse(torch.nn.functional.pad(x, (29, 0, 29, 0))),), tmp_path / "model.onnx")


def given(batch: int) -> Tensor:
    return torch.randn(batch, SIDE, SIDE, generator=torch.Generator().manual_seed(batch)) + 3 * torch.eye(SIDE)


def exported(function: Callable[[Tensor], Tensors], path: Path) -> onnxruntime.InferenceSession:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensors:
            return function(x)

    axes = ({0: torch.export.Dim.DYNAMIC},)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.export.export(Model(), (given(3),), dynamic_shapes=axes, strict=False)
        made = torch.onnx.export(
            program, dynamo=True, opset_version=20, verbose=False, custom_translation_table=translations()
        )
    assert made is not None
    made.save(path)
    return onnxruntime.InferenceSession(path)
