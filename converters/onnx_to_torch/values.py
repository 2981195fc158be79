"""What flows between operators while a module is written.

A value is known (an array: a weight, or folded while writing), made of sizes (an array of whole numbers that the
module's Python code computes, so that torch.export keeps dynamic axes), or computed (a tensor, in a variable of
`forward`).
Beside its code every value has a trial tensor: the code, run on tensors without data whose dynamic axes are symbols.
So dtype, rank and known sizes of everything are PyTorch's own, and not a second opinion about them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...models.signature import Array
from .safe_names import scalar

if TYPE_CHECKING:
    import torch

    from .module_writer import Page


@dataclass(frozen=True, slots=True)
class Size:
    """A whole number, or a yes or no about some, that is known only when the module runs: its Python code, and a
    torch.SymInt or torch.SymBool."""

    code: str
    trial: Any

    def __str__(self) -> str:
        return self.code

    @property
    def atom(self) -> str:
        """Its code, as a part of a larger expression."""
        return self.code if re.fullmatch(r"[\w.\[\]]+", self.code) else f"({self.code})"


Part: TypeAlias = int | Size  # int: bool too
Parts: TypeAlias = npt.NDArray[np.object_]  # of Part
_MOST_PARTS = 4096  # elements: what is larger comes of no shape
_MOST_WHOLE = 2**62  # what is larger is no bound of a size


def atom(part: Part) -> str:
    """The code of a size, as a part of a larger expression."""
    return part.atom if isinstance(part, Size) else str(part)


def listed(parts: Sequence[Part]) -> str:
    """Sizes as a Python tuple, or as one number where there is one."""
    return str(parts[0]) if len(parts) == 1 else f"({', '.join(map(str, parts))})"


class Value:
    """One value of the model. In an f-string it is the code of its tensor."""

    __slots__ = ("_code", "array", "dtype", "name", "page", "parts", "shape", "some_parts", "trial")

    def __init__(
        self,
        page: Page,
        dtype: str,
        shape: tuple[int | None, ...],
        *,
        code: str = "",
        trial: torch.Tensor | None = None,
        array: Array | None = None,
        parts: Parts | None = None,
        name: str = "",
    ) -> None:
        self.page = page
        self.dtype = dtype  # a numpy name, and torch's too
        self.shape = shape  # None is a size known only when the module runs
        self.array = array
        self.parts = parts
        self.some_parts: Sequence[Part | None] = ()  # of a computed vector that holds sizes beside other numbers
        self.trial = trial
        self.name = name  # what a weight is called in the ONNX file
        self._code = code

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def known_array(self) -> Array:
        """The array of a value that is known."""
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
        """The code of the tensor: a variable, or an attribute of the module."""
        if not self._code:
            held = self.page.hold(self) if self.array is not None else self.page.stack(self)
            self._code, self.trial = held
        return self._code

    def size(self, axis: int) -> Part:
        """The size of an axis."""
        known = self.shape[axis]
        if known is not None:
            return known
        code = str(self)
        trial: Any = self.trial
        return self.page.part(f"{code}.shape[{axis % self.rank}]", trial.shape[axis])

    def sizes(self) -> list[Part]:
        """The size of each axis."""
        return [self.size(axis) for axis in range(self.rank)]

    def elements(self) -> Parts | None:
        """Whole numbers, in whatever dtype, or yes and no: in the value's shape, where they are known as such."""
        if self.parts is not None or self.array is None or self.array.size > _MOST_PARTS:
            return self.parts
        if self.dtype in ("float32", "float64"):
            whole = np.all((np.trunc(self.array) == self.array) & (np.abs(self.array) <= _MOST_WHOLE))
            return self.array.astype(np.int64).astype(object) if whole else None
        return self.array.astype(object) if self.array.dtype.kind in "iub" else None

    def size_parts(self) -> tuple[Part, ...] | None:
        """The elements of a vector or scalar of integers, where they are known as such."""
        found = self.elements() if "int" in self.dtype and self.rank < 2 else None
        return None if found is None else tuple(found.reshape(-1))


def known(page: Page, array: Array, name: str = "") -> Value:
    """A value that is known while the module is written."""
    array = np.asarray(array)
    return Value(page, array.dtype.name, array.shape, array=array, name=name)


def of_sizes(page: Page, parts: Sequence[Part] | Parts, dtype: str = "int64") -> Value:
    """A vector of sizes, or an array of them in another shape; known as a whole where every element is."""
    held = parts if isinstance(parts, np.ndarray) else as_parts(parts, (len(parts),))
    if all(isinstance(each, int) for each in held.reshape(-1)):
        return known(page, held.astype(dtype))
    return Value(page, dtype, held.shape, parts=held)


def as_parts(parts: Sequence[Part], shape: tuple[int, ...] = ()) -> Parts:
    """An array of sizes; of one alone, unless a shape is given."""
    held = np.empty(len(parts), object)
    held[:] = parts
    return held.reshape(shape)


def computed(page: Page, code: str, trial: torch.Tensor) -> Value:
    """A tensor that lies in a variable."""
    shape = tuple(_known_size(size) for size in trial.shape)
    return Value(page, str(trial.dtype).removeprefix("torch."), shape, code=code, trial=trial)


def _known_size(size: Any) -> int | None:
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else None
