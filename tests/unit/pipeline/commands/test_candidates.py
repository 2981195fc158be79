"""Which two models can be compared."""

from __future__ import annotations

import pytest

from transload.models.signature import Signature, parse_input
from transload.pipeline.commands.candidates import has_same_inputs

OUTPUT = (parse_input("y=float32[batch,2]"),)
MODEL = ("user=int64[batch]", "item=int64[batch]", "x=float32[batch,3]")


def _signature(*inputs: str) -> Signature:
    return Signature(tuple(map(parse_input, inputs)), OUTPUT)


@pytest.mark.parametrize(
    ("inputs", "same"),
    [
        (MODEL, True),
        (sorted(MODEL), True),  # as TensorFlow writes a SavedModel
        (MODEL[:2], False),
        ((*MODEL[:2], "x=float32[batch,4]"), False),
        ((*MODEL[:2], "z=float32[batch,3]"), False),
        (("user=int64[batch,3]", "item=int64[batch]", "x=float32[batch]"), False),
        (("user=int32[batch]", *MODEL[1:]), False),
    ],
)
def test_inputs_are_the_same_by_name_in_any_order(inputs: list[str], same: bool) -> None:
    assert has_same_inputs(_signature(*inputs), _signature(*MODEL)) == same
