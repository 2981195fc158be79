"""The modules inside a PyTorch model, each as a model of its own, fed with what it is fed in the whole.

For finding the smallest module that a converter fails at (torch_search.py). Runs the user's code: worker only.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.signature import DTYPES, Array, Axis, Signature, TensorSpec
from ...models.sources import CodeRef, Source, write_source

if TYPE_CHECKING:
    import torch

_SITE = "site-packages"
_held: list[torch.nn.Module] = []


def held() -> torch.nn.Module:
    """The module that is being tried: what the source of a piece names as its code."""
    return _held[-1]


def hold(module: torch.nn.Module, signature: Signature, folder: Path) -> None:
    """Make `folder` a source that builds this very module, in this process."""
    _held[:] = [module]
    write_source(folder, Source(CodeRef(f"{__name__}:{held.__name__}"), signature, ""))


def flat(module: torch.nn.Module, inputs: Sequence[str]) -> torch.nn.Module:
    """A module that gives nested tuples, as an LSTM does, giving one tuple."""
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tuple(_leaves(self.inner(*inputs)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD  # torch.export goes by the names of forward's arguments
    Flat.forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # where inspect looks for it
        [inspect.Parameter(name, kind) for name in ("self", *inputs)]
    )
    return Flat().eval()


def _leaves(made: Any) -> list[Any]:
    return [leaf for each in made for leaf in _leaves(each)] if isinstance(made, tuple | list) else [made]


@dataclass(frozen=True)
class Piece:
    """A module of the model, as two calls of the whole called it: first with `feeds`, then with `others`, of another
    batch size. Inputs of the whole are called as they are, those of a module inside x0, x1 and so on; outputs y0 and
    so on, or by their keys."""

    path: str  # in the model; empty for the whole
    module: torch.nn.Module
    signature: Signature
    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    others: Mapping[str, Array]
    nested: bool = False  # what it gives: it is tried flat

    def write(self, folder: Path) -> None:
        """As a source, which a step can be given: it builds the very module."""
        hold(flat(self.module, list(self.feeds)) if self.nested else self.module, self.signature, folder)

    @property
    def described(self) -> str:
        """For a person: where it is in the model, its class, and the line that begins it where that is the user's."""
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


class Axes:
    """How the dynamic axes of pieces are called, and what their bounds are: two calls of the whole tell, in which every
    dynamic axis has another size. What changes as an axis of the model's inputs does is that axis."""

    def __init__(self, signature: Signature, first: Mapping[str, Array], second: Mapping[str, Array]) -> None:
        self._bounds = signature.bounds
        self._names: dict[tuple[int, int], str] = {}
        for spec in signature.inputs:
            one, two = first[spec.name].shape, second[spec.name].shape
            for at, axis in spec.dynamic_axes.items():
                self._names.setdefault((one[at], two[at]), axis)

    def spec(self, name: str, one: Array, two: Array) -> TensorSpec:
        """Of a tensor as both calls had it. Raises ValueError where nothing here carries its dtype."""
        shape: list[Axis] = [
            a if a == b else self._names.get((a, b), f"n{a}_{b}") for a, b in zip(one.shape, two.shape, strict=True)
        ]
        own = dict.fromkeys(axis for axis in shape if axis in self._bounds)
        bounds = tuple((str(axis), self._bounds[str(axis)]) for axis in own)
        return TensorSpec(name, one.dtype.name, tuple(shape), bounds)


class Recorder:
    """Calls of the modules in a model, as two calls of the whole make them."""

    def __init__(
        self, model: torch.nn.Module, signature: Signature, first: Mapping[str, Array], second: Mapping[str, Array]
    ) -> None:
        self._model = model
        self._axes = Axes(signature, first, second)
        self._inputs = [*first]
        self._nested: set[str] = set()
        self._calls = [_calls(model, feeds, self._nested) for feeds in (first, second)]

    def piece(self, path: str) -> Piece | None:
        """The module at a path; None where it was not called, or with something else than tensors by position."""
        one, two = (calls.get(path) for calls in self._calls)
        if (
            one is None
            or two is None
            or [a.ndim for a in one[0]] != [a.ndim for a in two[0]]
            or set(one[1]) != set(two[1])
        ):
            return None
        names = [f"x{at}" for at in range(len(one[0]))] if path else self._inputs
        feeds, others = (dict(zip(names, call[0], strict=True)) for call in (one, two))
        try:
            inputs = tuple(self._axes.spec(name, feeds[name], others[name]) for name in feeds)
            outputs = tuple(self._axes.spec(name, one[1][name], two[1][name]) for name in one[1])
            signature = Signature(inputs, outputs)
        except ValueError:
            return None
        module, nested = self._model.get_submodule(path), path in self._nested
        return Piece(path, module, signature, feeds, one[1], others, nested)

    def inside(self, path: str) -> Iterator[str]:
        """The nearest modules inside one that were called themselves: a list of layers is looked through."""
        for name, child in self._model.get_submodule(path).named_children():
            inner = f"{path}.{name}" if path else name
            if inner in self._calls[0]:
                yield inner
            elif any(True for _ in child.children()):
                yield from self.inside(inner)


def _calls(
    model: torch.nn.Module, feeds: Mapping[str, Array], nested: set[str]
) -> dict[str, tuple[list[Array], dict[str, Array]]]:
    """The first call of every module by its path: what it was given by position, and what it gave. Those that give
    nested tuples are noted in `nested`."""
    import torch

    found: dict[str, tuple[list[Array], dict[str, Array]]] = {}

    def note(path: str) -> Any:
        def hook(_module: Any, given: tuple[Any, ...], keywords: Mapping[str, Any], made: Any) -> None:
            arrays, results = [array_of(each) for each in given], _results(made)
            if path not in found and not keywords and results and all(each is not None for each in arrays):
                found[path] = ([each for each in arrays if each is not None], results)
                if isinstance(made, tuple | list) and len(made) != len(results):
                    nested.add(path)

        return hook

    hooks = [
        module.register_forward_hook(note(path), with_kwargs=True) for path, module in model.named_modules()
    ]  # fmt: skip
    try:
        with torch.no_grad():
            model(*(torch.from_numpy(np.array(array)) for array in feeds.values()))
    finally:
        for each in hooks:
            each.remove()
    return found


def _results(made: Any) -> dict[str, Array]:
    """Outputs by name; nothing where one of them is no tensor."""
    if isinstance(made, Mapping):
        named = {str(key): value for key, value in made.items()}
    else:
        named = {f"y{at}": each for at, each in enumerate(_leaves(made))}
    arrays = {name: array_of(each) for name, each in named.items()}
    return {} if any(each is None for each in arrays.values()) else {n: a for n, a in arrays.items() if a is not None}


def array_of(value: Any) -> Array | None:
    """A copy of a tensor; None where it is none, or of a dtype that nothing here carries."""
    import torch

    if not isinstance(value, torch.Tensor) or str(value.dtype).removeprefix("torch.") not in DTYPES:
        return None
    return np.array(value.detach().numpy())
