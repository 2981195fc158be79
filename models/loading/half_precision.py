"""Half-precision modules, converted as float32 arithmetic with the same weights (docs/convert.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from ..errors import BadRequest, TransloadError
from .user_frames import line_of_error, line_of_process, quoted

if TYPE_CHECKING:
    import torch

_OF_DTYPES = ("dtype", "scalar type")  # PyTorch's words for them in its errors


def widen(model: torch.nn.Module) -> dict[str, torch.dtype]:
    """Make every float16 and bfloat16 weight and buffer float32, which holds each of their values exactly.
    Returns the former dtypes by name; empty where there is none."""
    import torch

    tensors = chain(model.named_parameters(), model.named_buffers())
    halves = {name: tensor.dtype for name, tensor in tensors if tensor.dtype in (torch.float16, torch.bfloat16)}
    if halves:
        _cast(model, dict.fromkeys(halves, torch.float32))
    return halves


def _cast(model: torch.nn.Module, dtypes: Mapping[str, torch.dtype]) -> None:
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        if name in dtypes:
            tensor.data = tensor.data.to(dtypes[name])


@contextmanager
def map_half_precision_errors(model: str, halves: Mapping[str, torch.dtype]) -> Iterator[None]:
    """Turn an error that a half-precision module raises in float32 into a BadRequest: its code names a dtype."""
    try:
        yield
    except TransloadError:
        raise
    except RuntimeError as error:
        place = line_of_process(error) or line_of_error(error)
        if not halves or place is None or not any(word in str(error) for word in _OF_DTYPES):
            raise
        raise BadRequest(
            f"a half-precision model is carried in float32, and {model} mixes the two at {quoted(place)}",
            fix="take the dtype from a weight or an input there, as in x.to(self.weight.dtype)",
        ) from error


def own_distance(
    model: torch.nn.Module, halves: Mapping[str, torch.dtype], ask: Callable[[torch.dtype], Mapping[str, torch.Tensor]]
) -> str:
    """Say in one sentence how far the module's own half arithmetic lies from the float32 that stands for it.
    `ask` calls the model with inputs of a dtype. The module is left as it was."""
    import torch

    half = next(iter(halves.values()))
    name = str(half).removeprefix("torch.")
    wide = ask(torch.float32)
    _cast(model, halves)
    try:
        narrow = ask(half)
    except Exception:  # noqa: BLE001  (whatever it is, the module's own arithmetic is not converted)
        return f"its {name} weights are carried in float32; in {name} it does not run here"
    finally:
        _cast(model, dict.fromkeys(halves, torch.float32))
    noise_db = min((_sqnr_db(wide[output], narrow[output]) for output in wide), default=math.inf)
    if noise_db == math.inf:
        return f"its {name} weights are carried in float32; its own {name} arithmetic gives the same"
    return f"its {name} weights are carried in float32; its own {name} arithmetic lies {noise_db:.0f} dB from that"


def _sqnr_db(wide: torch.Tensor, narrow: torch.Tensor) -> float:
    """Return the signal to noise of an output, in dB; infinite where there is no noise."""
    if wide.shape != narrow.shape or not wide.is_floating_point():
        return math.inf
    noise = (wide.double() - narrow.double()).nan_to_num().square().sum().item()
    signal = wide.double().nan_to_num().square().sum().item()
    return 10 * math.log10(signal / noise) if noise and signal else math.inf
