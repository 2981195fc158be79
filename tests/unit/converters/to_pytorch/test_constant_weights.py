"""Weights that a model computes at each call are plain ones in what an exporter is given; what the user gave stays."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from transload.converters.to_pytorch.constant_weights import model_to_export
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.source_from_code import take_weights
from transload.models.signature import parse_input

CODE = '''
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune
import torch.nn.utils as old


class Twice(nn.Module):
    def forward(self, weight):
        return 2 * weight


def masked(layer):
    prune.random_unstructured(layer, "weight", 0.3)
    return prune.random_unstructured(layer, "bias", 0.3)


def registered(layer):
    parametrize.register_parametrization(layer, "bias", Twice())
    return parametrize.register_parametrization(layer, "weight", Twice())


KINDS = {
    "orthogonal": parametrizations.orthogonal,
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "registered": registered,
    "masked": masked,
}


class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        wrap = KINDS[kind] if kind in KINDS else getattr(old, kind.removeprefix("hook_"))
        self.first = wrap(nn.Linear(4, 5))
        self.last = nn.Sequential(nn.Tanh(), wrap(nn.Linear(5, 3)))

    def forward(self, x):
        return self.last(self.first(x))


class Reads(Net):
    """It asks for what its weight is made of."""

    def forward(self, x):
        return x @ self.first.parametrizations.weight.original.T


class Differs(nn.Module):
    """One call with plain weights is another model's."""

    def __init__(self):
        super().__init__()
        self.first = registered(nn.Linear(4, 5))

    def forward(self, x):
        return self.first(x) + float(parametrize.is_parametrized(self.first))


INSTANCE = Net("weight_norm")
'''


def source(tmp_path: Path, name: str, **settings: str) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    out = tmp_path / "source"
    out.mkdir()
    inputs = [parse_input("x=float32[batch,4]").to_json()]
    take_weights(
        Job({}, out, {"ref": f"mine.py:{name}", "root": str(tmp_path), "settings": settings, "inputs": inputs})
    )
    return out


KINDS = ["orthogonal", "weight_norm", "spectral_norm", "registered", "masked", "hook_spectral_norm"]


@pytest.mark.parametrize("kind", KINDS)
def test_computed_weights_are_plain_ones_for_an_exporter(kind: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Net", kind=kind)
    made, given = model_to_export(start), build_model(start)
    assert sorted(made.state_dict()) == ["first.bias", "first.weight", "last.1.bias", "last.1.weight"]
    assert not any(each.requires_grad for each in made.parameters())
    x = torch.randn(3, 4)
    assert torch.allclose(made(x), given(x))


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")  # by torch, and still met
def test_so_are_those_of_the_older_hook(tmp_path: Path) -> None:
    made = model_to_export(source(tmp_path, "Net", kind="hook_weight_norm"))
    assert "first.weight" in made.state_dict()


def test_an_instance_that_was_given_stays_as_it_is(tmp_path: Path) -> None:
    made = model_to_export(source(tmp_path, "INSTANCE"))
    given = next(module.INSTANCE for name, module in sys.modules.items() if name.endswith("_user_mine"))
    assert "first.weight" in made.state_dict()
    assert "first.parametrizations.weight.original0" in given.state_dict()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Reads", "AttributeError: 'Linear' object has no attribute 'parametrizations'"),
        ("Differs", "answers otherwise"),
    ],
)
def test_a_model_that_is_another_with_plain_weights_is_given_itself(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"kind": "registered"} if name == "Reads" else {}
    made = model_to_export(source(tmp_path, name, **settings))
    assert any("parametrizations" in each for each in made.state_dict())
    assert said in capsys.readouterr().out
