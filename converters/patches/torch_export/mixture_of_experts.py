"""Mixtures of experts of transformers, captured as the weighted sum of every expert's answer.

transformers sorts the tokens by their experts and multiplies groups of them (`grouped_mm`), or loops over the chosen
experts (`eager`). Neither is a program of fixed operators: torch.export keeps the former as one operator of
transformers' own, and how many tokens an expert gets is data. Here every expert answers every token, with weight 0
where it was not chosen: the same sum, in products whose sizes follow from the inputs' shapes.
"""

from __future__ import annotations

from types import MethodType
from typing import TYPE_CHECKING, Any

from ..ledger import TRANSFORMERS, rewrites

if TYPE_CHECKING:
    import torch

_ATTRIBUTES = ("_apply_gate", "is_transposed", "has_bias", "has_gate", "num_experts", "down_proj")


def ask_every_expert(model: torch.nn.Module) -> None:
    """Replace the forward of every module of experts in a model, in place.

    These are the modules that transformers decorates with `use_experts_implementation`.
    """
    for module in model.modules():
        if all(hasattr(module, name) for name in _ATTRIBUTES) and not getattr(module, "_is_expert_parallel", False):
            module.forward = MethodType(_every_expert, module)


def _every_expert(
    self: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """Return the weighted sum of experts' answers for `hidden_states` (tokens, width).

    `top_k_index` (tokens, k) tells the experts of each token, and `top_k_weights` (tokens, k) their weights.
    """
    import torch

    name = "gate_up_proj" if self.has_gate else "up_proj"
    inner = _products(self, name, hidden_states)
    inner = self._apply_gate(inner) if self.has_gate else self.act_fn(inner)
    answers = _products(self, "down_proj", inner)
    if getattr(self, "has_post_expert_norm", False):
        answers = self.post_expert_norm(answers)
    chosen = top_k_index[..., None] == torch.arange(self.num_experts, device=top_k_index.device)
    weights = (chosen * top_k_weights[..., None]).sum(1).T[..., None]  # (experts, tokens, 1)
    # A product alone is not enough: the answer of an expert that nobody chose may be infinite.
    total: torch.Tensor = torch.where(weights != 0, answers * weights, 0.0).sum(0)
    return total.to(hidden_states.dtype)


def _products(experts: Any, name: str, values: torch.Tensor) -> torch.Tensor:
    """Multiply `values` (tokens, width), or (experts, tokens, width), by each expert's matrix."""
    weights = getattr(experts, name)
    products: torch.Tensor = values @ (weights if experts.is_transposed else weights.transpose(-2, -1))
    if experts.has_bias:
        products = products + getattr(experts, f"{name}_bias")[:, None]
    return products


PATCHES = rewrites(
    "transformers.integrations.moe",
    {"use_experts_implementation": ask_every_expert},
    why="The number of tokens of an expert is data: torch.export keeps an operator of transformers' own, or stops.",
    upstream="transformers/integrations/moe.py",
    until="transformers has an implementation of experts that torch.export captures with ATen operators alone",
    seen=TRANSFORMERS,
)
