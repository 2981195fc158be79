"""A module's state dict without a library's notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from transload.models.loading.weight_files import load_weights, open_weight_file
from transload.models.user_python.inside.model_state import state_of_module


class Noted(torch.nn.Linear):
    """A layer that adds its settings to its state dict, as neuraloperator's models do."""

    def state_dict(self, *arguments: Any, **keywords: Any) -> Any:
        state = super().state_dict(*arguments, **keywords)
        state["_metadata"] = {"_version": "1"}
        return state

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        state_dict.pop("_metadata", None)
        return super().load_state_dict(state_dict, strict, assign)


class Extra(torch.nn.Linear):
    """A layer with extra state, without which it cannot be loaded."""

    def get_extra_state(self) -> Any:
        return {"calls": 3}

    def set_extra_state(self, state: Any) -> None:
        self.calls = state["calls"]


def test_notes_of_a_library_are_no_weights() -> None:
    module = torch.nn.Sequential(Noted(3, 2))
    assert "_metadata" in module.state_dict()
    assert list(state_of_module(module)) == ["0.weight", "0.bias"]


def test_versions_of_layers_and_extra_state_are_kept() -> None:
    state = state_of_module(torch.nn.Sequential(torch.nn.BatchNorm1d(2), Extra(2, 2)))
    assert state["1._extra_state"] == {"calls": 3}
    assert state._metadata["0"]["version"] == 2  # type: ignore[attr-defined]


def test_weights_are_loaded_into_a_model_with_notes() -> None:
    layer = Noted(3, 2)
    weights = {"0.weight": torch.full((2, 3), 4.0), "0.bias": torch.zeros(2)}
    load_weights(torch.nn.Sequential(layer), weights)
    assert torch.equal(layer.weight, weights["0.weight"])


def test_a_file_with_notes_is_a_state_dict(tmp_path: Path) -> None:
    layer, trained = Noted(3, 2), Noted(3, 2)
    torch.save(trained.state_dict(), tmp_path / "weights.pt")
    open_weight_file(tmp_path / "weights.pt").load_into(layer)
    assert torch.equal(layer.weight, trained.weight)
