"""The constants of a model as variables, so that the graph stays small and is saved apart from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...models.signature import Array
from ..patches import private_tensorflow
from .lazy_tensorflow import tf
from .narrow_dtypes import CARRIERS

# Shorter arrays stay in the graph: shapes, axes, single numbers that converters want to read.
LEAST_ELEMENTS = 64
LEAST_INTEGERS = 4096


class Weights:
    """The variables of one lowered model, in the order in which its operators ask for them."""

    def __init__(self, names: Mapping[str, Array]) -> None:
        self.variables: list[Any] = []
        self._names = {id(array): name for name, array in names.items()}
        self._held: dict[tuple[Any, ...], tuple[Array, Any]] = {}

    def hold(
        self,
        array: Array,
        order: Sequence[int] = (),
        shape: Sequence[int] = (),
        part: int | None = None,
        *,
        hidden: bool = False,
    ) -> Any:
        """Return an array, or one part of it along axis 0, as a tensor.

        Its axes are put in `order` and then into `shape` where these are given. The same array with the same arguments
        is held once. A `hidden` one is a variable even where it is short.
        """
        if tf.executing_eagerly():  # folding: the tensor lives only for a moment
            return tf.constant(_arranged(array, order, shape, part))
        in_graph = _short(array, part) and not hidden
        key = (id(array), tuple(order), tuple(shape), part, in_graph)
        if key not in self._held:
            arranged = _arranged(array, order, shape, part)
            self._held[key] = (array, arranged if in_graph else self._variable(array, arranged))
        return tf.convert_to_tensor(self._held[key][1])

    def _variable(self, array: Array, arranged: Array) -> Any:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", self._names.get(id(array), "folded"))
        # tf.Variable would be intercepted by the tf.function around, which then traces everything a second time.
        with tf.init_scope():
            variable = private_tensorflow.ResourceVariable(
                arranged, trainable=False, name=f"w{len(self.variables)}_{name}"
            )
        self.variables.append(variable)
        return variable


def _short(array: Array, part: int | None) -> bool:
    """Return whether an array stays in the graph unless it is to be hidden."""
    integers = np.dtype(CARRIERS.get(array.dtype.name, array.dtype)).kind in "iub"
    piece = array if part is None else array[part]
    return piece.size < (LEAST_INTEGERS if integers else LEAST_ELEMENTS)


def _arranged(array: Array, order: Sequence[int], shape: Sequence[int], part: int | None) -> Array:
    piece = array if part is None else array[part]
    moved = np.transpose(piece, order) if len(order) else piece
    wide = np.asarray(moved, CARRIERS.get(array.dtype.name), order="C")
    return wide.reshape(shape or wide.shape)
