"""The modules inside a PyTorch model, each as a model with the inputs that it has in the full model.

pipeline/minimal_repro/piece_search.py tries steps on them. Runs the user's code: worker only.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.signature import DTYPES, Array, Axis, Signature, TensorSpec
from ...models.sources import CodeRef, Source, write_source
from .graph_pieces import Piece

if TYPE_CHECKING:
    import torch

_SITE = "site-packages"
_held: list[torch.nn.Module] = []


def held() -> torch.nn.Module:
    """Return the module of the current trial, which the source of a piece names as its code."""
    return _held[-1]


def hold(module: torch.nn.Module, signature: Signature, folder: Path) -> None:
    """Make `folder` a source that builds this module object, in this process."""
    _held[:] = [module]
    write_source(folder, Source(CodeRef(f"{__name__}:{held.__name__}"), signature, ""))


def flat(module: torch.nn.Module, inputs: Sequence[str]) -> torch.nn.Module:
    """Wrap a module that returns nested tuples, as an LSTM does, so that it returns one tuple."""
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(_leaves(self.inner(*inputs)))

    parameter_kind = inspect.Parameter.POSITIONAL_OR_KEYWORD  # torch.export reads the names of forward's arguments
    Flat.forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it there
        [inspect.Parameter(name, parameter_kind) for name in ("self", *inputs)]
    )
    return Flat().eval()


def _leaves(result: Any) -> list[Any]:
    return [leaf for item in result for leaf in _leaves(item)] if isinstance(result, tuple | list) else [result]


@dataclass(frozen=True)
class ModulePiece(Piece):
    """A module of the model, as two calls of the full model called it: with `feeds`, then with `second_feeds`.
    The second call has another batch size. Inputs of the full model keep their names; those of an inner module are x0,
    x1 and so on. Outputs are y0 and so on, or have their keys as names."""

    second_feeds: Mapping[str, Array]
    path: str  # in the model; empty for the full model
    module: torch.nn.Module
    nested: bool = False  # whether it returns nested tuples, which trials flatten

    def write(self, folder: Path) -> None:
        """Write a source that builds this module object, the input of a step."""
        hold(flat(self.module, list(self.feeds)) if self.nested else self.module, self.signature, folder)

    @property
    def description(self) -> str:
        """Describe the module for a user: its path, its class, and the class's line if it is the user's code."""
        kind = type(self.module)
        name = f"the module {self.path} ({kind.__name__}" if self.path else f"the model itself ({kind.__name__}"
        line = _line(kind)
        return f"{name}, {line})" if line else f"{name})"


def _line(kind: type) -> str:
    try:
        file, (_, line) = inspect.getsourcefile(kind) or "", inspect.getsourcelines(kind)
    except (OSError, TypeError):
        return ""
    return "" if _SITE in file else f"{Path(file).name}:{line}"


class AxisNames:
    """Names and bounds of the dynamic axes of pieces, from two calls in which every dynamic axis changes its size.
    An axis that changes as an axis of the model's inputs does is that axis."""

    def __init__(self, signature: Signature, first: Mapping[str, Array], second: Mapping[str, Array]) -> None:
        self._bounds = signature.bounds
        self._names: dict[tuple[int, int], str] = {}
        for spec in signature.inputs:
            first_shape, second_shape = first[spec.name].shape, second[spec.name].shape
            for at, axis in spec.dynamic_axes.items():
                self._names.setdefault((first_shape[at], second_shape[at]), axis)

    def signature(self, *sides: tuple[Mapping[str, Array], Mapping[str, Array]]) -> Signature | None:
        """Return the signature of inputs and outputs from both calls; None for a dtype that the formats lack."""
        try:
            return Signature(
                *(tuple(self._spec(name, first[name], second[name]) for name in first) for first, second in sides)
            )
        except (ValueError, KeyError):
            return None

    def _spec(self, name: str, first: Array, second: Array) -> TensorSpec:
        shape: list[Axis] = [
            size if size == other else self._names.get((size, other), f"n{size}_{other}")
            for size, other in zip(first.shape, second.shape, strict=True)
        ]
        bounds = tuple((axis, limits) for axis, limits in self._bounds.items() if axis in shape)
        return TensorSpec(name, first.dtype.name, tuple(shape), bounds)


class ModuleRecorder:
    """A recorder of the calls of a model's modules during two calls of the full model."""

    def __init__(
        self, model: torch.nn.Module, signature: Signature, first: Mapping[str, Array], second: Mapping[str, Array]
    ) -> None:
        self._model = model
        self._axes = AxisNames(signature, first, second)
        self._inputs = [*first]
        self._nested: set[str] = set()
        self._calls = [_calls(model, feeds, self._nested) for feeds in (first, second)]

    def piece(self, path: str) -> ModulePiece | None:
        """Return the module at a path; None if it was not called with tensors by position alone."""
        first, second = (calls.get(path) for calls in self._calls)
        if (
            first is None
            or second is None
            or [array.ndim for array in first[0]] != [array.ndim for array in second[0]]
            or set(first[1]) != set(second[1])
        ):
            return None
        names = [f"x{at}" for at in range(len(first[0]))] if path else self._inputs
        feeds, second_feeds = (dict(zip(names, call[0], strict=True)) for call in (first, second))
        signature = self._axes.signature((feeds, second_feeds), (first[1], second[1]))
        if signature is None:
            return None
        module, nested = self._model.get_submodule(path), path in self._nested
        return ModulePiece(signature, feeds, first[1], second_feeds, path, module, nested)

    def inside(self, path: str) -> Iterator[str]:
        """Yield the nearest inner modules that were called; a list of layers is not called, but its layers are."""
        for name, child in self._model.get_submodule(path).named_children():
            inner = f"{path}.{name}" if path else name
            if inner in self._calls[0]:
                yield inner
            elif any(True for _ in child.children()):
                yield from self.inside(inner)


def _calls(
    model: torch.nn.Module, feeds: Mapping[str, Array], nested: set[str]
) -> dict[str, tuple[list[Array], dict[str, Array]]]:
    """Return the arguments and results of every module's first call, by path.
    The paths of modules that return nested tuples are added to `nested`."""
    import torch

    calls: dict[str, tuple[list[Array], dict[str, Array]]] = {}

    def note(path: str) -> Any:
        def hook(_module: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any], result: Any) -> None:
            arrays, results = [_array_of(argument) for argument in arguments], _results(result)
            if path not in calls and not keywords and results and all(argument is not None for argument in arrays):
                calls[path] = ([argument for argument in arrays if argument is not None], results)
                if isinstance(result, tuple | list) and len(result) != len(results):
                    nested.add(path)

        return hook

    with contextlib.ExitStack() as hooks, torch.no_grad():
        for path, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(note(path), with_kwargs=True))
        model(*(torch.from_numpy(np.array(array)) for array in feeds.values()))
    return calls


def _results(outputs: Any) -> dict[str, Array]:
    """Return outputs by name; nothing if one of them is no tensor."""
    if isinstance(outputs, Mapping):
        named = {str(key): value for key, value in outputs.items()}
    else:
        named = {f"y{at}": value for at, value in enumerate(_leaves(outputs))}
    arrays = arrays_of(named)
    return arrays if len(arrays) == len(named) else {}


def arrays_of(values: Mapping[str, Any]) -> dict[str, Array]:
    """Return copies of the tensors that arrays can hold."""
    arrays = {name: _array_of(value) for name, value in values.items()}
    return {name: array for name, array in arrays.items() if array is not None}


def _array_of(value: Any) -> Array | None:
    """Return a copy of a tensor; None for anything else, or a dtype that the formats lack."""
    import torch

    if not isinstance(value, torch.Tensor) or str(value.dtype).removeprefix("torch.") not in DTYPES:
        return None
    return np.array(value.detach().numpy())
