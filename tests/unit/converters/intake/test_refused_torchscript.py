"""A TorchScript that raises on random inputs: the error names inputs that it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from transload.converters.intake.torchscript_file import describe_torchscript
from transload.models.errors import BadRequest
from transload.models.signature import parse_input


class Table(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(2, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids)


class Windows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1] // 4, 4).sum(-1)


@pytest.mark.parametrize(
    ("module", "spec", "fix"),
    [
        (Table(), "ids=int64[batch,n]", "say which values it takes, as in --input 'ids=int64[batch,n] in 0..1'"),
        (Windows(), "x=float32[batch,n]", "give the sizes that it takes, as in --input x=float32[batch,n=4..:4]"),
        (Windows(), "x=float32[batch,3]", "hold x=float32[batch,3] against what it takes"),
    ],
)
def test_the_fix_names_what_it_takes(module: torch.nn.Module, spec: str, fix: str) -> None:
    with pytest.warns(DeprecationWarning, match="torch.jit"):
        script: torch.jit.ScriptModule = torch.jit.script(module)
    with pytest.raises(BadRequest) as caught:
        describe_torchscript(script, [parse_input(spec)], Path("net.pt"))
    assert caught.value.fix == fix
