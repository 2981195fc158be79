"""The module of a source, built and loaded. Runs the user's code: worker only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """The module of the source in `folder`, with its weights, in eval mode, without gradients, on the CPU: it takes the
    signature's inputs by position, and `name_outputs` finds the signature's outputs in what it returns.

    Without a weights file it is as its code constructs it under a fixed seed. Half-precision weights are float32.

    Raises BadRequest where the code or the weights do not fit.
    """
    source = read_source(folder)
    model = construct(source.ref)
    if (folder / WEIGHTS).exists():
        load_weights(model, read_weights(folder / WEIGHTS))
    widen(model)
    return model if source.call is None else flat(model, Call.from_json(source.call))


def call_model(model: torch.nn.Module, signature: Signature, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Outputs by name. `inputs` in the signature's order; the module may return a tensor, a sequence or a mapping.

    Raises BadRequest where it returns other outputs than the signature names.
    """
    return name_outputs(model(*inputs), [spec.name for spec in signature.outputs])


def name_outputs(given: Any, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """What a module returned, under the names of its outputs in their order.

    Raises BadRequest where the two do not match.
    """
    if isinstance(given, Mapping):
        found, count = dict(given), len(given)
        fits = set(found) == set(names)
    else:
        values = list(given) if isinstance(given, tuple | list) else [given]
        fits, count = len(values) == len(names), len(values)
        found = dict(zip(names, values, strict=False))
    if not fits:
        raise BadRequest(
            f"the model returned {count} outputs where its signature names {', '.join(names)}",
            fix="name the model's outputs in the signature, in its order",
        )
    return {name: found[name] for name in names}
