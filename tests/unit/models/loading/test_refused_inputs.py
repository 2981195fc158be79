"""What a module takes that raised on random inputs is found by asking it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from transload.models.dataset import Dataset
from transload.models.loading.call_convention import Call, call_by_name
from transload.models.loading.refused_inputs import fix_of_refusal, infer_accepted
from transload.models.probes.random_inputs import drawing_from
from transload.models.probes.user_samples import draws_of
from transload.models.signature import TensorSpec, parse_input


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


class Signals(torch.nn.Module):
    """Needs 400 steps, for a kernel that is as long."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = torch.nn.Conv1d(1, 2, 400, 160)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        return self.kernel(wave[:, None]).mean(-1)


def ready(model: torch.nn.Module, *inputs: str) -> tuple[torch.nn.Module, tuple[TensorSpec, ...], Call]:
    specs = tuple(map(parse_input, inputs))
    return model, specs, call_by_name(model.forward, [spec.name for spec in specs], "forward")


def accepted(model: torch.nn.Module, *inputs: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the inputs that are used in place of those named, as a user writes them, and what is told of them."""
    (signature, _, _), notes = infer_accepted(*ready(model, *inputs), Exception)
    return list(map(str, signature.inputs)), notes


@pytest.mark.parametrize(
    ("times", "wanted", "sizes"),
    [
        (4, "height,width", "height=16..:16,width=16..:16"),
        (3, "height,width=8..64", "height=8..:8,width=8..64:8"),
        (3, "height=20..100,width=4..:4", "height=24..96:8,width=8..:8"),
        (4, "height=16..,width=16..", "height=16..:16,width=16..:16"),  # examples of such bounds are multiples of 16
        (3, "height=64..512,width=32..:32", "height=64..512:8,width=32..:32"),
    ],
)
def test_a_module_that_takes_multiples_alone_is_given_the_step(times: int, wanted: str, sizes: str) -> None:
    inputs, notes = accepted(Halving(times), f"image=float32[batch,3,{wanted}]")
    assert inputs == [f"image=float32[batch,3,{sizes}]"]
    assert len(notes) == 1


def test_the_sizes_that_were_chosen_are_told() -> None:
    _, notes = accepted(Halving(4), "image=float32[batch,3,height,width]")
    assert notes == ("sizes height=16..:16 and width=16..:16 by asking the model, which refuses others",)


def test_a_module_that_takes_any_size_keeps_its_bounds() -> None:
    inputs, notes = accepted(torch.nn.Conv2d(3, 2, 3, padding=1), "input=float32[batch,3,h=16..,w=16..64]")
    assert inputs == ["input=float32[batch,3,h=16..,w=16..64]"]
    assert notes == ()


def test_sizes_begin_at_the_least_that_has_an_answer() -> None:
    assert accepted(Signals(), "wave=float32[batch,time]") == (
        ["wave=float32[batch,time=400..]"],
        ("sizes time=400.. by asking the model, which refuses others",),
    )


def test_only_the_axis_that_needs_a_step_gets_one() -> None:
    def windows(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), -1, 7).sum(-1).mean(1) + n.mean(1)

    inputs, _ = accepted(Calls(windows), "x=float32[batch,time]", "n=float32[batch,m]")
    assert inputs == ["x=float32[batch,time=7..:7]", "n=float32[batch,m]"]


def test_the_batch_gets_a_step_where_nothing_else_helps() -> None:
    def pairs(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x) // 2, 6).sum() + n

    inputs, _ = accepted(Calls(pairs), "x=float32[batch,3]", "n=float32[]")
    assert inputs == ["x=float32[batch=2..:2,3]", "n=float32[]"]


@pytest.mark.parametrize(
    ("rows", "limits", "why"),
    [
        ((12, 7, 31, 2), "0..1", "in all 4 columns, by its smallest table (of 2, 7, 12, 31 rows)"),
        ((3, 12, 12, 12), "0..2", "in all 4 columns, by its smallest table (of 3, 12 rows)"),
        ((3, 3, 3, 3), "0..2", "by its smallest table"),
    ],
)
def test_ids_end_at_the_last_row_of_the_smallest_table(rows: tuple[int, ...], limits: str, why: str) -> None:
    assert accepted(Tables(*rows), "ids=int64[batch,4]") == (
        [f"ids=int64[batch,4] in {limits}"],
        (f"ids: ids {limits} {why}; give --data for more",),
    )


def test_ids_in_a_float_tensor_are_below_the_rows_of_the_smallest_table() -> None:
    class Cut(Tables):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return super().forward(ids.long())

    assert accepted(Cut(12, 7, 31, 2), "x=float32[batch,4]") == (
        ["x=float32[batch,4] in 0..1.99"],
        ("x: numbers 0..1.99 in all 4 columns, by its smallest table (of 2, 7, 12, 31 rows); give --data for more",),
    )


def test_numbers_that_a_few_samples_do_not_hold_are_asked_before_they_are_promised() -> None:
    def looked_up(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        if len(n) < 10:  # as a few samples that hold no 3 would do
            n = n.clamp(max=2)
        return x + table(n).sum(-1, keepdim=True)

    table = torch.nn.Embedding(3, 4)
    model = Calls(looked_up)
    model.table = table
    assert accepted(model, "x=float32[batch,3]", "n=int64[batch]") == (
        ["x=float32[batch,3]", "n=int64[batch] in 0..2"],
        ("n: ids 0..2 by its smallest table; give --data for more",),
    )


def test_a_module_that_takes_few_samples_alone_keeps_its_inputs() -> None:
    def limited(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x[:8] + torch.zeros(8, 3)[: len(x)] + n[:, None]

    assert accepted(Calls(limited), "x=float32[batch,3]", "n=int64[batch]")[1] == ()


def test_ids_and_sizes_are_both_chosen() -> None:
    def both(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x.reshape(len(x), -1, 4).sum((1, 2)) + torch.nn.functional.one_hot(n, 3).sum(-1)

    inputs, notes = accepted(Calls(both), "x=float32[batch,time=4..]", "n=int64[batch]")
    assert inputs == ["x=float32[batch,time=4..:4]", "n=int64[batch] in 0..2"]
    assert notes == (
        "sizes time=4..:4 by asking the model, which refuses others",
        "n: numbers 0..2 by asking the model, which refuses others; give --data for more",
    )


def test_a_divisor_begins_at_one() -> None:
    def divided(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x + (100 // n)[:, None]

    inputs, _ = accepted(Calls(divided), "x=float32[batch,3]", "n=int64[batch]")
    assert inputs == ["x=float32[batch,3]", "n=int64[batch] in 1..9"]


def test_a_picture_of_one_size_is_fixed_by_its_user() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 28 * 28, 2))
    refused = ready(model, "input=float32[batch,3,h,w]")
    with pytest.raises(RuntimeError):
        infer_accepted(*refused, RuntimeError)
    assert fix_of_refusal(*refused) == "fix the size that it takes, as in --input input=float32[batch,3,28,28]"


def test_nothing_is_suggested_where_no_trial_has_an_answer() -> None:
    assert fix_of_refusal(*ready(torch.nn.Linear(4, 2), "input=float32[batch,5]")) is None


def test_the_samples_of_the_user_have_precedence_and_are_compared_with_the_tables() -> None:
    ids = np.array([[11, 6, 30, 1], [0, 5, 2, 0], [4, 4, 4, 1]])
    with drawing_from(draws_of(Dataset({"ids": ids}))):
        assert accepted(Tables(12, 7, 31, 2), "ids=int64[batch,4]") == (["ids=int64[batch,4]"], ())
    refused = ready(Tables(12, 7, 31, 2), "ids=int64[batch,4]")
    with drawing_from(draws_of(Dataset({"ids": ids + 1}))):
        with pytest.raises(IndexError):
            infer_accepted(*refused, IndexError)
        assert fix_of_refusal(*refused) == (
            "hold the samples against what forward takes: ids holds 1 to 31, and its tables have 2, 7, 12, 31 rows"
        )
