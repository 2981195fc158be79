"""Mixtures of experts of transformers, captured as every expert's answer weighed.

transformers sorts the tokens by their experts and multiplies groups of them (its `grouped_mm`), or goes from one expert
that was chosen to the next (`eager`). Neither is a program of fixed operators: torch.export keeps the former as one
operator of transformers' own, and how many tokens an expert gets is data. Here every expert answers every token, and
counts for nothing where it was not chosen: the same sum, in products whose sizes the inputs' shapes tell.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_MARKS = ("_apply_gate", "is_transposed", "has_bias", "has_gate", "num_experts", "down_proj")


def ask_every_expert(model: torch.nn.Module) -> None:
    """From here on the experts of a model can be captured: modules that transformers decorates with
    `use_experts_implementation` (transformers/integrations/moe.py)."""
    for module in model.modules():
        if all(hasattr(module, name) for name in _MARKS) and not getattr(module, "_is_expert_parallel", False):
            module.forward = MethodType(_every_expert, module)


def _every_expert(
    self: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """What each of `hidden_states` (tokens, width) gets of the experts in its row of `top_k_index` (tokens, k), which
    are counted as in `top_k_weights` (tokens, k)."""
    import torch

    name = "gate_up_proj" if self.has_gate else "up_proj"
    inner = _products(self, name, hidden_states)
    inner = self._apply_gate(inner) if self.has_gate else self.act_fn(inner)
    made = _products(self, "down_proj", inner)
    if getattr(self, "has_post_expert_norm", False):
        made = self.post_expert_norm(made)
    chosen = top_k_index[..., None] == torch.arange(self.num_experts, device=top_k_index.device)
    counts = (chosen * top_k_weights[..., None]).sum(1).T[..., None]  # (experts, tokens, 1)
    # Not a product alone: what an expert that nobody chose says may be infinite.
    counted: torch.Tensor = torch.where(counts != 0, made * counts, 0.0).sum(0)
    return counted.to(hidden_states.dtype)


def _products(experts: Any, name: str, values: torch.Tensor) -> torch.Tensor:
    """`values` (tokens, width), or of each expert its own, by each expert's matrix: (experts, tokens, width)."""
    weights = getattr(experts, name)
    made: torch.Tensor = values @ (weights if experts.is_transposed else weights.transpose(-2, -1))
    if experts.has_bias:
        made = made + getattr(experts, f"{name}_bias")[:, None]
    return made
