"""Sizes that a program of torch.export leaves out, and whether the model takes another way there.

`if x.shape[1] == 80` gives a program for every size but 80, and no range of sizes tells it: torch keeps a guard beside
the program, which the formats made of it do not have. Most such guards are of torch's own making and change nothing. So
the model is asked at sizes that each of them leaves out, and the program without its guards, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..models.axes import example_sizes
from ..models.signature import ANY_SIZE, Signature

if TYPE_CHECKING:
    import torch

SOURCE = re.compile(r"L\['(?P<name>\w+)'\](?:\[(?P<at>\d+)\])?\.size\(\)\[(?P<axis>\d+)\]")
_SIZES = range(2, 1025)  # the check that follows asks the least size of every axis; above this a call may be large
_BEGIN = (
    2,
    9,
    65,
)  # of the sizes that a guard leaves out, the first from each of these on: a model may take none below
_MOST = 12  # sizes to ask
_BATCH = 2
_NEAR = 1e-3  # of the largest answer: another way of the model's lies further, other rounding nearer


def other_size(
    program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature
) -> tuple[tuple[str, ...], int] | None:
    """Axes, and a size of them that the program leaves out and at which it does not answer as the model does; several
    axes where it is left out that they are of one size."""
    left = dict.fromkeys(_left_out(program, signature))
    return next((each for each in list(left)[:_MOST] if _differs(program, model, signature, *each)), None)


def _left_out(program: torch.export.ExportedProgram, signature: Signature) -> Iterator[tuple[tuple[str, ...], int]]:
    """For each guard on sizes of inputs, some within the bounds of its axes that break it."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    for guard in getattr(program, "_guards_code", None) or ():
        found = [each for each in SOURCE.finditer(guard) if each["name"] in names and each["at"] is None]
        axes = dict.fromkeys(signature.inputs[names.index(each["name"])].shape[int(each["axis"])] for each in found)
        bounds = [signature.bounds.get(str(axis), ANY_SIZE) for axis in axes]
        allowed = (size for size in _SIZES if all(each.nearest(size) == size for each in bounds))
        sizes = [size for size in allowed if not holds(SOURCE.sub(str(size), guard))]
        for size in dict.fromkeys(next((each for each in sizes if each >= begin), 0) for begin in _BEGIN):
            if size:
                yield tuple(str(axis) for axis in axes), size


def holds(guard: str) -> bool:
    """Whether a guard, Python of torch's own writing, holds, with sizes in the places of its axes."""
    try:
        return bool(eval(guard, {"__builtins__": {"max": max, "min": min}}))  # noqa: S307
    except Exception:  # noqa: BLE001  (a guard in other words is none of those that are looked for)
        return True


def _differs(
    program: torch.export.ExportedProgram,
    model: torch.nn.Module,
    signature: Signature,
    axes: tuple[str, ...],
    size: int,
) -> bool:
    import torch

    from ..models.zoo.build import sample_tensors

    arrays = sample_tensors(signature.inputs, {**example_sizes(signature.inputs, _BATCH), **dict.fromkeys(axes, size)})
    inputs = [torch.from_numpy(arrays[spec.name]) for spec in signature.inputs]
    try:
        with torch.no_grad():
            wanted = model(*(each.clone() for each in inputs))
            got = program.module(check_guards=False)(*inputs)
    except Exception:  # noqa: BLE001  (a size that the model itself does not take)
        return False
    return any(not agree(a, b) for a, b in zip(leaves(got), leaves(wanted), strict=True))


def leaves(given: Any) -> list[Any]:
    """The tensors of nested answers."""
    from torch.utils import _pytree

    return _pytree.tree_leaves(given)


def agree(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether a program took the way that the model took: alike but for rounding."""
    import torch

    if got.shape != wanted.shape:
        return False
    if not wanted.is_floating_point():
        return torch.equal(got, wanted)
    most = float(wanted.abs().max()) if wanted.numel() else 0.0
    return torch.allclose(got, wanted, rtol=0.0, atol=_NEAR * max(most, 1e-6), equal_nan=True)
