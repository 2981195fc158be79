"""Mixtures of experts of transformers: captured with any number of tokens, answering as they do."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import pytest
import torch

from transload.converters.patches.torch_export.mixture_of_experts import ask_every_expert
from transload.models.loading.torchvision_ops import register_torchvision_stubs

register_torchvision_stubs()

FIELDS = {"hidden_size": 8, "num_local_experts": 5, "intermediate_size": 12, "moe_intermediate_size": 12}
KINDS = {
    "gated": ("qwen3_moe", "Qwen3MoeConfig", "Qwen3MoeExperts", {"num_experts": 5}),
    "transposed, with biases and gates between": ("gpt_oss", "GptOssConfig", "GptOssExperts", {}),
    "without gates": ("nemotron_h", "NemotronHConfig", "NemotronHExperts", {"n_routed_experts": 5}),
}


@pytest.fixture(params=KINDS)
def experts(request: pytest.FixtureRequest) -> Any:
    family, config, kind, more = KINDS[request.param]
    package = import_module(f"transformers.models.{family}")
    known = getattr(package, config)()
    for name, value in {**FIELDS, **more}.items():
        if hasattr(known, name):
            setattr(known, name, value)
    known._experts_implementation = "grouped_mm"
    module = getattr(package, kind, None) or getattr(import_module(f"{package.__name__}.modeling_{family}"), kind)
    made = module(known)
    generator = torch.Generator().manual_seed(1)
    for weight in made.parameters():
        weight.data = torch.randn(weight.shape, generator=generator) * 0.3
    return made.requires_grad_(False)


def routed(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens, the two experts of each, and what these count."""
    generator = torch.Generator().manual_seed(tokens)
    chosen = torch.stack([torch.randperm(5, generator=generator)[:2] for _ in range(tokens)])
    return torch.randn(tokens, 8, generator=generator), chosen, torch.rand(tokens, 2, generator=generator)


def test_a_captured_mixture_answers_as_the_model_at_any_number_of_tokens(experts: Any) -> None:
    captured = copy.deepcopy(experts)
    ask_every_expert(captured)
    tokens = torch.export.Dim("tokens")
    program = torch.export.export(captured, routed(3), dynamic_shapes=[{0: tokens}] * 3, strict=False)
    assert not any("transformers" in str(node.target) for node in program.graph.nodes)
    for count in (1, 3, 9):
        wanted = experts(*routed(count))
        assert wanted.abs().max() > 0.05
        assert torch.allclose(program.module()(*routed(count)), wanted, atol=1e-5)


def test_an_expert_that_nobody_chose_may_say_anything(experts: Any) -> None:
    with torch.no_grad():
        experts.down_proj[4] = torch.inf
    states, _, counts = routed(3)
    chosen = torch.tensor([[0, 1], [3, 2], [1, 2]])
    wanted = experts(states, chosen, counts)
    ask_every_expert(experts)
    assert wanted.isfinite().all()
    assert torch.allclose(experts(states, chosen, counts), wanted, atol=1e-5)
