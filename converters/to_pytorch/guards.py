"""Sizes that a program of torch.export leaves out, and whether the model takes another way there.

`if x.shape[1] == 80` gives a program for every size but 80, and no range of sizes tells it; `if h > 2 * w` gives one
for all but tall pictures. torch keeps a guard beside the program, which the formats made of it do not have. Most such
guards are of torch's own making and change nothing. So the model is asked at sizes that break each of them, and the
program without its guards, too. Where both answer alike the guard goes: the file would raise there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, zip_longest
from types import CodeType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...models.probes.far_sizes import count_elements, least_sizes, most_elements
from ...models.probes.sizes import empty_axes, example_sizes
from ...models.signature import ANY_SIZE, Signature

if TYPE_CHECKING:
    import torch

_SOURCE = re.compile(r"L\['(?P<name>\w+)'\](?P<part>\[\d+\])?\.size\(\)\[(?P<axis>\d+)\]")
_LEAST = 2  # the check that follows asks the least size of every axis
_EVERY = range(1023)  # beyond the least size of an axis; farther a call may be large
_MANY = (*range(128), *range(128, 1023, 32))  # likewise, where the other axes have other sizes than their least
_BEGIN = (2, 9, 65)  # of the sizes that break a guard, the first from each of these on: a model may take none below
_MOST = 16  # sizes to ask
_MOST_OF_ONE = 4  # of a guard that none of these tells of
_MOST_ELEMENTS = 1_000_000  # of the inputs of a call at sizes of several axes
_BATCH = 2
_NEAR = 1e-3  # of the largest answer: another way of the model's lies further, other rounding nearer
_WORDS: dict[str, Any] = {
    "__builtins__": {"max": max, "min": min, "round": round, "abs": abs, "int": int, "float": float},
    "math": math,
    "torch": SimpleNamespace(sym_float=float, sym_int=int, sym_max=max, sym_min=min),
}


@dataclass(frozen=True)
class Guard:
    """A condition on sizes of inputs that torch keeps beside a program. `axes`: the dynamic ones in it, by name."""

    text: str
    axes: tuple[str, ...]
    code: CodeType

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds at sizes of the axes; true where it cannot be told."""
        try:
            return bool(eval(self.code, _WORDS, {"sizes": sizes}))  # noqa: S307  (of torch's own writing)
        except Exception:  # noqa: BLE001  (a guard in other words is none of those that are looked for)
            return True


def guards_of(program: torch.export.ExportedProgram, signature: Signature) -> list[Guard]:
    """The guards of a program that are on nothing but sizes of its inputs."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    read = (read_guard(text, names, signature) for text in getattr(program, "_guards_code", None) or ())
    return [guard for guard in read if guard is not None]


def read_guard(text: str, names: Sequence[str], signature: Signature) -> Guard | None:
    """A guard of a program whose inputs have these names; None where it is on more than sizes of them."""
    axes: dict[str, None] = {}

    def size_of(found: re.Match[str]) -> str:
        axis = signature.inputs[names.index(found["name"])].shape[int(found["axis"])]
        if isinstance(axis, int):
            return str(axis)
        axes[axis] = None
        return f"sizes[{axis!r}]"

    if any(each["name"] not in names or each["part"] for each in _SOURCE.finditer(text)):
        return None
    python = _SOURCE.sub(size_of, text)
    try:
        return Guard(text, tuple(axes), compile(python, "<guard>", "eval"))
    except SyntaxError:
        return None


@dataclass(frozen=True)
class LeftOut:
    """Sizes of the axes of a guard that break it. `of_one_size`: it is broken by their being alike."""

    sizes: Mapping[str, int]
    of_one_size: bool = False


def lift_guards(
    program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature
) -> tuple[LeftOut, list[dict[str, int]]] | None:
    """Take the guards off a program that are broken where it answers as the model does: the file would raise there.
    Those stay that are broken where the model itself gives no answer.

    Returns, where there are any, sizes that the program leaves out and at which it does not answer as the model does,
    and all that were found to be left out, those of every dynamic axis; then every guard stays.
    """
    own, left = example_sizes(signature.inputs, _BATCH), _left_out(program, signature)
    guards = [guard for guard in guards_of(program, signature) if guard.axes]
    without, alike = program.module(check_guards=False), list[dict[str, int]]()
    for each in chain(left, _further(guards, signature, alike)):
        sizes = {**own, **each.sizes}
        same = answers_alike(without, model, signature, sizes)
        if same is False:
            return each, [{**own, **other.sizes} for other in (*left, each)]
        alike += [sizes] if same else []
    _take_off(program, {guard.text for guard in guards if _is_broken(guard, alike)})
    return None


def _further(guards: Sequence[Guard], signature: Signature, alike: Sequence[Mapping[str, int]]) -> Iterator[LeftOut]:
    """More sizes for each guard that none of those breaks at which the answers were found `alike` so far."""
    for guard in guards:
        largest_first = sorted(_breaking(guard, signature), key=_largest, reverse=True)  # a model may take none below
        for each in largest_first[:_MOST_OF_ONE]:
            if _is_broken(guard, alike):
                break
            yield each


def _largest(left: LeftOut) -> int:
    return max(left.sizes.values())


def _is_broken(guard: Guard, points: Iterable[Mapping[str, int]]) -> bool:
    return not all(map(guard.holds, points))


def _take_off(program: torch.export.ExportedProgram, texts: Collection[str]) -> None:
    kept: list[str] = getattr(program, "_guards_code", None) or []
    kept[:] = [text for text in kept if text not in texts]


def _left_out(program: torch.export.ExportedProgram, signature: Signature) -> list[LeftOut]:
    """Some sizes for each guard on sizes of inputs, within bounds, that break it: first one of each. Before them 0 for
    each axis that may be empty: torch.export takes it for granted that none is, and keeps no guard of that."""
    of_each = [_breaking(guard, signature) for guard in guards_of(program, signature) if guard.axes]
    in_turn = chain.from_iterable(zip_longest(*of_each))
    found = [LeftOut({axis: 0}) for axis in empty_axes(signature.inputs)]
    for each in in_turn:
        if len(found) >= _MOST:
            break
        if each is not None and each.sizes not in [former.sizes for former in found]:
            found.append(each)
    return found


def _breaking(guard: Guard, signature: Signature) -> Iterator[LeftOut]:
    """Sizes of the axes of a guard that break it, those that are found soonest on each of its lines."""
    own, most = example_sizes(signature.inputs, _BATCH), max(_MOST_ELEMENTS, most_elements(signature.inputs))
    lines = [[each for each in line if not guard.holds(each)] for line in _lines(guard.axes, signature)]
    for begin in _BEGIN:
        for line in lines:
            far = (each for each in line if max(each.values()) >= begin)
            fits = (each for each in far if len(each) == 1 or count_elements(signature.inputs, {**own, **each}) <= most)
            if found := next(fits, None):
                yield LeftOut(found, _of_one_size(guard, found))


def _of_one_size(guard: Guard, sizes: Mapping[str, int]) -> bool:
    first, *others = sizes.values()
    return set(others) == {first} and guard.holds({**sizes, guard.axes[0]: first + 1})


def _lines(axes: Sequence[str], signature: Signature) -> Iterator[Iterator[dict[str, int]]]:
    """Ways through the sizes of some axes: all of one size; then some of them growing while the others stay small, or
    not as small. A relation between axes breaks on one of these, whatever their ratio is."""
    yield _line({}, axes, _EVERY, signature)
    for small in _BEGIN:
        base = {axis: size for axis, size in least_sizes(signature.inputs, small).items() if axis in axes}
        for count in range(1, len(axes)):
            for growing in combinations(axes, count):
                yield _line(base, growing, _EVERY if small == _LEAST else _MANY, signature)


def _line(
    base: Mapping[str, int], growing: Sequence[str], beyond: Iterable[int], signature: Signature
) -> Iterator[dict[str, int]]:
    bounds = [signature.bounds.get(axis, ANY_SIZE) for axis in growing]
    least = max(_LEAST, *(each.low for each in bounds))
    allowed = (least + more for more in beyond if all(least + more in each for each in bounds))
    return ({**base, **dict.fromkeys(growing, size)} for size in allowed)


def answers_alike(
    program: Callable[..., Any], model: torch.nn.Module, signature: Signature, sizes: Mapping[str, int]
) -> bool | None:
    """Whether a program without its guards answers as the model does; None where the model has no answer."""
    import torch

    from ...models.probes.random_inputs import sample_tensors

    arrays = sample_tensors(signature.inputs, sizes)
    inputs = [torch.from_numpy(arrays[spec.name]) for spec in signature.inputs]
    with torch.no_grad():
        try:
            wanted = leaves(model(*(each.clone() for each in inputs)))
        except Exception:  # noqa: BLE001  (a size that the model itself does not take)
            return None
        try:
            got = leaves(program(*inputs))
        except Exception:  # noqa: BLE001  (a size that the program alone does not take)
            return False
    return len(got) == len(wanted) and all(map(agree, got, wanted))


def leaves(given: Any) -> list[Any]:
    """The tensors of nested answers."""
    from torch.utils import _pytree

    return _pytree.tree_leaves(given)


def agree(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether a program took the way that the model took: alike but for rounding."""
    import torch

    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return torch.equal(got, wanted)
    finite = wanted[wanted.isfinite()].abs()
    most = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(got, wanted, rtol=0.0, atol=_NEAR * max(most, 1e-6), equal_nan=True)
