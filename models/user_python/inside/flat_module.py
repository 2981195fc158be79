"""A user's module as a function of tensors by position, which returns tensors in the order of a signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .failures import Refusal
from .trees import decode_tree

if TYPE_CHECKING:
    import torch

_ALONE = "output"  # as in models/loading/call_convention.py


def flat_module(
    model: torch.nn.Module, arguments: Any, keywords: Any, outputs: Sequence[str], count: int
) -> torch.nn.Module:
    """Return a module that puts its inputs, `count` of them, into the trees of arguments and keywords (trees.py).
    It returns the outputs of these names: a tensor, or a tuple of them. Numbers and texts among the results are left
    out."""
    import torch

    class CalledModule(torch.nn.Module):
        """The user's module, called as the trees say."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def answer(self, values: list[Any]) -> Any:
            """Return the outputs in order."""
            result = self.model(*decode_tree(arguments, values), **decode_tree(keywords, values))
            named = dict(_tensors_of(result, ()))
            if any(name not in named for name in outputs):
                raise Refusal(
                    f"the model returned {', '.join(named)} where its signature names {', '.join(outputs)}",
                    "let forward return the same parts whatever its inputs are",
                )
            chosen = tuple(named[name] for name in outputs)
            return chosen if len(chosen) > 1 else chosen[0]

    own: Any = type("FlatModule", (CalledModule,), {"forward": _forward_of(count)})
    module: torch.nn.Module = own()
    return module.eval()


def _forward_of(count: int) -> Any:
    """Make a forward with so many parameters: torch.export takes the shapes of `*inputs` in another way."""
    names = ", ".join(f"input_{at}" for at in range(count))
    space: dict[str, Any] = {}
    exec(f"def forward(self, {names}):\n    return self.answer([{names}])\n", space)  # noqa: S102
    return space["forward"]


def _tensors_of(result: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a result by their paths, as call_convention.parted names them; bfloat16 as float32."""
    import torch

    if isinstance(result, torch.Tensor):
        name = "_".join(path) if path else _ALONE
        yield name, result.float() if result.dtype == torch.bfloat16 else result
        return
    if isinstance(result, Mapping):
        parts = [(str(key), value) for key, value in result.items()]
    elif isinstance(result, (tuple, list)):
        names = getattr(result, "_fields", range(len(result)))
        parts = [(str(name), value) for name, value in zip(names, result)]
    elif dataclasses.is_dataclass(result) and not isinstance(result, type):
        parts = [(row.name, getattr(result, row.name)) for row in dataclasses.fields(result)]
    else:
        return
    plain = isinstance(result, (tuple, list)) and not hasattr(result, "_fields")
    for key, value in parts:
        yield from _tensors_of(value, (*(path or ((_ALONE,) if plain else ())), key))
