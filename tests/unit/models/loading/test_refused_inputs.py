"""What a module takes that raised on random inputs is found by asking it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from transload.models.loading.call_convention import call_by_name
from transload.models.loading.refused_inputs import suggest_inputs
from transload.models.signature import parse_input


class Halving(torch.nn.Module):
    """Halves an image, and puts what is left beside it."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        small = torch.nn.functional.avg_pool2d(image, 2**self.times)
        return torch.cat([image, torch.nn.functional.interpolate(small, scale_factor=float(2**self.times))], 1)


class Tables(torch.nn.Module):
    def __init__(self, *rows: int) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(count, 4) for count in rows)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.cat([table(ids[:, at]) for at, table in enumerate(self.tables)], 1)


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return self.function(x, n)


def suggested(model: torch.nn.Module, *inputs: str) -> str | None:
    specs = tuple(map(parse_input, inputs))
    return suggest_inputs(model, specs, call_by_name(model.forward, [spec.name for spec in specs], "forward"))


@pytest.mark.parametrize(
    ("times", "wanted", "sizes"),
    [
        (4, "height,width", "height=16..:16,width=16..:16"),
        (3, "height,width=8..64", "height=8..:8,width=8..64:8"),
        (3, "height=20..100,width=4..:4", "height=24..96:8,width=8..:8"),
    ],
)
def test_a_module_that_takes_multiples_alone_is_given_the_step(times: int, wanted: str, sizes: str) -> None:
    assert suggested(Halving(times), f"image=float32[batch,3,{wanted}]") == (
        f"give the sizes that it takes, as in --input image=float32[batch,3,{sizes}]"
    )


def test_only_the_axis_that_needs_a_step_gets_one() -> None:
    def windows(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), -1, 7).sum(-1).mean(1) + n.mean(1)

    assert suggested(Calls(windows), "x=float32[batch,time]", "n=float32[batch,m]") == (
        "give the sizes that it takes, as in --input x=float32[batch,time=7..:7] --input n=float32[batch,m]"
    )


def test_the_batch_gets_a_step_where_nothing_else_helps() -> None:
    def pairs(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x) // 2, 6).sum() + n

    assert suggested(Calls(pairs), "x=float32[batch,3]", "n=float32[]") == (
        "give the sizes that it takes, as in --input x=float32[batch=2..:2,3] --input n=float32[]"
    )


def test_ids_end_at_the_last_row_of_the_smallest_table() -> None:
    assert suggested(Tables(12, 7, 31, 2), "ids=int64[batch,4]") == (
        "say which values it takes, as in --input 'ids=int64[batch,4] in 0..1'"
    )
    assert suggested(Tables(3, 12), "ids=int64[batch,2]") == (
        "say which values it takes, as in --input 'ids=int64[batch,2] in 0..2'"
    )


def test_a_divisor_begins_at_one() -> None:
    def divided(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + (100 // n)[:, None]

    assert suggested(Calls(divided), "x=float32[batch,3]", "n=int64[batch]") == (
        "say which values it takes, as in --input x=float32[batch,3] --input 'n=int64[batch] in 1..9'"
    )


def test_nothing_is_suggested_where_no_trial_has_an_answer() -> None:
    assert suggested(torch.nn.Linear(4, 2), "input=float32[batch,5]") is None
