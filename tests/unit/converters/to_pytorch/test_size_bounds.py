"""What an exported program is for: more than torch.export says where only its tracing stands against it, never more
than where it answers as the model does."""

import pytest
import torch
from torch import nn

from transload.converters.to_pytorch.export_reasons import OneWay, ranges
from transload.converters.to_pytorch.guards import lift_guards
from transload.converters.to_pytorch.pt2_from_source import export, program_for_all_sizes
from transload.converters.to_pytorch.size_bounds import settle_bounds
from transload.models.signature import Bounds, Signature, parse_input

FRAMES = "x=float32[batch,frames,4]"


class Strided(nn.Module):
    """Two strides: of four frames one is left."""

    def __init__(self, padding: int = 1) -> None:
        super().__init__()
        self.down = nn.Sequential(*(nn.Conv1d(4, 4, 3, stride=2, padding=padding) for _ in range(2)))

    def forward(self, x):
        y = self.down(x.transpose(1, 2)).transpose(1, 2)
        return y + torch.arange(y.shape[1])[:, None] + y.reshape(-1, 4).reshape(y.shape)


class Branched(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] < 5 else x * 3


class Both(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] < 30 else x * 3


class Fourths(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] % 4 == 1 else x * 3


class Remainders(nn.Module):
    """Takes another way where no axis has a rest; torch.export keeps a guard on the first axis alone."""

    def forward(self, x):
        return x * 2 if x.shape[1] % 16 or x.shape[2] % 16 else x * 3


class Sides(nn.Module):
    def forward(self, x):
        return x.transpose(0, 1) if x.shape[0] == x.shape[1] else x


class Padded(nn.Module):
    """What lies behind a length is 0 in each row, as wav2vec2 has it: torch.export asks whether all rows are one."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv1d(4, 4, 20, stride=10)
        self.up = nn.Linear(4, 4)

    def forward(self, x):
        y = self.up(self.down(x.transpose(1, 2)).transpose(1, 2))
        y[y.sum(-1) > 0] = 0
        return y


class Behind(nn.Module):
    """What came before each step: at one size the part that is kept has the size 1."""

    def forward(self, x):
        total = x.cumsum(1)
        return torch.cat([torch.zeros_like(x.narrow(1, 0, 1)), total.narrow(1, 0, x.shape[1] - 1)], 1)


class Spread(nn.Module):
    """A way of its own at six frames beside the first ones of all samples, which gives the same."""

    def forward(self, x):
        return x * 2 if x.shape[0] * (x.shape[1] - 1) == 6 else x + x


class Limited(nn.Module):
    """A way of its own at 7 frames, which gives the same, and none where there are 53 and one sample for each."""

    def forward(self, x):
        torch._check(x.shape[0] * 53 > x.shape[1])
        return x * 2 if x.shape[1] == 7 else x + x


class Many(nn.Module):
    """Ways of their own at more sizes than are asked at first, which all give the same."""

    def forward(self, x):
        for size in range(10, 40):
            x = x * 2 if x.shape[1] == size else x + x
        return x


def settled(model, spec=FRAMES, more=8):
    """The program made of a large example, as it is afterwards, and its bounds."""
    signature = Signature((parse_input(spec),), (parse_input("y=float32[any]"),))
    with torch.no_grad():
        program = export(model.eval(), signature, more)
        return program, settle_bounds(program, model, signature).bounds


def answers(program, model, batch, frames):
    x = torch.randn(batch, frames, 4)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x))


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("frames", [1, 2, 4, 5, 9])
def test_a_size_of_one_inside_is_no_bound(batch, frames, strided):
    model, program, bounds = strided
    assert not bounds
    answers(program, model, batch, frames)


@pytest.fixture(scope="module")
def strided():
    torch.manual_seed(0)
    model = Strided()
    signature = Signature((parse_input(FRAMES),), (parse_input("y=float32[any]"),))
    assert ranges(export(model.eval(), signature, 8), signature)["frames"] == (5, None), "what torch.export says"
    return model, *settled(model)


def test_a_program_that_is_wrong_below_a_size_says_so_and_still_refuses_it():
    program, bounds = settled(Branched())
    assert bounds == {"frames": Bounds(5)}
    answers(program, Branched(), 2, 5)
    with pytest.raises((AssertionError, RuntimeError)):
        program.module()(torch.zeros(2, 4, 4))


def test_a_program_that_is_wrong_above_a_size_says_so():
    _, bounds = settled(Both(), more=0)
    assert bounds == {"frames": Bounds(1, 29)}


def test_bounds_that_were_asked_for_stay():
    _, bounds = settled(Branched(), "x=float32[batch=2..8,frames=6..,4]")
    assert bounds == {"batch": Bounds(2, 8), "frames": Bounds(6)}


def test_a_size_at_which_the_model_itself_gives_no_answer_is_no_bound_of_the_programs():
    model = Strided(padding=0)
    program, bounds = settled(model)
    assert not bounds
    answers(program, model, 1, 7)
    with pytest.raises((AssertionError, RuntimeError)):
        program.module()(torch.zeros(1, 2, 4))


def test_below_its_bounds_an_axis_says_nothing_of_the_guards_on_another():
    model = Padded()
    program, bounds = settled(model, "x=float32[batch,frames=40..,4]")
    assert bounds == {"frames": Bounds(40)}
    for batch, frames in ((1, 40), (1, 57), (3, 40), (2, 99)):
        answers(program, model, batch, frames)


@pytest.mark.parametrize("model", [Fourths(), Sides()])
def test_a_guard_that_forbids_more_than_small_sizes_stays(model):
    program, _ = settled(model, more=9)
    with pytest.raises((AssertionError, RuntimeError), match="Guard"):
        program.module()(torch.zeros(5, 5, 4))


def lifted(model, spec=FRAMES):
    """The program as it is handed out, or None where it answers otherwise than the model."""
    signature = Signature((parse_input(spec),), (parse_input("y=float32[any]"),))
    with torch.no_grad():
        program = export(model.eval(), signature)
        settle_bounds(program, model, signature)
        return None if lift_guards(program, model, signature) else program


@pytest.mark.parametrize("model", [Behind(), Spread()])
def test_a_guard_that_is_broken_where_the_program_is_right_goes_from_the_file_too(model, tmp_path):
    torch.export.save(lifted(model), tmp_path / "model.pt2")
    read = torch.export.load(tmp_path / "model.pt2")
    for batch in (1, 2, 3):
        for frames in (2, 3, 4):
            answers(read, model, batch, frames)


def test_another_way_at_multiples_is_seen_and_the_step_is_its_fix():
    outputs = (parse_input("y=float32[any]"),)
    with pytest.raises(OneWay) as caught:
        program_for_all_sizes(Remainders(), Signature((parse_input("x=float32[batch,height,width]"),), outputs))
    assert caught.value.what.startswith("the model takes another way at multiples of 16 of height and width at ")
    stepped = "x=float32[batch,height=16..:16,width=16..:16]"
    assert caught.value.fix == f"declare the step if no other sizes come, as in --input {stepped}, or compute both ways"
    program, _ = program_for_all_sizes(Remainders(), Signature((parse_input(stepped),), outputs))
    assert torch.equal(program.module()(torch.ones(2, 32, 48)), torch.full((2, 32, 48), 3.0))


def test_a_model_may_have_more_guards_than_sizes_are_asked_at_first():
    program = lifted(Many())
    for frames in (10, 25, 39):
        answers(program, Many(), 2, frames)


def test_a_guard_that_is_broken_where_the_model_has_no_answer_stays():
    program = lifted(Limited())
    answers(program, Limited(), 2, 7)
    for taken in (Limited(), program.module()):
        with pytest.raises((AssertionError, RuntimeError)):
            taken(torch.zeros(2, 106, 4))


@pytest.mark.parametrize("model", [Fourths(), Sides()])
def test_a_program_that_is_wrong_where_a_guard_is_broken_is_not_handed_out(model):
    assert lifted(model) is None
