"""What `--input` says of a file's dynamic axes, laid over what the file declares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...models.errors import BadRequest
from ...models.signature import Axis, Signature, TensorSpec, bounds_of
from .shared_batch import with_own_axes


def apply_request(declared: Signature, requested: Sequence[TensorSpec], unnamed: Collection[str] = ()) -> Signature:
    """Return a file's signature with the names or sizes that `--input` gives to its dynamic axes.

    `unnamed`: the inputs whose first axis is only guessed to be the batch, and may be another axis.

    Raises BadRequest if `--input` names another input, dtype, rank or size than the model has.
    """
    if not requested:
        return declared
    requested_by_name = {spec.name: spec for spec in requested}
    names = [spec.name for spec in declared.inputs]
    if sorted(requested_by_name) != sorted(names):
        raise BadRequest(
            f"the model takes the inputs {', '.join(names)}, and --input names {', '.join(requested_by_name)}",
            fix="give each input of the model once, by its name, or leave --input out",
        )
    if len({requested_by_name[name].shape[:1] for name in unnamed}) > 1:
        declared = with_own_axes(declared, unnamed)
    axes: dict[str, Axis] = {}
    for spec in declared.inputs:
        _apply_requested_axes(spec, requested_by_name[spec.name], axes)

    def renamed(spec: TensorSpec) -> TensorSpec:
        shape = tuple(axes.get(axis, axis) if isinstance(axis, str) else axis for axis in spec.shape)
        kept_bounds = {axis: bounds[axis] for axis in shape if isinstance(axis, str) and axis in bounds}
        values = requested_by_name[spec.name].values if spec in declared.inputs else None
        return replace(spec, shape=shape, bounds=tuple(kept_bounds.items()), values=values)

    bounds = {str(axes[axis]): limits for axis, limits in declared.bounds.items()} | bounds_of(requested)
    return Signature(tuple(map(renamed, declared.inputs)), tuple(map(renamed, declared.outputs)))


def _apply_requested_axes(spec: TensorSpec, requested: TensorSpec, axes: dict[str, Axis]) -> None:
    """Add the requested names or sizes of the dynamic axes of `spec` to `axes`; raise BadRequest if they do not fit."""
    fits = requested.dtype == spec.dtype and len(requested.shape) == len(spec.shape)
    for declared_axis, requested_axis in zip(spec.shape, requested.shape, strict=False):
        fits = fits and requested_axis == (
            axes.setdefault(declared_axis, requested_axis) if isinstance(declared_axis, str) else declared_axis
        )
    if not fits:
        raise BadRequest(f"--input {requested} does not fit the model, which takes {spec}", fix=f"write --input {spec}")
