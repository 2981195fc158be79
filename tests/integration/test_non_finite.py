"""Copies of single operators are verified, whatever their runtime makes of NaN and infinities."""

from __future__ import annotations

from pathlib import Path

import pytest

import transload

pytestmark = pytest.mark.usefixtures("loaded_once")

CODE = """
import torch
from torch import nn
from torch.nn import functional as F

class Act(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act = act
    def forward(self, x):
        return self.act(x)

class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell(6, 4, batch_first=True)
    def forward(self, x):
        return self.cell(x)[0]

def masked_mean(x):
    known = ~torch.isnan(x)
    return torch.where(known, x, torch.zeros_like(x)).sum(-1) / known.sum(-1).clamp(min=1)

def relu(): return Act(F.relu)
def relu6(): return Act(F.relu6)
def clamp(): return Act(lambda x: x.clamp(-1, 1))
def softmax(): return Act(lambda x: x.softmax(-1))
def layer_norm(): return nn.LayerNorm(6)
def max_pool(): return nn.MaxPool1d(2)
def lstm(): return Recurrent(nn.LSTM)
def gru(): return Recurrent(nn.GRU)
def sort(): return Act(lambda x: x.sort(-1).values)
def topk(): return Act(lambda x: x.topk(2, -1).values)
def argmax(): return Act(lambda x: (x * 2, x.argmax(-1)))
def minimum(): return Act(lambda x: torch.minimum(x, x.flip(-1)))
def maximum(): return Act(lambda x: torch.maximum(x, torch.zeros_like(x)))
def where_isnan(): return Act(lambda x: torch.where(torch.isnan(x), torch.full_like(x, 0.7), x))
def nan_to_num(): return Act(lambda x: torch.nan_to_num(x, 0.5, 9.0, -9.0))
def mean_of_known(): return Act(masked_mean)
"""
NAMES = [line[4:].partition("(")[0] for line in CODE.splitlines() if line.startswith("def ") and "():" in line]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_right_copy_is_verified(name: str, tmp_path: Path) -> None:
    (tmp_path / "operators.py").write_text(CODE)
    model, targets = f"{tmp_path}/operators.py:{name}", ["torchscript", "onnx", "saved-model", "tflite"]
    converted = transload.convert(
        model, targets, out=tmp_path / "made", inputs=["x=float32[batch,5,6]"], store=tmp_path / "store"
    )
    statuses = {row.name: (str(row.status), [tried.reason for tried in row.tried]) for row in converted.artifacts}
    assert {status for status, _ in statuses.values()} == {"verified"}, statuses
    assert converted.decided[0] == "pass"
