"""Build the module of a source, with its weights. Runs the user's code: worker only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadRequest
from ..signature import Signature
from ..sources import WEIGHTS, read_source
from .call_convention import Call, flat
from .half_precision import widen
from .module_from_ref import construct
from .state_dicts import load_weights, read_weights

if TYPE_CHECKING:
    import torch

_SEED = 0


def build_model(folder: Path) -> torch.nn.Module:
    """Build the module of the source in `folder`, with its weights, in eval mode, without gradients, on the CPU.

    It takes the signature's inputs by position, and `name_outputs` names the signature's outputs in its result. Without
    a weights file it is as its code constructs it under a fixed seed. Half-precision weights are float32.

    Raises BadRequest where the code or the weights do not fit.
    """
    source = read_source(folder)
    model = construct(source.ref)
    if (folder / WEIGHTS).exists():
        load_weights(model, read_weights(folder / WEIGHTS))
    widen(model)
    return model if source.call is None else flat(model, Call.from_json(source.call))


def call_model(model: torch.nn.Module, signature: Signature, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Call the module and return its outputs by name.

    `inputs` are in the signature's order. The module may return a tensor, a sequence or a mapping.

    Raises BadRequest where it returns other outputs than the signature names.
    """
    return name_outputs(model(*inputs), [spec.name for spec in signature.outputs])


def name_outputs(returned: object, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return the results of a module under the names of its outputs, in their order.
    Raises BadRequest where the two do not match."""
    if isinstance(returned, Mapping):
        outputs, count = dict(returned), len(returned)
        fits = set(outputs) == set(names)
    else:
        values = list(returned) if isinstance(returned, tuple | list) else [returned]
        fits, count = len(values) == len(names), len(values)
        outputs = dict(zip(names, values, strict=False))
    if not fits:
        raise BadRequest(
            f"the model returned {count} outputs where its signature names {', '.join(names)}",
            fix="name the model's outputs in the signature, in its order",
        )
    return {name: outputs[name] for name in names}
