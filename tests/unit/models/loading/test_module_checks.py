"""What keeps a model from being carried is found by calling it, and told with the line that causes it."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.module_checks import check_lazy, check_supported, questions
from transload.models.loading.source_from_code import take_weights
from transload.models.loading.weight_files import read_weights
from transload.models.signature import parse_input
from transload.models.sources import WEIGHTS, read_source

CODE = """
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.lin = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.cache = None
        self.step = 0


class Random(Base):
    def forward(self, x):
        x = self.lin(x)
        return nn.functional.dropout(x)


class Trains(Base):
    def forward(self, x):
        self.drop.train()  # as if it were not in eval mode
        return self.drop(self.lin(x))


class Averages(Base):
    def forward(self, x):
        self.seen.mul_(0.9).add_(x.mean(0) * 0.1)
        return x - self.seen


class Steps(Base):
    def forward(self, x):
        self.step += 1
        return x * self.step


class First(Base):
    def forward(self, x):
        if self.cache is None:
            self.cache = x.mean(0)
        return x - self.cache


class Counts(Base):
    def forward(self, x):
        self.seen += 1
        return self.lin(x)


class Table(Base):
    def forward(self, x):
        if self.cache is None or len(self.cache) < len(x):
            self.cache = torch.arange(len(x), dtype=torch.float32)
        return x + self.cache[: len(x), None]
"""
LINES = {line.strip(): at for at, line in enumerate(CODE.splitlines(), 1)}


def taken(tmp_path: Path, name: str) -> dict[str, Any]:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "out").mkdir()
    inputs = [parse_input("x=float32[batch,4]").to_json()]
    return dict(
        take_weights(Job({}, tmp_path / "out", {"ref": f"mine.py:{name}", "root": str(tmp_path), "inputs": inputs}))
    )


def at(tmp_path: Path, code: str) -> str:
    line = next(number for text, number in LINES.items() if text.startswith(code))
    return f"{tmp_path}/mine.py:{line} (`{CODE.splitlines()[line - 1].strip()}`)"


REMEMBERS = (
    "the model remembers: its output for one input changes from call to call with {name}, "
    "which is written to at {line}\n"
    "  fix: make what it remembers an input and an output of forward, or leave it out"
)
MESSAGES = {
    "Random": (
        "return nn.functional.dropout(x)",
        "the model is random: its output differs between two calls on one input, in eval mode too: "
        "bernoulli_ at {line}\n"
        "  fix: give functional dropout training=self.training, and draw no random numbers in forward",
    ),
    "Trains": (
        "self.drop.train()",
        "forward puts drop back into training mode, at {line}\n"
        "  fix: remove that call: a model that is converted is in eval mode",
    ),
    "Averages": ("self.seen.mul_", REMEMBERS.replace("{name}", "seen")),
    "Steps": ("self.step += 1", REMEMBERS.replace("{name}", "step")),
    "First": ("self.cache = x.mean(0)", REMEMBERS.replace("{name}", "cache")),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_model_that_does_not_answer_the_same_each_time_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    code, words = MESSAGES[name]
    with pytest.raises(BadRequest) as caught:
        taken(tmp_path, name)
    assert str(caught.value) == words.format(line=at(tmp_path, code))


def test_a_buffer_that_no_answer_depends_on_is_taken_and_each_call_gets_a_copy(tmp_path: Path) -> None:
    taken(tmp_path, "Counts")
    call = read_source(tmp_path / "out").call
    assert call is not None
    assert call["scratch"] == ["seen"]
    assert read_weights(tmp_path / "out" / WEIGHTS)["seen"].tolist() == [0, 0, 0, 0], "as it was before it was called"
    model = build_model(tmp_path / "out")
    model(torch.ones(2, 4))
    assert model.state_dict()["model.seen"].tolist() == [0, 0, 0, 0]


def test_a_table_that_is_made_when_it_is_first_needed_is_no_memory(tmp_path: Path) -> None:
    taken(tmp_path, "Table")
    assert read_source(tmp_path / "out").call is None


def test_quantised_modules_are_refused_by_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of its own quantisation at every step of it
        model = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    with pytest.raises(BadRequest) as caught:
        check_supported(model)
    assert str(caught.value) == (
        "the model is quantised: 0 is a torch.ao.nn.quantized.dynamic.modules.linear.Linear, "
        "which no format here carries\n"
        "  fix: give the model as it was before it was quantised, and name the precision of the target, as in onnx:int8"
    )
    check_supported(torch.nn.Linear(3, 2))


def test_a_lazy_layer_that_has_not_been_called_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # once in a process: lazy layers are new
        model = torch.nn.Sequential(torch.nn.LazyLinear(2))
    with pytest.raises(BadRequest, match=r"^0.weight takes its shape at the model's first call"):
        check_lazy(model)
    model(torch.ones(2, 3))
    check_lazy(model)


class Asks(torch.nn.Module):
    limit: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("limit", torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.limit > 0:
            x = x + 1
        return x * 2 if x.sum() > 0 else x


def test_questions_to_data_are_told_from_those_to_constants() -> None:
    ones = torch.ones(2, 2)
    found = questions(Asks(), [[ones], [-9 * ones]])
    assert [(place.rpartition("/")[2].partition(":")[0], differs) for place, differs in found.items()] == [
        ("test_module_checks.py", True)
    ]
    assert list(questions(Asks(), [[ones], [2 * ones]]).values()) == [False]  # other data may get another answer
    assert questions(torch.nn.Linear(2, 2), [[ones]]) == {}


class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1


class AsksOfWhatWasWritten(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = torch.zeros(2)
        if kept.sum() > 1:
            return x
        kept[:] = x[0]
        if kept.sum() > 99:
            return x
        return x * 3 if Through.apply(x).sum() > 99 else x


def test_data_are_known_where_they_were_written_or_went_through_a_custom_function() -> None:
    lines, first = inspect.getsourcelines(AsksOfWhatWasWritten.forward)
    found = questions(AsksOfWhatWasWritten(), [[torch.ones(2, 2)]])
    assert [int(place.rpartition(":")[2]) - first for place in found] == [5, 7]
    assert all("99" in lines[at] for at in (5, 7))


def test_weights_without_values_are_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="weight has no values: it is on the meta device"):
        check_supported(torch.nn.Linear(2, 2, device="meta"))
