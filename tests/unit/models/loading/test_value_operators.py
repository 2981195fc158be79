"""Whether a call ends behind the last operator that can refuse its values, and not before."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.loading.module_checks import check_steady
from transload.models.loading.value_operators import call_until_values_taken, trace_operators
from transload.models.signature import Signature, TensorSpec

FEW, MANY, BAD = torch.zeros(2, 3, dtype=torch.int64), torch.full((64, 3), 3), torch.full((64, 3), 4)


class Layers(torch.nn.Module):
    """A table of four rows, a layer, and what a test does behind it."""

    def __init__(self, behind: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.table, self.layer, self.behind = torch.nn.Embedding(4, 8), torch.nn.Linear(8, 8), behind
        self.finished = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        answer = self.behind(torch.relu(self.layer(self.table(ids))), ids)
        self.finished += len(ids) == len(MANY)
        return answer


def ask(module: torch.nn.Module, ids: torch.Tensor) -> None:
    with torch.no_grad():
        trace = trace_operators(module, lambda: module(FEW))
        assert trace is not None
        call_until_values_taken(lambda: module(ids), trace)


def test_a_call_ends_once_its_table_is_read() -> None:
    module = Layers(lambda hidden, _: hidden.softmax(-1))
    ask(module, MANY)
    assert module.finished == 0
    with pytest.raises(IndexError):
        ask(module, BAD)


def _refuse_number(hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    largest = ids.max().item()
    hidden = hidden + 1
    if largest > 2:
        raise ValueError("too large")
    return hidden


def _refuse_list(hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    if 3 in ids[0].tolist():
        raise ValueError("too large")
    return hidden


LATE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "a second table": lambda hidden, ids: torch.nn.functional.embedding(ids, hidden.new_ones(3, 8)) + hidden,
    "an index": lambda hidden, ids: hidden + hidden.new_ones(3)[ids][..., None],
    "a gather": lambda hidden, ids: hidden + torch.gather(hidden[..., :3], 2, ids[..., None]),
    "ids of floats": lambda hidden, ids: hidden + hidden.new_ones(3)[(ids * 1.0).long()][..., None],
    "a division": lambda hidden, ids: hidden + (6 // (3 - ids))[..., None],
    "a remainder": lambda hidden, ids: hidden + torch.remainder(6, 3 - ids)[..., None],
    "a probability": lambda hidden, ids: hidden + torch.bernoulli(ids / 2)[..., None],
    "a branch": lambda hidden, ids: hidden + (1 if ids.max() < 3 else ids[0, 9]),
    "a number": _refuse_number,
    "a list": _refuse_list,
}


@pytest.mark.parametrize("behind", LATE.values(), ids=LATE.keys())
def test_what_is_refused_behind_the_layers_is_refused(
    behind: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    with pytest.raises((IndexError, RuntimeError, ValueError, ZeroDivisionError)):
        ask(Layers(behind), MANY)


def test_a_call_with_other_operators_is_made_to_its_end() -> None:
    module = Layers(lambda hidden, _: hidden)
    with torch.no_grad():
        trace = trace_operators(module, lambda: module.layer(torch.zeros(2, 8)).argmin(-1).index_select(0, FEW[0]))
        assert trace is not None
        call_until_values_taken(lambda: module(MANY), trace)
    assert module.finished == 1


def test_operators_of_torchscript_are_not_traced() -> None:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        module = torch.nn.Sequential(torch.jit.script(torch.nn.Linear(2, 2)))
    assert trace_operators(module, lambda: module(torch.zeros(1, 2))) is None


class Counted(torch.nn.Module):
    """Counts the samples that it was asked."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.layer, self.dropout = torch.nn.Linear(1000, 1000), dropout
        self.asked: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.asked.append(len(x))
        x = torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0]
        answer: torch.Tensor = self.layer(torch.nn.functional.dropout(x, self.dropout, training=self.dropout > 0))
        return answer


@pytest.mark.parametrize(("dropout", "most"), [(0.0, 2), (1e-6, 8)])
def test_a_large_model_that_draws_nothing_is_asked_few_samples_twice(dropout: float, most: int) -> None:
    specs = (TensorSpec("x", "float32", ("batch", 1000)), TensorSpec("y", "float32", ("batch", 1000)))
    model = Counted(dropout).eval()
    with contextlib.suppress(BadRequest):  # that it is random may show
        check_steady(model, Signature(specs[:1], specs[1:]))
    assert max(model.asked) == most


class Scan(torch.nn.Module):
    """A loop that torch compiles where it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.keep = torch.nn.Linear(3, 3)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.scan import scan

        def step(state: torch.Tensor, now: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = torch.tanh(now + self.keep(state))
            return state, state.clone()

        last, _ = scan(step, torch.zeros_like(steps[0]), steps, dim=0)
        return last


def test_a_loop_that_cannot_be_watched_is_called_as_before() -> None:
    model = Scan().eval()
    with torch.no_grad():
        assert trace_operators(model, lambda: model(torch.randn(5, 2, 3))) is None
        assert model(torch.randn(5, 4, 3)).shape == (4, 3)


OWN = np.random.default_rng(0)
FROM_ELSEWHERE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "python": lambda y: y * random.random(),  # noqa: S311
    "numpy": lambda y: y * float(np.random.rand()),
    "its own": lambda y: y * torch.from_numpy((OWN.random(y.shape) > 0.5).astype(np.float32)),
    "list": lambda y: y * torch.tensor([OWN.random() for _ in range(4)]),
}


def _is_closed(behind: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    with torch.no_grad():
        trace = trace_operators(layer, lambda: behind(layer(x)), [x])
    assert trace is not None
    return trace.is_closed


@pytest.mark.parametrize("name", FROM_ELSEWHERE)
def test_numbers_that_no_operator_makes_are_seen(name: str) -> None:
    assert not _is_closed(FROM_ELSEWHERE[name])


@pytest.mark.parametrize(
    "behind", [torch.relu, lambda y: y.t()[1:].add_(1).softmax(0), lambda y: torch.zeros(2, 4) + y]
)
def test_what_is_made_of_weights_and_inputs_is_closed(behind: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert _is_closed(behind)


class SmallDropout(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * torch.from_numpy((OWN.random((len(x), 2)) > 0.5).astype(np.float32))


def test_a_small_answer_with_numbers_from_elsewhere_is_asked_with_many_samples() -> None:
    """Of two samples, one of ten such models would answer alike."""
    specs = (TensorSpec("x", "float32", ("batch", 4)),), (TensorSpec("y", "float32", ("batch", 2)),)
    for _ in range(40):
        with pytest.raises(BadRequest, match="is random"):
            check_steady(SmallDropout().eval(), Signature(*specs))
