"""Calls of a model at chosen sizes: random inputs, its answers, and one export by torch.export. Worker only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...models.probes.random_inputs import sample_tensors
from ...models.probes.sizes import example_sizes, other_axes
from ...models.signature import ANY_SIZE, Signature
from ..patches import private_torch
from ..patches.torch_export.open_sizes import keeping_sizes
from ..patches.torch_export.rounded_sizes import write_out_rounding
from ..patches.torch_export.temporary_settings import followed_data, unchecked_distributions

if TYPE_CHECKING:
    import torch

EXAMPLE_BATCH = 3  # 0 and 1 are specialised by torch.export; 2 can be taken for a constant of the model
TRIAL_BATCH = 2  # of calls that compare answers
_ROUNDING = 1e-3  # of the largest answer: another way of the model differs by more, other rounding by less


def inputs_at(signature: Signature, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
    """Draw one tensor per input, in order, with dynamic axes of these sizes."""
    import torch

    arrays = sample_tensors(signature.inputs, sizes)
    return tuple(torch.from_numpy(arrays[spec.name]) for spec in signature.inputs)


def example_inputs(signature: Signature, batch: int = EXAMPLE_BATCH, more: int = 0) -> tuple[torch.Tensor, ...]:
    """Return one tensor per input, in order. Named axes other than the batch get distinct sizes.
    `more` is added to these sizes, as far as their bounds and multiples allow."""
    sizes, bounds = example_sizes(signature.inputs, batch), signature.bounds
    for axis in other_axes(signature.inputs) if more else ():
        filled = bounds.get(axis, ANY_SIZE).filled
        unit = filled.low if filled.step == 1 else filled.step
        sizes[axis] = filled.nearest(sizes[axis] + unit * -(-more // unit))  # keeps multiples
    return inputs_at(signature, sizes)


def dynamic_shapes(signature: Signature) -> tuple[dict[int, Any], ...]:
    """Return for each input the torch Dim of each dynamic axis by position, with its bounds; one name is one Dim.
    Uses Dim.DYNAMIC, because Dim(name) turns a relation between two axes into an error."""
    from torch.export import Dim

    hints = {axis: Dim.DYNAMIC(min=low, max=high) for axis, (low, high, _) in signature.bounds.items()}
    return tuple(
        {at: hints.get(axis, Dim.DYNAMIC) for at, axis in spec.dynamic_axes.items()} for spec in signature.inputs
    )


def export_once(model: torch.nn.Module, signature: Signature, more: int = 0) -> torch.export.ExportedProgram:
    """Export a model with every named axis dynamic; raises what torch.export raises. `more`: see example_inputs."""
    import torch

    # With gradients, a no_grad block inside the model becomes an operator that cannot be loaded again.
    with torch.no_grad(), keeping_sizes(), followed_data(), unchecked_distributions():
        program = torch.export.export(
            model, example_inputs(signature, more=more), dynamic_shapes=dynamic_shapes(signature), strict=False
        )
    write_out_rounding(program)
    return program


def call_at(module: Callable[..., Any], signature: Signature, sizes: Mapping[str, int]) -> list[torch.Tensor]:
    """Return the tensors that a module answers with at these sizes. Raises what the module raises."""
    import torch

    with torch.no_grad():
        outputs = module(*inputs_at(signature, sizes))
    return [leaf for leaf in tree_leaves(outputs) if torch.is_tensor(leaf)]


def answers_at(
    module: Callable[..., Any], signature: Signature, sizes: Mapping[str, int]
) -> list[torch.Tensor] | Exception:
    """Return the tensors that a module answers with at these sizes, or its error."""
    try:
        return call_at(module, signature, sizes)
    except Exception as error:  # noqa: BLE001  (any error is the answer)
        return error


def tree_leaves(tree: Any) -> list[Any]:
    """Return the leaves of nested outputs."""
    return list(private_torch.tree_leaves(tree))


def same_answers(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Return whether a program took the model's way: the results agree except for rounding."""
    return len(results) == len(expected) and all(map(_agree, results, expected))


def _agree(result: torch.Tensor, expected: torch.Tensor) -> bool:
    import torch

    if result.shape != expected.shape or result.dtype != expected.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(result, expected)
    finite = expected[expected.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(result, expected, rtol=0.0, atol=_ROUNDING * max(largest, 1e-6), equal_nan=True)
