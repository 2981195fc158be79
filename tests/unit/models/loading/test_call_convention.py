"""However a forward is called, what is made of it takes tensors by position and gives tensors by name."""

from __future__ import annotations

import inspect
import json
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from transload.models.errors import BadRequest
from transload.models.loading.call_convention import Call, Leaf, call_by_name, flat, flatten, is_flat, parameter_names

ONE, TWO, THREE = (torch.full((2, 3), float(value)) for value in (1, 2, 3))
Pair = namedtuple("Pair", "left right")


@dataclass
class Result:
    logits: torch.Tensor
    states: tuple[torch.Tensor, ...] = ()
    loss: torch.Tensor | None = None


class Mapped(dict[str, Any]):
    """As transformers' ModelOutput: a dict in order, without what is None."""


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (ONE, ["output"]),
        ((ONE,), ["output_0"]),
        ([ONE, TWO], ["output_0", "output_1"]),
        ((ONE, None, TWO), ["output_0", "output_2"]),
        ({"b": ONE, "a": TWO}, ["b", "a"]),
        ({0: ONE, "hidden": (TWO, THREE)}, ["0", "hidden_0", "hidden_1"]),
        ((ONE, (TWO, {"x": THREE})), ["output_0", "output_1_0", "output_1_1_x"]),
        (Pair(ONE, TWO), ["left", "right"]),
        ((Pair(ONE, TWO), THREE), ["output_0_left", "output_0_right", "output_1"]),
        (Result(ONE, (TWO, THREE)), ["logits", "states_0", "states_1"]),
        (Mapped(logits=ONE, hidden_states=(TWO,)), ["logits", "hidden_states_0"]),
        (ONE.max(1), ["output_0", "output_1"]),
    ],
)
def test_results_are_named_by_their_path(given: Any, names: list[str]) -> None:
    found = flatten(given)
    assert list(found) == names
    assert all(isinstance(value, torch.Tensor) for value in found.values())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": (ONE,), "a_0": TWO}, "two outputs of the model are both called a_0"),
        (None, "the model returns no tensor\n"),
        ((), "the model returns no tensor\n"),
        ((ONE, 3), "the model returns int as output_1, which holds no tensors"),
        (3, "the model returns no tensor\n"),
        ({"y": ONE, "cache": [object()]}, "the model returns object as cache_0, which holds no tensors"),
    ],
)
def test_what_is_no_tensor_is_refused_by_its_path(given: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        flatten(given)
    assert str(caught.value).startswith(words)


def test_flat_is_what_converters_take_as_it_is() -> None:
    assert all(map(is_flat, (ONE, (ONE, TWO), [ONE])))
    assert not any(map(is_flat, ({"a": ONE}, (ONE, None), (ONE, (TWO,)), Pair(ONE, TWO), ONE.max(1), ONE.bfloat16())))


def test_a_flat_module_gives_bfloat16_as_float32() -> None:
    made = flat(torch.nn.Identity(), Call(("x",), (Leaf("x"),), outputs=("output",)))
    assert made(ONE.bfloat16() / 3).dtype == torch.float32
    torch.testing.assert_close(made(ONE.bfloat16() / 3), (ONE.bfloat16() / 3).float(), rtol=0, atol=0)


def call_of(forward: Callable[..., Any], *names: str) -> Call:
    return call_by_name(forward, names, "forward of Net")


def test_inputs_that_are_parameters_are_passed_by_name_in_any_order() -> None:
    def forward(x: Any, scale: float = 1.0, mask: Any = None, *, bias: Any) -> None: ...

    assert call_of(forward, "bias", "x") == Call(("bias", "x"), (Leaf("x"),), {"bias": Leaf("bias")})
    made = call_of(forward, "mask", "bias", "x")
    assert made.bind([1, 2, 3]) == ((3,), {"mask": 1, "bias": 2})
    assert not made.by_position


def test_inputs_of_other_names_are_passed_by_position() -> None:
    def forward(x: Any, y: Any, z: Any = None) -> None: ...

    made = call_of(forward, "image", "tokens")
    assert made.by_position
    assert made.bind([1, 2]) == ((1, 2), {})
    assert call_of(forward, "x", "y").by_position
    assert not call_of(forward, "y", "x").by_position


def test_what_takes_anything_gets_it_by_name_or_by_position() -> None:
    def named(**batch: Any) -> None: ...
    def listed(*images: Any) -> None: ...
    def both(*arguments: Any, **keywords: Any) -> None: ...

    assert call_of(named, "a", "b").keywords == {"a": Leaf("a"), "b": Leaf("b")}
    assert call_of(listed, "a", "b").by_position
    assert call_of(both, "a", "b").by_position


def test_names_beside_all_that_stands_before_a_list_of_arguments_are_of_the_list() -> None:
    def forward(x: Any, *mems: Any, scale: Any = None) -> None: ...

    made = call_of(forward, "mem0", "scale", "x", "mem1")
    assert made.bind([1, 2, 3, 4]) == ((3, 1, 4), {"scale": 2})
    assert call_of(forward, "x", "mem0", "mem1").by_position
    assert call_of(forward, "x", "mems").by_position
    with pytest.raises(BadRequest, match="scal is none of them\n  fix: did you mean scale"):
        call_of(forward, "x", "scal", "mem0")

    def longer(x: Any, y: Any = None, *mems: Any) -> None: ...

    with pytest.raises(BadRequest, match="mem0 is none of them"):
        call_of(longer, "x", "mem0")


REFUSED = [
    (("x", "extra"), "forward of Net takes x, mask (optional), and extra is none of them\n"
     "  fix: name every input as forward does, or none: then they are taken by position"),
    (("x", "msk"), "forward of Net takes x, mask (optional), and msk is none of them\n  fix: did you mean mask?"),
    (("mask",), "forward of Net takes x, mask (optional), and nothing says what x is\n"
     "  fix: name it too, as in --input x=float32[batch,3,224,224]"),
    (("a", "b", "c"), "forward of Net takes x, mask (optional), and 3 inputs are named\n"
     "  fix: name no more than forward takes; or write example_inputs() beside it, where it takes a dict or list"),
]  # fmt: skip


@pytest.mark.parametrize(("names", "words"), REFUSED)
def test_names_that_do_not_fit_forward_are_refused(names: tuple[str, ...], words: str) -> None:
    def forward(x: Any, mask: Any = None) -> None: ...

    with pytest.raises(BadRequest) as caught:
        call_of(forward, *names)
    assert str(caught.value) == words


def test_a_keyword_that_forward_needs_cannot_be_given_by_position() -> None:
    def forward(x: Any, *, bias: Any) -> None: ...

    with pytest.raises(BadRequest, match="takes x, bias, and nothing says what bias is"):
        call_of(forward, "image", "more")


def test_parameters_are_said_as_a_person_would() -> None:
    def forward(x: Any, *rest: Any, flag: bool = True, **more: Any) -> None: ...

    assert parameter_names(forward) == "x, *rest, flag (optional), **more"


NESTED = Call(
    ("c", "a", "b"),
    ((Leaf("a"), [Leaf("b"), None]), {"flag": True, "depth": 2}),
    {"extra": {"deep": (Leaf("c"), 1.5, "word")}},
    ("y",),
    ("counter",),
)


def test_a_call_survives_json() -> None:
    assert Call.from_json(json.loads(json.dumps(NESTED.to_json()))) == NESTED
    arguments, keywords = NESTED.bind([3, 1, 2])
    assert arguments == ((1, [2, None]), {"flag": True, "depth": 2})
    assert keywords == {"extra": {"deep": (3, 1.5, "word")}}


def test_a_call_has_a_place_for_each_input_and_no_other() -> None:
    with pytest.raises(ValueError, match="the arguments hold the inputs"):
        Call(("a", "b"), (Leaf("a"),))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.count: torch.Tensor
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, batch: dict[str, torch.Tensor], *, scale: torch.Tensor) -> Result:
        self.count += 1
        return Result(self.linear(batch["x"]) * scale, (batch["x"],), None)


CALL = Call(("scale", "x"), ({"x": Leaf("x")},), {"scale": Leaf("scale")}, ("logits", "states_0"), ("count",))


def test_a_flat_module_takes_tensors_by_position_and_keeps_the_users_module_as_its_child() -> None:
    model = Net().eval()
    made = flat(model, CALL)
    logits, state = made(TWO, ONE)
    torch.testing.assert_close(logits, model.linear(ONE) * 2)
    assert state is ONE
    assert not made.training
    assert dict(made.named_modules())["model.linear"] is model.linear
    assert list(inspect.signature(made.forward).parameters) == ["scale", "x"]


def test_what_a_flat_module_writes_to_buffers_is_forgotten() -> None:
    model = Net().eval()
    made = flat(model, CALL)
    buffer = model.count
    made(TWO, ONE)
    assert model.count is buffer
    assert model.count == 0
    model({"x": ONE}, scale=TWO)
    assert model.count == 1, "the check can fail"


def test_a_flat_module_that_returns_other_parts_is_refused() -> None:
    made = flat(Net().eval(), Call(CALL.inputs, CALL.arguments, CALL.keywords, ("logits",)))
    with pytest.raises(BadRequest, match="the model returned logits, states_0 where its signature names logits"):
        made(TWO, ONE)


def test_inputs_that_python_cannot_name_get_other_names_in_a_program() -> None:
    made = flat(torch.nn.Identity(), Call(("in.put",), (Leaf("in.put"),), outputs=("output",)))
    assert list(inspect.signature(made.forward).parameters) == ["input_0"]
    assert made(ONE) is ONE
