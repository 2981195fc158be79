"""The sizes that an exported program is valid for, compared with those of its model.

Torch.export takes a size of 1 for a constant, inside a program too, and excludes every input size that leads there: two
strides leave one of four frames, so the program is for five and more. Mostly that is an artefact of tracing. So the
program is called at those sizes without its guards. Where it answers as the model does, the sizes become valid; where
it does not, the signature's bounds exclude them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from ...models.probes.sizes import example_sizes
from ...models.signature import ANY_SIZE, Bounds, Signature, TensorSpec
from ..patches import private_torch
from .export_reasons import answers, ranges, symbols_of
from .guards import answers_alike, read_guard
from .model_calls import TRIAL_BATCH

if TYPE_CHECKING:
    import sympy  # type: ignore[import-untyped]  # it has no stubs
    import torch
    from torch.utils._sympy.value_ranges import ValueRanges

    _Ranges: TypeAlias = dict[sympy.Symbol, ValueRanges[sympy.Expr]]

_SMALLEST_TRACED = 2  # least size of an axis for torch.export; a program answers at 1 too, unless a guard forbids it
_STEPS = 8  # sizes that are searched at least where they have a step
_SEARCH_LIMIT = 64  # a program that starts at larger sizes keeps its guards
_GUARD_LIMIT = 1025  # up to here a guard is checked for excluding more than small sizes


def settle_bounds(program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature) -> Signature:
    """Return the signature with the program's bounds, after removing bounds that only tracing caused."""
    trial, narrow = _SizeTrial(program, model, signature), dict[str, Bounds]()
    for axis in ranges(program, signature):
        if (least := trial.lower_bound(axis)) is not None:
            narrow[axis] = signature.bounds.get(axis, ANY_SIZE).within(least, None)
    trial.drop_guards_on_least_sizes(narrow)
    for axis, (_, high) in ranges(program, signature).items():
        bounds = narrow.get(axis, signature.bounds.get(axis, ANY_SIZE))
        if high is not None and (bounds.high is None or high < bounds.high):
            smaller = bounds.within(bounds.low, high)
            if answers(model, signature, axis, (smaller.high or high) + bounds.step):
                narrow[axis] = smaller
    return replace(signature, inputs=tuple(_with_bounds(spec, narrow) for spec in signature.inputs))


def _with_bounds(spec: TensorSpec, narrow: Mapping[str, Bounds]) -> TensorSpec:
    bounds = {**dict(spec.bounds), **{axis: limits for axis, limits in narrow.items() if axis in spec.shape}}
    return replace(spec, bounds=tuple(bounds.items()))


def _small_sizes(bounds: Bounds) -> range:
    """Return the allowed sizes from the least on that tracing may have excluded: some, where the step is large."""
    return range(bounds.low, max(_SEARCH_LIMIT, bounds.low + _STEPS * bounds.step), bounds.step)


class _SizeTrial:
    """A comparison of a program with its model at sizes that its guards exclude."""

    def __init__(self, program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature) -> None:
        self.program, self.model, self.signature = program, model, signature
        self.guards: list[str] = getattr(program, "_guards_code", None) or []
        names = [str(name) for name in program.graph_signature.user_inputs]
        self._read = cache(lambda text: read_guard(text, names, signature))  # each is asked at many sizes

    def lower_bound(self, axis: str) -> int | None:
        """Lower the axis's least size for as long as the program answers as the model does.
        Returns the new least size if the model answers below it, too."""
        bounds = self.signature.bounds.get(axis, ANY_SIZE)
        least, step = bounds.low, bounds.step
        first = next((size for size in _small_sizes(bounds) if self._is_open(axis, size)), None)
        if first is None or first == least:
            return None
        small = [point for size in range(least, first, step) for point in self._points(axis, size)]
        larger = ({**self._sizes(), axis: size} for size in range(first, _GUARD_LIMIT, step))
        small_guards = self._guards_on_small(small, [*larger, *self._diagonal(first)])
        symbols = {symbol for name, _, symbol in symbols_of(self.program, self.signature) if name == axis}
        former = {symbol: limits for symbol, limits in self.program.range_constraints.items() if symbol in symbols}
        self.program.range_constraints.update(self._from(former, _SMALLEST_TRACED))
        size, agrees = first, None
        while size > least and (agrees := self._agrees(self._points(axis, size - step), small_guards)):
            size -= step
        self.program.range_constraints.update(former if size == first else self._from(former, size))
        if size < first:
            self._drop(small_guards)
        if least < size < first:
            self.guards += [f"{source} >= {size}" for source in self._sources(axis)]
        return size if agrees is False else None

    def drop_guards_on_least_sizes(self, narrow: Mapping[str, Bounds]) -> None:
        """Remove guards that only forbid several axes to have their least sizes at once."""
        bounds = {**self.signature.bounds, **narrow}
        filled = {axis: bounds.get(axis, ANY_SIZE).filled for axis in self._sizes()}
        least = {axis: limits.low for axis, limits in filled.items()}
        alone = ({**least, axis: size} for axis in least for size in _small_sizes(filled[axis])[1:])
        small_guards = self._guards_on_small([least], [*alone, *self._diagonal(max(least.values(), default=0) + 1)])
        if small_guards and self._agrees([least], small_guards):
            self._drop(small_guards)

    def _diagonal(self, first: int) -> list[dict[str, int]]:
        """Return points with all axes equal, from `first` on, or as near to that as their bounds allow.
        At smaller ones the sizes inside a program may be 0, and any guard may break."""
        bounds = {axis: self.signature.bounds.get(axis, ANY_SIZE) for axis in self._sizes()}
        step = max((limits.step for limits in bounds.values()), default=1)
        sizes = range(first, first + _SEARCH_LIMIT * step, step)
        return [{axis: limits.at_least(size) for axis, limits in bounds.items()} for size in sizes]

    def _guards_on_small(self, points: Sequence[Mapping[str, int]], beyond: Sequence[Mapping[str, int]]) -> set[str]:
        """Return the guards that break at some of the points, and at none of those beyond."""
        broken = {guard for sizes in points for guard in self._broken(sizes)}
        return broken - {guard for sizes in beyond for guard in self._broken(sizes, broken)}

    def _drop(self, guards: set[str]) -> None:
        self.guards[:] = [guard for guard in self.guards if guard not in guards]

    def _is_open(self, axis: str, size: int) -> bool:
        low, _ = ranges(self.program, self.signature)[axis]
        return (low <= _SMALLEST_TRACED or size >= low) and not self._broken(self._points(axis, size)[0])

    @staticmethod
    def _from(former: _Ranges, size: int) -> _Ranges:
        return {
            symbol: private_torch.ValueRanges(max(size, _SMALLEST_TRACED), limits.upper)
            for symbol, limits in former.items()
        }

    def _sources(self, axis: str) -> list[str]:
        """Return torch's expressions for the axis in the inputs."""
        return [source for name, source, _ in symbols_of(self.program, self.signature) if name == axis]

    def _sizes(self, batch: int = TRIAL_BATCH) -> dict[str, int]:
        return example_sizes(self.signature.inputs, batch)

    def _points(self, axis: str, size: int) -> list[dict[str, int]]:
        """Return the axis at a size and the others at distinct sizes, and the same in a batch of one.
        The batch of one is left out if a guard on other axes forbids it."""
        in_batch, alone = ({**self._sizes(batch), axis: size} for batch in (TRIAL_BATCH, 1))
        sources = self._sources(axis)
        free = all(any(source in guard for source in sources) for guard in self._broken(alone))
        return [in_batch, alone] if free and alone != in_batch else [in_batch]

    def _broken(self, sizes: Mapping[str, int], guards: Collection[str] | None = None) -> list[str]:
        """Return the guards, by default of all, that do not hold at these sizes."""
        known = ((text, self._read(text)) for text in (self.guards if guards is None else guards))
        return [text for text, guard in known if guard is not None and not guard.holds(sizes)]

    def _agrees(self, points: Sequence[Mapping[str, int]], small_guards: set[str]) -> bool | None:
        """Return whether the program, without `small_guards`, accepts these sizes and answers as the model does.
        None if the model gives no answer."""
        unguarded = self.program.module(check_guards=False)
        for sizes in points:
            if set(self._broken(sizes)) - small_guards:
                return False
            agree = answers_alike(unguarded, self.model, self.signature, sizes)
            if not agree:
                return agree
        return True
