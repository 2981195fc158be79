"""The signature of a served model: as its server declares it, and in the words of the model it is compared with."""

from __future__ import annotations

from typing import Any

import pytest

from transload.models.errors import BadRequest
from transload.models.signature import Signature, TensorSpec, parse_input
from transload.pipeline.plan.loaded_model import LoadedModel, ModelDescription, ServedModel
from transload.pipeline.plan.served_model import fit_served, placeholder_signature
from transload.serving.clients.model_metadata import DeclaredModel, DeclaredTensor
from transload.serving.clients.model_url import parse_model_url

URL = parse_model_url("http://h:8501/v1/models/m")
LIKE = Signature(
    (parse_input("ids=int64[batch=1..8,seq]"), parse_input("mask=bool[batch=1..8,seq]")),
    (parse_input("scores=float32[batch,3]"), parse_input("pooled=float32[batch,16]")),
)


def declare(inputs: str, outputs: str = "pooled=float32[-1,16] scores=float32[-1,3]") -> DeclaredModel:
    """Tensors as NAME=DTYPE[sizes], `?` for any rank."""

    def read(text: str) -> tuple[DeclaredTensor, ...]:
        rows = [row.replace("[", "=").rstrip("]").split("=") for row in text.split()]
        return tuple(
            DeclaredTensor(
                name=name, dtype=dtype, shape=None if sizes == "?" else tuple(map(int, filter(None, sizes.split(","))))
            )
            for name, dtype, sizes in rows
        )

    return DeclaredModel(inputs=read(inputs), outputs=read(outputs))


def fitted(declared: DeclaredModel) -> Signature:
    signature = placeholder_signature(URL, declared)
    store: Any = None
    loaded = LoadedModel(ModelDescription("m", signature), store, served=ServedModel(URL, declared, signature))
    result = fit_served(loaded, LIKE)
    assert result.served
    assert result.served.signature == result.model.signature
    return result.model.signature


def test_axes_without_names_get_placeholders_and_the_first_is_the_batch() -> None:
    declared = declare("x=float32[-1,3,-1] n=int64[]", "y=float32[-1,-1] z=float32[?]")
    signature = placeholder_signature(URL, declared)
    assert list(map(str, signature.inputs)) == ["x=float32[batch,3,x_2]", "n=int64[]"]
    assert str(signature.outputs[0]) == "y=float32[batch,y_1]"
    assert signature.batch == "batch"


def test_inputs_of_fixed_size_have_no_batch() -> None:
    signature = placeholder_signature(URL, declare("x=float32[4,3] y=float32[-1,3]"))
    assert list(map(str, signature.inputs)) == ["x=float32[4,3]", "y=float32[y_0,3]"]


def test_order_names_of_axes_and_bounds_are_those_of_the_model() -> None:
    assert fitted(declare("mask=bool[-1,-1] ids=int64[-1,-1]")) == LIKE


def test_sizes_that_the_server_fixes_stay_fixed() -> None:
    signature = fitted(declare("ids=int64[4,-1] mask=bool[4,-1]"))
    assert list(map(str, signature.inputs)) == ["ids=int64[4,seq]", "mask=bool[4,seq]"]


def test_an_output_of_any_rank_has_the_models_shape() -> None:
    signature = fitted(declare("ids=int64[-1,-1] mask=bool[-1,-1]", "scores=float32[?] pooled=float32[-1,-1]"))
    assert signature.outputs == LIKE.outputs


@pytest.mark.parametrize("other", ["ids=int32[-1,-1]", "ids=int64[-1]", "words=int64[-1,-1]"])
def test_another_dtype_rank_or_name_stays_as_the_server_has_it(other: str) -> None:
    signature = fitted(declare(f"mask=bool[-1,-1] {other}"))
    assert LIKE.inputs[0] not in signature.inputs
    assert LIKE.inputs[1] in signature.inputs


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        (declare("", ""), "does not say which inputs and outputs it has"),
        (declare("ids=int64[?]"), "does not say which shape ids has"),
    ],
)
def test_a_server_that_does_not_say_what_it_takes(declared: DeclaredModel, what: str) -> None:
    with pytest.raises(BadRequest) as caught:
        placeholder_signature(URL, declared)
    assert caught.value.what == f"{URL.text} {what}"


def test_a_model_that_is_not_served_is_left_alone() -> None:
    store: Any = None
    spec = TensorSpec("x", "float32", ("n",))
    loaded = LoadedModel(ModelDescription("m", Signature((spec,), (spec,))), store)
    assert fit_served(loaded, LIKE) is loaded
