"""What flows between operators while a module is written: expressions of the generated module.

An expression is known (an array: a weight, or folded while writing), made of sizes (an array of whole numbers that the
module's Python code computes, so that torch.export keeps dynamic axes), or computed (a tensor, in a variable of
`forward`). Beside its code it has a trial tensor: the code, run on tensors without data whose dynamic axes are symbols.
So dtype, rank and known sizes are PyTorch's own, and not a second opinion about them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ...models.signature import Array
from .lazy_torch import torch
from .safe_names import scalar


@dataclass(frozen=True, slots=True)
class SymbolicSize:
    """A whole number or a condition that is known only when the module runs."""

    code: str
    trial: Any  # a torch.SymInt or torch.SymBool

    def __str__(self) -> str:
        return self.code


SizeTerm: TypeAlias = int | SymbolicSize  # an int may be a bool
SizeTerms: TypeAlias = npt.NDArray[np.object_]  # of SizeTerm
_MOST_PARTS = 4096  # elements: a larger array does not come from a shape
_MOST_WHOLE = 2**62  # a larger number is no bound of a size


def atom(part: SizeTerm) -> str:
    """Return the code of a size, as a part of a larger expression."""
    return f"{part}" if isinstance(part, int) or re.fullmatch(r"[\w.\[\]]+", part.code) else f"({part})"


def as_tuple(parts: Sequence[object]) -> str:
    """Return expressions or sizes as the code of a tuple."""
    return f"({', '.join(map(str, parts))}{',' if len(parts) == 1 else ''})"


class ExpressionWriter(Protocol):
    """What an expression asks of the writer of its module."""

    scope: dict[str, Any]  # the trials, by name

    def hold(self, value: Expression) -> tuple[str, torch.Tensor]:
        """Return the attribute that holds a known value, and its trial."""

    def stack(self, value: Expression) -> tuple[str, torch.Tensor]:
        """Return a variable that has sizes as a tensor, and its trial."""

    def part(self, code: str, trial: Any) -> SizeTerm:
        """Return a size by its shortest name."""

    def at_least(self, part: SizeTerm, number: int) -> bool:
        """Return whether a size is always `number` or more."""


@dataclass(slots=True, eq=False, repr=False)
class Expression:
    """One value of the model as an expression of the module. In an f-string it is the code of its tensor."""

    writer: ExpressionWriter
    dtype: str  # a numpy name, and torch's too
    shape: tuple[int | None, ...]  # None is a size known only when the module runs
    code: str = ""  # of its tensor, once it has one
    trial: torch.Tensor | None = None
    array: Array | None = None
    parts: SizeTerms | None = None
    name: str = ""  # what a weight is called in the ONNX file
    some_parts: Sequence[SizeTerm | None] = ()  # of a computed vector that holds sizes beside other numbers

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def known_array(self) -> Array:
        """The array of an expression that is known. Raises ValueError for others."""
        if self.array is None:
            raise ValueError(f"{self} is computed when the module runs")
        return self.array

    @property
    def scalar(self) -> str | None:
        """A known value of one element as a Python literal."""
        if self.array is None or self.array.size != 1:
            return None
        return scalar(self.array.reshape(()).item(), self.dtype)

    def __str__(self) -> str:
        """Return the code of the tensor: a variable, or an attribute of the module."""
        if not self.code:
            self.code, self.trial = self.writer.hold(self) if self.array is not None else self.writer.stack(self)
        return self.code

    def size(self, axis: int) -> SizeTerm:
        """Return the size of an axis."""
        known = self.shape[axis]
        if known is not None:
            return known
        code = str(self)
        trial: Any = self.trial
        return self.writer.part(f"{code}.shape[{axis % self.rank}]", trial.shape[axis])

    def sizes(self) -> list[SizeTerm]:
        """Return the size of each axis."""
        return [self.size(axis) for axis in range(self.rank)]

    def elements(self) -> SizeTerms | None:
        """Return the elements in their shape, where they are known as whole numbers or conditions, in any dtype."""
        if self.parts is not None or self.array is None or self.array.size > _MOST_PARTS:
            return self.parts
        if self.dtype in ("float32", "float64"):
            are_whole = np.all((np.trunc(self.array) == self.array) & (np.abs(self.array) <= _MOST_WHOLE))
            return self.array.astype(np.int64).astype(object) if are_whole else None
        return self.array.astype(object) if self.array.dtype.kind in "iub" else None

    def size_parts(self) -> tuple[SizeTerm, ...] | None:
        """Return the elements of a vector or scalar of integers, where they are known as such."""
        elements = self.elements() if "int" in self.dtype and self.rank < 2 else None
        return None if elements is None else tuple(elements.reshape(-1))


class ExpressionSequence(Expression):
    """Tensors of one dtype in a row. Whoever takes it for a tensor is refused."""

    __slots__ = ("tensors",)

    def __init__(self, writer: ExpressionWriter, dtype: str, tensors: Sequence[Expression]) -> None:
        super().__init__(writer, dtype, ())
        self.tensors = tuple(tensors)

    def __copy__(self) -> ExpressionSequence:
        """Return the sequence with copies of its tensors."""
        return ExpressionSequence(self.writer, self.dtype, [copy(tensor) for tensor in self.tensors])

    def __str__(self) -> str:
        """Raise ValueError: a sequence has no code."""
        raise ValueError("a sequence of tensors stands where one tensor is needed")


class LoopSequence(ExpressionSequence):
    """What a loop appended: tensors of one shape, whose number is known only after the loop."""

    __slots__ = ("stack",)

    def __init__(self, stack: Expression) -> None:
        super().__init__(stack.writer, stack.dtype, ())
        self.stack = stack  # the steps along its first axis

    def __copy__(self) -> LoopSequence:
        """Return the sequence with a copy of its stack."""
        return LoopSequence(copy(self.stack))


def known(writer: ExpressionWriter, array: Array, name: str = "") -> Expression:
    """Return an expression that is known while the module is written."""
    array = np.asarray(array)
    return Expression(writer, array.dtype.name, array.shape, array=array, name=name)


def express_sizes(writer: ExpressionWriter, parts: Sequence[SizeTerm] | SizeTerms, dtype: str = "int64") -> Expression:
    """Return a vector of sizes, or an array of them in another shape; known as a whole where every element is."""
    held = parts if isinstance(parts, np.ndarray) else express_size_terms(parts, (len(parts),))
    if all(isinstance(part, int) for part in held.reshape(-1)):
        return known(writer, held.astype(dtype))
    return Expression(writer, dtype, held.shape, parts=held)


def express_size_terms(parts: Sequence[SizeTerm], shape: tuple[int, ...] = ()) -> SizeTerms:
    """Return an array of sizes; of one alone, unless a shape is given."""
    held = np.empty(len(parts), object)
    held[:] = parts
    return held.reshape(shape)


def computed(writer: ExpressionWriter, code: str, trial: torch.Tensor) -> Expression:
    """Return the expression of a tensor that lies in a variable."""
    shape = tuple(_known_size(size) for size in trial.shape)
    return Expression(writer, str(trial.dtype).removeprefix("torch."), shape, code=code, trial=trial)


def _known_size(size: Any) -> int | None:
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else None
