"""The outputs of a model, and which of their axes follow those of its inputs, found by calling it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from transload.converters.to_pytorch.tracing import traced
from transload.models.errors import BadRequest
from transload.models.loading.call_convention import flat
from transload.models.loading.infer_signature import infer_signature
from transload.models.signature import parse_input


class Does(torch.nn.Module):
    def __init__(self, what: Any) -> None:
        super().__init__()
        self.what = what

    def forward(self, image: torch.Tensor) -> Any:
        return self.what(image)


def outputs(what: Any, spec: str = "image=float32[batch,3,height,width]") -> list[str]:
    return [str(each) for each in infer_signature(Does(what), (parse_input(spec),))[0].outputs]


def test_axes_have_the_names_of_the_inputs_axes_that_they_follow() -> None:
    assert outputs(lambda x: x.mean(1)) == ["output=float32[batch,height,width]"]
    assert outputs(lambda x: x.transpose(2, 3)) == ["output=float32[batch,3,width,height]"]
    assert outputs(lambda x: x.flatten(2)) == ["output=float32[batch,3,output_2]"]


@pytest.mark.parametrize("step", [2, 3, 8, 32])
def test_an_axis_that_is_a_part_of_another_is_dynamic_too(step: int) -> None:
    assert outputs(lambda x: x[:, :, ::step, ::step]) == ["output=float32[batch,3,output_2,output_3]"]


def test_a_model_that_takes_no_large_input_is_described_by_small_ones() -> None:
    def limited(x: torch.Tensor) -> torch.Tensor:
        if x.shape[2] > 40:
            raise ValueError("too large")
        return x

    assert outputs(limited) == ["output=float32[batch,3,height,width]"]


def test_bounds_are_kept_to() -> None:
    seen: set[int] = set()

    def looks(x: torch.Tensor) -> torch.Tensor:
        seen.update(x.shape[1:])
        return x

    assert outputs(looks, "image=float32[batch,time=4..9]") == ["output=float32[batch,time]"]
    assert len(seen) > 1
    assert seen <= set(range(4, 10))


def test_texts_and_numbers_are_no_outputs() -> None:
    model = Does(lambda x: {"task": "classify", "logits": x, "meta": {"version": 3, "mean": x.mean(-1)}})
    signature, call, constants = infer_signature(model, (parse_input("x=float32[batch,3]"),))
    assert [spec.name for spec in signature.outputs] == ["logits", "meta_mean"]
    assert constants == {"task": "classify", "meta_version": 3}
    assert call is not None
    x = torch.ones(2, 3)
    assert [each.shape for each in flat(model, call)(x)] == [(2, 3), (2,)]


def test_a_number_that_changes_is_refused_as_no_copy_can_give_it() -> None:
    with pytest.raises(BadRequest) as caught:
        outputs(lambda x: (x, x.shape[0]), "x=float32[batch,3]")
    assert str(caught.value) == (
        "the model returns output_1 as 2 at one size of its inputs, as 5 at another, and the formats carry tensors "
        "alone\n  fix: let forward return it as a tensor, as in torch.tensor(...), or not at all"
    )


def test_a_size_in_a_result_is_no_output_of_a_trace_either() -> None:
    model = Does(lambda x: {"logits": x * 2, "classes": x.shape[1]})
    call = infer_signature(model, (parse_input("x=float32[batch,3]"),))[1]
    assert call is not None
    made = traced(flat(model, call), (torch.ones(2, 3),))
    assert made(torch.ones(4, 3)).shape == (4, 3)


def test_parts_and_ranks_that_change_with_a_size_are_refused() -> None:
    with pytest.raises(BadRequest, match="returns output_0 at one size of its inputs, output_0, output_1 at another"):
        outputs(lambda x: (x,) if x.shape[2] < 40 else (x, x))
    with pytest.raises(BadRequest, match="the rank of the output output changes"):
        outputs(lambda x: x if x.shape[2] < 40 else x[0])


def test_dtypes_that_the_formats_lack_are_refused_with_their_mend() -> None:
    with pytest.raises(BadRequest) as caught:
        outputs(torch.fft.fft)
    assert str(caught.value) == (
        "the output output is torch.complex64, which the formats do not carry\n"
        "  fix: let the model take and return torch.view_as_real(...): real and imaginary parts"
    )
    assert outputs(lambda x: x.bfloat16()) == ["output=float32[batch,3,height,width]"], "exactly the same values"
    assert outputs(lambda x: x.double().mean(1)) == ["output=float64[batch,height,width]"]
