"""Names of an output's axes by evidence: a file without them is called at two sizes of every dynamic axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ...models.library_messages import first_line
from ...models.probes.random_inputs import sample_tensors
from ...models.probes.sizes import two_sizes
from ...models.signature import Array, Axis, Signature

Shapes: TypeAlias = Sequence[tuple[int, ...]]
# The shapes of a call's outputs, in the order of the signature.
ShapesOf: TypeAlias = Callable[[Mapping[str, Array]], Shapes]


def name_output_axes(signature: Signature, open_model: Callable[[], ShapesOf]) -> Signature:
    """Return the signature in which an output's axis that follows an input's axis has its name.

    The model is not opened where the file names them. Where it refuses the calls, the signature stays as it is.
    """
    known = {axis for spec in signature.inputs for axis in spec.dynamic_axes.values()}
    if not known or all(axis in known for spec in signature.outputs for axis in spec.dynamic_axes.values()):
        return signature
    sizes, second_sizes = two_sizes(signature.inputs)
    try:
        run = open_model()
        first, second = (run(sample_tensors(signature.inputs, chosen)) for chosen in (sizes, second_sizes))
    except Exception as error:  # noqa: BLE001  (a missing or failing runtime is reported later)
        print(f"which axes the outputs share with the inputs is not asked: {first_line(error)}")
        return signature
    followed = followed_axes(sizes, second_sizes, first, second)

    def named(at: int, place: int, axis: Axis) -> Axis:
        return followed[at].get(place, axis) if isinstance(axis, str) and axis not in known else axis

    outputs = (
        replace(spec, shape=tuple(named(at, place, axis) for place, axis in enumerate(spec.shape)))
        for at, spec in enumerate(signature.outputs)
    )
    return Signature(signature.inputs, tuple(outputs))


def followed_axes(
    sizes: Mapping[str, int], second_sizes: Mapping[str, int], first: Shapes, second: Shapes
) -> list[dict[int, str]]:
    """Return, for each output, the input's axis by the place of the output's axis that changed as it did."""
    known = {(size, second_sizes[axis]): axis for axis, size in sizes.items() if size != second_sizes[axis]}
    return [
        {place: known[pair] for place, pair in enumerate(zip(*shapes, strict=True)) if pair in known}
        for shapes in zip(first, second, strict=True)
    ]
