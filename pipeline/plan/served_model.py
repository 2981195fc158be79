"""Take a served model in: its URL is asked for its inputs and outputs, and stands in the place of an artifact.

Servers declare names, dtypes and sizes, no names of axes, and TF Serving no order. Both come from the model that the
answers are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...models.errors import BadRequest
from ...models.probes.value_range import AxisRange
from ...models.signature import BATCH, Axis, Signature, TensorSpec
from ...serving.clients.model_metadata import DeclaredModel, DeclaredTensor
from ...serving.clients.model_url import ModelUrl, ServedName, parse_model_url
from ...serving.runtimes.runtime_table import RUNTIMES
from ..workers.engine import Action
from .context import Context
from .loaded_model import LoadedModel, ModelDescription, ServedModel

_DESCRIBE = "transload.serving.clients.model_metadata:describe"


def load_served(context: Context, text: str) -> LoadedModel:
    """Ask for the signature of the model at a URL; names of axes are placeholders until `fit_served`.
    Raises BadRequest where the URL has no known form, nobody answers, there is no such model, or its inputs are not
    declared."""
    url = parse_model_url(text)
    action = Action(
        f"given.{ServedName.parse(url.model).name}",
        _DESCRIBE,
        options=url.to_json(),
        requires=RUNTIMES[url.runtime].requires,
        limits=context.limits(loopback=True, host=url.host),
        volatile=True,
    )
    stored = context.executor.perform(action)
    declared = DeclaredModel.from_json(stored.facts)
    signature = placeholder_signature(url, declared)
    return LoadedModel(ModelDescription(text, signature), stored, served=ServedModel(url, declared, signature))


def fit_served(loaded: LoadedModel, like: Signature) -> LoadedModel:
    """Return a served model with the order and the axes of `like`, where names, dtypes and ranks are the same.
    Any other tensor keeps what the server declares. A model that is not served is returned as it is."""
    if loaded.served is None:
        return loaded
    declared, own = loaded.served.declared, loaded.served.signature
    signature = Signature(
        _fit_side(own.inputs, declared.inputs, like.inputs), _fit_side(own.outputs, declared.outputs, like.outputs)
    )
    served = replace(loaded.served, signature=signature)
    return replace(loaded, model=replace(loaded.model, signature=signature), served=served)


def _fit_side(
    own: Sequence[TensorSpec], declared: Sequence[DeclaredTensor], like: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    known = {spec.name: spec for spec in like}
    fitted = [
        _fit_spec(spec, tensor, known[spec.name]) if spec.name in known else spec
        for spec, tensor in zip(own, declared, strict=True)
    ]
    pairs = (zip(known.get(spec.name, spec).shape, spec.shape, strict=False) for spec in fitted)
    sizes = ((axis, size) for pair in pairs for axis, size in pair)
    fixed = {axis: size for axis, size in sizes if isinstance(axis, str) and isinstance(size, int)}
    fitted = [replace(spec, values=spec.values.with_fixed(fixed)) if isinstance(spec.values, AxisRange) else spec
              for spec in fitted]  # fmt: skip
    order = {name: position for position, name in enumerate(known)}
    return tuple(sorted(fitted, key=lambda spec: order.get(spec.name, len(order))))


def _fit_spec(own: TensorSpec, declared: DeclaredTensor, like: TensorSpec) -> TensorSpec:
    sizes = (-1,) * len(like.shape) if declared.shape is None else declared.shape
    if own.dtype != like.dtype or len(sizes) != len(like.shape):
        return own
    shape = tuple(axis if size < 0 else size for axis, size in zip(like.shape, sizes, strict=True))
    return replace(like, shape=shape, bounds=tuple(row for row in like.bounds if row[0] in shape))


def placeholder_signature(url: ModelUrl, declared: DeclaredModel) -> Signature:
    """Return what a server declares as a signature. A first axis that is free in every input but scalars is the batch.
    Raises BadRequest where the server does not say what the model takes."""
    if not (declared.inputs and declared.outputs):
        raise BadRequest(
            f"{url.text} does not say which inputs and outputs it has",
            fix="declare them in the server's settings of the model",
        )
    if unranked := [tensor.name for tensor in declared.inputs if tensor.shape is None]:
        raise BadRequest(
            f"{url.text} does not say which shape {unranked[0]} has",
            fix="export the model with the ranks of its inputs",
        )
    firsts = {tensor.shape[0] for tensor in declared.inputs if tensor.shape}
    batch = BATCH if firsts == {-1} else None
    inputs, outputs = (
        tuple(_placeholder_spec(tensor, batch) for tensor in side) for side in (declared.inputs, declared.outputs)
    )
    return Signature(inputs, outputs)


def _placeholder_spec(tensor: DeclaredTensor, batch: str | None) -> TensorSpec:
    def axis(position: int, size: int) -> Axis:
        if size >= 0:
            return size
        return batch if batch and position == 0 else f"{tensor.name}_{position}"

    shape = tuple(axis(*place) for place in enumerate(tensor.shape or ()))
    return TensorSpec(tensor.name, tensor.dtype, shape)
