"""The sizes that a program of torch.export is for, beside those that its model is for.

torch.export takes a size of 1 for a constant wherever one is, inside of a program too, and leaves out whatever leads
there: of four frames two strides leave one, so the program is for five and more. Mostly that tells how it traces, and
nothing of the model. So the program is asked at those sizes without its guards: where it answers as the model does, it
is for them, and where it does not, its bounds say so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...models.probes.sizes import example_sizes
from ...models.signature import ANY_SIZE, Bounds, Signature, TensorSpec
from .export_reasons import answers, ranges
from .guards import Guard, answers_alike, read_guard

if TYPE_CHECKING:
    import torch

_TRACED = 2  # the least size that torch.export gives an axis; a program answers at 1, too, unless a guard forbids it
_FARTHEST = 64  # a program for larger sizes alone keeps its guards
_BEYOND = 1025  # up to here a guard is asked whether it forbids anything but small sizes
_BATCH = 2


def settle(program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature) -> Signature:
    """The signature with the bounds that the program has. Those that come of tracing alone are taken off it."""
    trial, narrow = _Trial(program, model, signature), dict[str, Bounds]()
    for axis in ranges(program, signature):
        if (least := trial.lowered(axis)) is not None:
            narrow[axis] = Bounds(least, signature.bounds.get(axis, ANY_SIZE).high)
    trial.free_the_least(narrow)
    for axis, (_, high) in ranges(program, signature).items():
        own = narrow.get(axis, signature.bounds.get(axis, ANY_SIZE))
        if high is not None and (own.high is None or high < own.high) and answers(model, signature, axis, high + 1):
            narrow[axis] = Bounds(own.low, high)
    return replace(signature, inputs=tuple(_bounded(spec, narrow) for spec in signature.inputs))


def _bounded(spec: TensorSpec, narrow: Mapping[str, Bounds]) -> TensorSpec:
    own = {**dict(spec.bounds), **{axis: each for axis, each in narrow.items() if axis in spec.shape}}
    return replace(spec, bounds=tuple(own.items()))


class _Trial:
    """A program held against its model at sizes that its guards leave out."""

    def __init__(self, program: torch.export.ExportedProgram, model: torch.nn.Module, signature: Signature) -> None:
        self.program, self.model, self.signature = program, model, signature
        self.guards: list[str] = getattr(program, "_guards_code", None) or []
        self._names = [str(name) for name in program.graph_signature.user_inputs]
        self._known: dict[str, Guard | None] = {}  # each is asked at many sizes

    def lowered(self, axis: str) -> int | None:
        """Let the program answer at the sizes below its first one, down to where it no longer does as the model does.

        Returns that size where the model answers below it, too.
        """
        least = self.signature.bounds.get(axis, ANY_SIZE).low
        first = next((size for size in range(least, _FARTHEST) if self._is_open(axis, size)), None)
        if first is None or first == least:
            return None
        beyond = [*({**self._sizes(_BATCH), axis: size} for size in range(first, _BEYOND)), *self._alike(first)]
        small = self._of_small([each for size in range(least, first) for each in self._points(axis, size)], beyond)
        former = self._opened(axis)
        size, right = first, None
        while size > least and (right := self._agrees(self._points(axis, size - 1), small)):
            size -= 1
        self.program.range_constraints.update(former if size == first else self._from(former, size))
        if size < first:
            self._drop(small)
        if size in range(least + 1, first):
            self.guards += [f"{source} >= {size}" for source in self._sources(axis)]
        return size if right is False else None

    def free_the_least(self, narrow: Mapping[str, Bounds]) -> None:
        """Drop guards that forbid nothing but that several axes have their least sizes."""
        bounds = {**self.signature.bounds, **narrow}
        least = {axis: bounds.get(axis, ANY_SIZE).filled.low for axis in self._sizes(_BATCH)}
        alone = ({**least, axis: size} for axis in least for size in range(least[axis] + 1, _FARTHEST))
        small = self._of_small([least], [*alone, *self._alike(max(least.values(), default=0) + 1)])
        if small and self._agrees([least], small):
            self._drop(small)

    def _alike(self, first: int) -> list[dict[str, int]]:
        """All axes of one size, from `first` on, or as near to it as their bounds allow: below these the sizes inside
        a program may be 0, and any guard broken."""
        bounds = {axis: self.signature.bounds.get(axis, ANY_SIZE) for axis in self._sizes(_BATCH)}
        sizes = range(first, _FARTHEST + first)
        return [{axis: own.nearest(size) for axis, own in bounds.items()} for size in sizes]

    def _of_small(self, points: Sequence[Mapping[str, int]], beyond: Sequence[Mapping[str, int]]) -> set[str]:
        """The guards that do not hold at some of the points, and at all of those beyond."""
        broken = {guard for sizes in points for guard in self._broken(sizes)}
        return broken - {guard for sizes in beyond for guard in self._broken(sizes, broken)}

    def _drop(self, guards: set[str]) -> None:
        self.guards[:] = [guard for guard in self.guards if guard not in guards]

    def _is_open(self, axis: str, size: int) -> bool:
        low, _ = ranges(self.program, self.signature)[axis]
        return (low <= _TRACED or size >= low) and not self._broken(self._points(axis, size)[0])

    def _opened(self, axis: str) -> dict[Any, Any]:
        """Take the least size off the axis; what it was."""
        former = {symbol: self.program.range_constraints[symbol] for symbol in self._symbols(axis)}
        self.program.range_constraints.update(self._from(former, _TRACED))
        return former

    @staticmethod
    def _from(former: Mapping[Any, Any], size: int) -> dict[Any, Any]:
        from torch.utils._sympy.value_ranges import ValueRanges

        return {symbol: ValueRanges(max(size, _TRACED), each.upper) for symbol, each in former.items()}

    def _symbols(self, axis: str) -> set[Any]:
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        found = (
            nodes[name].meta["val"].shape[at].node.expr
            for name, spec in zip(self._names, self.signature.inputs, strict=True)
            for at, each in spec.dynamic_axes.items()
            if each == axis and not isinstance(nodes[name].meta["val"].shape[at], int)
        )
        return {symbol for symbol in found if symbol in self.program.range_constraints}

    def _sources(self, axis: str) -> Iterator[str]:
        """Where the axis is in the inputs, in torch's words."""
        for name, spec in zip(self._names, self.signature.inputs, strict=True):
            yield from (f"L['{name}'].size()[{at}]" for at, each in spec.dynamic_axes.items() if each == axis)

    def _sizes(self, batch: int) -> dict[str, int]:
        return example_sizes(self.signature.inputs, batch)

    def _points(self, axis: str, size: int) -> list[dict[str, int]]:
        """An axis at a size and the others at sizes of their own; then, unless a guard on that alone forbids it, in a
        batch of one."""
        whole, one = ({**self._sizes(batch), axis: size} for batch in (_BATCH, 1))
        sources = list(self._sources(axis))
        alone = all(any(source in guard for source in sources) for guard in self._broken(one))
        return [whole, one] if alone and one != whole else [whole]

    def _broken(self, sizes: Mapping[str, int], guards: Collection[str] | None = None) -> list[str]:
        """The guards, of all of them unless some are given, that do not hold at these sizes."""
        known = ((text, self._guard(text)) for text in (self.guards if guards is None else guards))
        return [text for text, guard in known if guard is not None and not guard.holds(sizes)]

    def _guard(self, text: str) -> Guard | None:
        if text not in self._known:
            self._known[text] = read_guard(text, self._names, self.signature)
        return self._known[text]

    def _agrees(self, points: Sequence[Mapping[str, int]], small: set[str]) -> bool | None:
        """Whether the program, without the guards of `small` sizes, is for these sizes and answers as the model does;
        None where the model gives no answer."""
        unguarded = self.program.module(check_guards=False)
        for sizes in points:
            if set(self._broken(sizes)) - small:
                return False
            alike = answers_alike(unguarded, self.model, self.signature, sizes)
            if not alike:
                return alike
        return True
