"""Sizes that an exported program excludes by guards, and whether the model takes another way there.

`if x.shape[1] == 80` gives a program for every size but 80, which no range of sizes expresses; `if h > 2 * w` gives one
for all but tall pictures. Torch keeps a guard beside the program; the formats made from it have none. Most guards come
from torch itself and change nothing. So the model, and the program without its guards, are called at sizes that break
each guard. Where their answers agree the guard is removed, because the program would raise there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, zip_longest
from types import CodeType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...models.probes.sizes import count_elements, empty_axes, example_sizes, least_sizes, most_elements, other_axes
from ...models.signature import ANY_SIZE, Signature
from ..patches import torch_messages
from .model_calls import TRIAL_BATCH, answers_at, same_answers

if TYPE_CHECKING:
    import torch

_SMALLEST = 2  # verification asks the least size of every axis
_DENSE = range(1023)  # offsets from the least size of an axis; beyond them a call may be large
_SPARSE = (*range(128), *range(128, 1023, 32))  # the same where the other axes are not at their least
_STARTS = (2, 9, 65)  # take the first breaking size from each of these on: a model may refuse smaller ones
_MAX_EXCLUDED = 16  # points to ask
_MAX_PER_GUARD = 4  # further points for a guard that none of these breaks
_MAX_ELEMENTS = 1_000_000  # of the inputs of a call at sizes of several axes
_DIVISOR = re.compile(r"% (\d+)")
_NAMESPACE: dict[str, Any] = {
    "__builtins__": {"max": max, "min": min, "round": round, "abs": abs, "int": int, "float": float},
    "math": math,
    "torch": SimpleNamespace(sym_float=float, sym_int=int, sym_max=max, sym_min=min),
}


@dataclass(frozen=True)
class SizeGuard:
    """A condition on sizes of inputs that torch keeps beside a program. `axes`: the names of its dynamic axes."""

    text: str
    axes: tuple[str, ...]
    code: CodeType

    @property
    def divisors(self) -> tuple[int, ...]:
        """The numbers that it takes remainders by."""
        return tuple(int(number) for number in _DIVISOR.findall(self.text) if int(number) > 1)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether it holds at these sizes of the axes; true if it cannot be evaluated."""
        try:
            return bool(eval(self.code, _NAMESPACE, {"sizes": sizes}))  # noqa: S307  (torch wrote the code)
        except Exception:  # noqa: BLE001  (only guards of the known form matter)
            return True


def _guards_on_axes(program: torch.export.ExportedProgram, signature: Signature) -> list[SizeGuard]:
    """Return the guards of a program on dynamic sizes of its inputs alone."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    guards = (read_guard(text, names, signature) for text in getattr(program, "_guards_code", None) or ())
    return [guard for guard in guards if guard and guard.axes]


def read_guard(text: str, names: Sequence[str], signature: Signature) -> SizeGuard | None:
    """Read a guard of a program whose inputs have these names; None if it is on more than their sizes."""
    axes: dict[str, None] = {}

    def size_of(match: re.Match[str]) -> str:
        axis = signature.inputs[names.index(match["name"])].shape[int(match["axis"])]
        if isinstance(axis, int):
            return str(axis)
        axes[axis] = None
        return f"sizes[{axis!r}]"

    if any(match["name"] not in names or match["part"] for match in torch_messages.AXIS_SOURCE.finditer(text)):
        return None
    python = torch_messages.AXIS_SOURCE.sub(size_of, text)
    try:
        return SizeGuard(text, tuple(axes), compile(python, "<guard>", "eval"))
    except SyntaxError:
        return None


@dataclass(frozen=True)
class ExcludedSizes:
    """Sizes of the axes of a guard that break it. `by_equality`: the guard breaks because they are equal. `step`: it
    breaks because they are multiples of that; 0 where they are none."""

    sizes: Mapping[str, int]
    by_equality: bool = False
    step: int = 0


def lift_guards(
    program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature
) -> tuple[ExcludedSizes, list[dict[str, int]]] | None:
    """Remove the guards of a program that break where it answers as the model does: its file would raise there.
    Guards that break where the model itself gives no answer stay. If the program answers otherwise than the model at
    excluded sizes, every guard stays, and the result is these sizes and all excluded points, with every dynamic
    axis."""
    own, guards = example_sizes(signature.inputs, TRIAL_BATCH), _guards_on_axes(program, signature)
    candidates = _excluded_sizes(guards, signature)
    without, agreeing = program.module(check_guards=False), list[dict[str, int]]()
    for excluded in chain(candidates, _more_excluded(guards, signature, agreeing)):
        sizes = {**own, **excluded.sizes}
        answers_same = answers_alike(without, model, signature, sizes)
        if answers_same is False:
            points = [{**own, **candidate.sizes} for candidate in (*candidates, excluded)]
            return replace(excluded, step=_step_of(guards, excluded.sizes)), points
        agreeing += [sizes] if answers_same else []
    broken = {guard.text for guard in guards if _is_broken(guard, agreeing)}
    texts: list[str] = getattr(program, "_guards_code", None) or []
    texts[:] = [text for text in texts if text not in broken]
    return None


def _more_excluded(
    guards: Sequence[SizeGuard], signature: Signature, agreeing: Sequence[Mapping[str, int]]
) -> Iterator[ExcludedSizes]:
    """Yield more points for each guard that no `agreeing` point breaks so far."""
    for guard in guards:
        # The largest first, as models may refuse small ones.
        points = sorted(_sizes_that_break(guard, signature), key=lambda point: -max(point.sizes.values()))
        for excluded in points[:_MAX_PER_GUARD]:
            if _is_broken(guard, agreeing):
                break
            yield excluded


def _is_broken(guard: SizeGuard, points: Iterable[Mapping[str, int]]) -> bool:
    return not all(map(guard.holds, points))


def _excluded_sizes(guards: Sequence[SizeGuard], signature: Signature) -> list[ExcludedSizes]:
    """Return points within bounds that break the guards, one of each guard first.
    Before them stands 0 for each axis that may be empty: torch.export assumes that none is, and keeps no guard of
    that."""
    interleaved = chain.from_iterable(zip_longest(*(_sizes_that_break(guard, signature) for guard in guards)))
    excluded = [ExcludedSizes({axis: 0}) for axis in empty_axes(signature.inputs)]
    excluded += map(ExcludedSizes, _multiples_that_break(guards, signature))
    for candidate in interleaved:
        if len(excluded) >= _MAX_EXCLUDED:
            break
        if candidate is not None and candidate.sizes not in [former.sizes for former in excluded]:
            excluded.append(candidate)
    return excluded


def _multiples_that_break(guards: Sequence[SizeGuard], signature: Signature) -> Iterator[dict[str, int]]:
    """Yield sizes of all axes but the batch that break a guard on a remainder: each a multiple of the divisor.
    `if h % 16 or w % 16` leaves a guard on the first axis alone, and takes the other way where both have no rest."""
    for step in sorted({step for guard in guards for step in guard.divisors}):
        sizes = {
            axis: signature.bounds.get(axis, ANY_SIZE).nearest(step * (2 + at))
            for at, axis in enumerate(other_axes(signature.inputs))
        }
        if not any(size % step for size in sizes.values()) and any(_is_broken(guard, [sizes]) for guard in guards):
            yield sizes


def _step_of(guards: Sequence[SizeGuard], sizes: Mapping[str, int]) -> int:
    """Return the divisor of the guards that these sizes break by being multiples of it; 0 where there is none."""
    broken = [guard for guard in guards if sizes.keys() >= set(guard.axes) and not guard.holds(sizes)]
    divisors = {step for guard in broken for step in guard.divisors}
    return max((step for step in divisors if not any(size % step for size in sizes.values())), default=0)


def _sizes_that_break(guard: SizeGuard, signature: Signature) -> Iterator[ExcludedSizes]:
    """Yield sizes that break a guard: the first ones on each line through the sizes of its axes."""
    specs = signature.inputs
    own, limit = example_sizes(specs, TRIAL_BATCH), max(_MAX_ELEMENTS, most_elements(specs))
    lines = [[sizes for sizes in line if not guard.holds(sizes)] for line in _lines(guard.axes, signature)]
    for start in _STARTS:
        for line in lines:
            distant = (sizes for sizes in line if max(sizes.values()) >= start)
            fits = (sizes for sizes in distant if len(sizes) == 1 or count_elements(specs, {**own, **sizes}) <= limit)
            if first := next(fits, None):
                yield ExcludedSizes(first, _is_broken_by_equality(guard, first))


def _is_broken_by_equality(guard: SizeGuard, sizes: Mapping[str, int]) -> bool:
    first, *further = sizes.values()
    return set(further) == {first} and guard.holds({**sizes, guard.axes[0]: first + 1})


def _lines(axes: Sequence[str], signature: Signature) -> Iterator[Iterator[dict[str, int]]]:
    """Yield lines through the sizes of some axes: all equal; then some growing while the others stay small or smaller.
    A relation between axes breaks on one of these lines, whatever the ratio is."""
    yield _line({}, axes, _DENSE, signature)
    for small in _STARTS:
        base = {axis: size for axis, size in least_sizes(signature.inputs, small).items() if axis in axes}
        for count in range(1, len(axes)):
            for growing in combinations(axes, count):
                yield _line(base, growing, _DENSE if small == _SMALLEST else _SPARSE, signature)


def _line(
    base: Mapping[str, int], growing: Sequence[str], beyond: Iterable[int], signature: Signature
) -> Iterator[dict[str, int]]:
    bounds = [signature.bounds.get(axis, ANY_SIZE) for axis in growing]
    least = max(_SMALLEST, *(own.low for own in bounds))
    allowed = (least + more for more in beyond if all(least + more in own for own in bounds))
    return ({**base, **dict.fromkeys(growing, size)} for size in allowed)


def answers_alike(
    program: Callable[..., Any], model: torch.nn.Module, signature: Signature, sizes: Mapping[str, int]
) -> bool | None:
    """Return whether a program without its guards answers as the model does; None if the model has no answer."""
    expected = answers_at(model, signature, sizes)
    if isinstance(expected, Exception):  # a size that the model itself refuses
        return None
    results = answers_at(program, signature, sizes)
    return not isinstance(results, Exception) and same_answers(results, expected)
