"""Whether the model's answers to inputs that no sample holds tell anything of its copies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar, overload

import numpy as np

from ..signature import Array, TensorSpec

Answers: TypeAlias = Mapping[str, Array]  # outputs of one call, by name
Series: TypeAlias = Sequence[Answers]  # of one call after another

_T = TypeVar("_T")

_LARGER = 4  # times the usual size of an output: the model takes the values for sizes
_SMALL = 256  # elements: an output of so many is never too large


class CallSequence(Sequence[_T]):
    """Items of one call after another, each made when it is read; none is kept."""

    @abstractmethod
    def read_call(self, number: int) -> _T:
        """Return the item of a call, 0 <= number < len(self)."""

    @overload
    def __getitem__(self, at: int) -> _T: ...
    @overload
    def __getitem__(self, at: slice) -> list[_T]: ...
    def __getitem__(self, at: int | slice) -> _T | list[_T]:
        """Return the item of one call, or a list of those of several. Raises IndexError where there is no such call."""
        numbers = range(len(self))[at]
        return self.read_call(numbers) if isinstance(numbers, int) else [self.read_call(number) for number in numbers]


def unlike(usual: Series, answers: Series) -> str | None:
    """Say why the answers tell nothing: an output has grown, or is not finite where the usual one is."""
    for name in answers[0]:
        before, here = ([call[name] for call in calls] for calls in (usual, answers))
        most = max(array.size for array in before)
        if max(array.size for array in here) > max(_LARGER * most, _SMALL):
            return f"the output {name} grows with what is put in"
        if all(np.isfinite(array).all() for array in before) and not all(np.isfinite(array).all() for array in here):
            return f"the output {name} is not finite"
    return None


def nothing_finite(answers: Series) -> str | None:
    """Say that nothing in the answers is finite, where that is so: any copy that is broken agrees with them."""
    if any(np.isfinite(array).any() for call in answers for array in call.values() if array.dtype.kind == "f"):
        return None
    return "nothing in the answer is finite"


def is_level(usual: Series, answers: Series) -> bool:
    """Return whether no answer is much larger than the usual ones.
    An output is compared as a whole: only then does a wrong value not hide behind large ones."""
    return all(_largest(answers, name) <= _LARGER * _largest(usual, name) for name in answers[0])


def _largest(calls: Series, name: str) -> float:
    return max(float(np.max(np.abs(call[name].astype(np.float64)), initial=0.0)) for call in calls)


def contradiction(outputs: Sequence[TensorSpec], answers: Series) -> str | None:
    """Say how answers contradict the model's own signature, which some files give wrongly for all answers.

    Of a picture smaller than its kernel TensorFlow's convolution gives what lay in memory, in the shape of the picture.
    """
    for call in answers:
        for spec in outputs:
            shape = call[spec.name].shape
            known = [(size, axis) for size, axis in zip(shape, spec.shape, strict=False) if isinstance(axis, int)]
            if len(shape) != len(spec.shape) or any(size != axis for size, axis in known):
                return f"its answer has the shape {[*shape]}, where it says {spec}"
    return None


def is_filled(answers: Answers) -> bool:
    """Return whether each output holds anything to compare.
    Of a picture smaller than a kernel runtimes leave nothing, or raise an error."""
    return all(array.size for array in answers.values())
