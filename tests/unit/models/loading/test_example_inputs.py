"""What a model takes is read off the example inputs in its code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.job import Job
from transload.models.loading.build import build_model, call_model
from transload.models.loading.call_convention import Call, Leaf
from transload.models.loading.example_inputs import dummy_example, find_example, parse_example, widen_example
from transload.models.loading.source_from_code import take_weights
from transload.models.probes.random_inputs import sample_inputs
from transload.models.sources import CodeRef, read_source

CODE = """
import dataclasses
import numpy
import torch
from torch import nn


@dataclasses.dataclass
class Out:
    logits: torch.Tensor
    parts: tuple
    loss: torch.Tensor = None


class Mapped(nn.Module):
    def forward(self, batch):
        return {"sum": batch["x"] + batch["mask"].sum(1, keepdim=True), "hidden": (batch["x"] * 2, batch["x"])}

    def example_inputs(self):
        return {"mask": torch.ones(3, 5), "x": torch.ones(3, 4)}


class Keywords(nn.Module):
    example_input_array = {"x": torch.ones(3, 4), "bias": torch.ones(3, 4)}

    def forward(self, x, *, scale=2.0, mask=None, bias):
        return Out(x * scale - bias, (x, None, bias))


class State(nn.Module):
    example_input_array = (torch.ones(3, 4), (torch.zeros(3, 4), [numpy.zeros((3, 2), "int64"), None]), True)

    def forward(self, x, state, loud):
        return x + state[0] if loud else x, (state[1][0], [x])


class Beside(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.lin = nn.Linear(width, 2)

    def forward(self, x):
        return self.lin(x)


def wide():
    return Beside(7)


def example_inputs(model):
    return torch.ones(2, model.lin.in_features)


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(2, 3, 4) * 2

    def example_inputs(self):
        return torch.ones(6, 4)


class Differing(nn.Module):
    def forward(self, image, table):
        return image.sum() * table

    def example_inputs(self):
        return torch.ones(2, 3), torch.ones(5)


class Strange(nn.Module):
    def forward(self, x):
        return x

    def example_inputs(self):
        return object()


class Wrong(Strange):
    def example_inputs(self):
        return torch.ones(2), torch.ones(2)
"""


def taken(tmp_path: Path, name: str) -> Mapping[str, Any]:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "out").mkdir()
    return take_weights(Job({}, tmp_path / "out", {"ref": f"mine.py:{name}", "root": str(tmp_path)}))


FOUND = {
    "Mapped": "mask=float32[batch,5] x=float32[batch,4] -> "
    "sum=float32[batch,4] hidden_0=float32[batch,4] hidden_1=float32[batch,4]",
    "Keywords": "x=float32[batch,4] bias=float32[batch,4] -> "
    "logits=float32[batch,4] parts_0=float32[batch,4] parts_2=float32[batch,4]",
    "State": "x=float32[batch,4] state_0=float32[batch,4] state_1_0=int64[batch,2] -> "
    "output_0=float32[batch,4] output_1_0=int64[batch,2] output_1_1_0=float32[batch,4]",
    "Beside": "x=float32[batch,4] -> output=float32[batch,2]",
    "wide": "x=float32[batch,7] -> output=float32[batch,2]",
    "Fixed": "x=float32[6,4] -> output=float32[2,3,4]",
    "Differing": "image=float32[2,3] table=float32[5] -> output=float32[5]",
}


@pytest.mark.parametrize("name", FOUND)
def test_examples_give_the_signature_and_the_source_answers_by_it(name: str, tmp_path: Path) -> None:
    taken(tmp_path, name)
    signature = read_source(tmp_path / "out").signature
    said = " -> ".join(" ".join(map(str, side)) for side in (signature.inputs, signature.outputs))
    assert said == FOUND[name]
    feeds = sample_inputs(signature, 3)
    inputs = [torch.from_numpy(feeds[spec.name]) for spec in signature.inputs]
    answers = call_model(build_model(tmp_path / "out"), signature, inputs)
    assert [answers[spec.name].ndim for spec in signature.outputs] == [len(spec.shape) for spec in signature.outputs]
    if name == "Keywords":
        np.testing.assert_allclose(answers["logits"], feeds["x"] * 2 - feeds["bias"], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("Mapped", []),
        ("Fixed", ["the sizes are those of example_inputs of Fixed, and fixed: with one sample more, forward raises "
                   "shape '[2, 3, 4]' is invalid for input of size 28"]),
        ("Differing", ["the sizes are those of example_inputs of Differing, and fixed: its inputs differ in the size "
                       "of their first axis"]),
    ],
)  # fmt: skip
def test_a_batch_that_is_fixed_is_said_with_its_reason(name: str, note: list[str], tmp_path: Path) -> None:
    assert taken(tmp_path, name)["notes"] == note


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Strange", "example_inputs of Strange gives a object as x, which is no data"),
        ("Wrong", "example_inputs of Wrong does not fit forward, which takes x\n  fix: let example_inputs() return"),
    ],
)
def test_examples_that_forward_does_not_take_are_refused(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        taken(tmp_path, name)
    assert str(caught.value).startswith(words)


class Net(torch.nn.Module):
    def forward(self, x: Any, more: Any = None, *, flag: bool = False) -> None: ...


X, Y = torch.ones(2), torch.zeros(2)
GIVEN = [
    (X, Call(("x",), (Leaf("x"),))),
    ((X, Y), Call(("x", "more"), (Leaf("x"), Leaf("more")))),
    ([X, Y], Call(("x_0", "x_1"), ([Leaf("x_0"), Leaf("x_1")],))),
    ({"x": X, "flag": True}, Call(("x",), (), {"x": Leaf("x"), "flag": True})),
    ({"a": X, "b": Y}, Call(("a", "b"), ({"a": Leaf("a"), "b": Leaf("b")},))),
    ((X, {"flag": True}), Call(("x",), (Leaf("x"), {"flag": True}))),
    ((X, Y, {"flag": True}), Call(("x", "more"), (Leaf("x"), Leaf("more")), {"flag": True})),
]


@pytest.mark.parametrize(("given", "call"), GIVEN)
def test_examples_become_arguments(given: Any, call: Call) -> None:
    assert parse_example(given, Net(), "examples").call == call


class Library(Net):
    dummy_inputs: Mapping[str, torch.Tensor] = {"x": X.half(), "more": torch.ones(2, dtype=torch.int16)}


class Deaf(Net):
    """As a vocoder of transformers: the class of all its models gives words to try with."""

    dummy_inputs: Mapping[str, torch.Tensor] = {"input_ids": torch.ones(3, 5, dtype=torch.int64)}


def test_a_model_without_examples_has_none() -> None:
    assert find_example(CodeRef("tests.nowhere:Net"), Net()) is None
    assert dummy_example(Net()) is None
    assert dummy_example(Deaf()) is None, "forward takes none of them"
    assert find_example(CodeRef("tests.nowhere:Net"), Library()) is None, "they are short: only for want of better"


def test_dummy_inputs_are_examples_and_halves_become_float32() -> None:
    found = dummy_example(Library())
    assert found is not None
    assert {name: value.dtype for name, value in widen_example(found).inputs.items()} == {
        "x": torch.float32,
        "more": torch.int16,
    }


def test_nothing_to_read_a_signature_off_is_said_with_what_forward_takes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x, mask=None):\n        return x\n"
    )
    with pytest.raises(BadRequest) as caught:
        take_weights(Job({}, tmp_path, {"ref": "mine.py:Net", "root": str(tmp_path)}))
    assert str(caught.value) == (
        "nothing says what mine.py:Net takes: its forward takes x, mask (optional)\n"
        "  fix: name each input, as in --input image=float32[batch,3,224,224], or write example_inputs() beside it"
    )
