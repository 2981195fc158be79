"""Embedding bags for torch's dynamo exporter, whose own form is a loop that fills a sequence: a step for each bag, and
no sequence can be carried into TensorFlow where the number of bags shows only as the model runs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from .script import Translations, op

_SUM, _MEAN, _MAX = 0, 1, 2
_INT64 = 7  # onnx.TensorProto's


def bags() -> Translations:
    """Forms without a loop: a part of the exporter's `custom_translation_table`."""
    import torch

    aten: Any = torch.ops.aten
    return {
        aten.embedding_bag.default: _embedding_bag,
        aten.embedding_bag.padding_idx: _embedding_bag_from_the_end,
        aten._embedding_bag.default: _embedding_bag,
        aten._embedding_bag_forward_only.default: _embedding_bag,
    }


def _embedding_bag_from_the_end(weight: Any, *others: Any, **named: Any) -> Any:
    """The operator that a person calls: its padding may be counted from the end of the table, or None."""
    given = inspect.signature(_embedding_bag).bind(weight, *others, **named).arguments
    padding = given.get("padding_idx")
    return _embedding_bag(**{**given, "padding_idx": -1 if padding is None else padding % weight.shape[0]})


def _embedding_bag(  # noqa: PLR0917  (the operator's own arguments, of which two are for training)
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,  # noqa: ARG001
    mode: int = _SUM,
    sparse: bool = False,  # noqa: ARG001
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:
    """The rows (items, width) of a table, and of each bag (its first item at `offsets`) their sum, mean or largest:
    (bags, width); zeros for a bag without items. Then the bag of each item, the items of each bag, and what only a
    backward pass reads: PyTorch's for a sum."""
    number = op.Shape(offsets)
    if include_last_offset:
        number = op.Sub(number, [1])
        if mode != _SUM or padding_idx >= 0:  # a kernel that has what lies past the end in the last bag all the same
            offsets = op.Slice(offsets, [0], number, [0])
    of_each = _bag_of_each(op.Shape(indices), offsets)
    if padding_idx >= 0:
        of_each = op.Where(op.Equal(indices, op.CastLike(op.Constant(value_int=padding_idx), indices)), number, of_each)
    rows = op.Gather(weight, indices)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, [1]))
    counts, pooled = _Bags(of_each, number).pooled(rows, mode)
    return pooled, of_each, counts, op.Mul(counts, [0])


def _bag_of_each(items: Any, offsets: Any) -> Any:
    """One less than the number of bags that begin at an item or before it: a bag too many where the last offset is an
    end, and an item lies past it."""
    begun = op.Expand([0], op.Add(items, [1]))
    at = op.Unsqueeze(op.Cast(offsets, to=_INT64), [1])
    begun = op.ScatterND(begun, at, op.Expand([1], op.Shape(offsets)), reduction="add")
    return op.Slice(op.Sub(op.CumSum(begun, op.Constant(value_int=0)), [1]), [0], items, [0])


@dataclass(frozen=True)
class _Bags:
    of_each: Any  # item, its bag: (items,)
    number: Any

    def pooled(self, rows: Any, mode: int) -> tuple[Any, Any]:
        """How many items each bag has, and what it makes of their rows."""
        counts = self._reduced(op.Expand([1], op.Shape(self.of_each)), "add", op.Constant(value_int=0))
        zero = op.CastLike(op.Constant(value_float=0.0), rows)
        if mode == _MAX:
            largest = self._reduced(rows, "max", op.CastLike(op.Constant(value_float=float("-inf")), rows))
            return counts, op.Where(op.Unsqueeze(op.Equal(counts, op.Constant(value_int=0)), [1]), zero, largest)
        total = self._reduced(rows, "add", zero)
        if mode == _MEAN:
            total = op.Div(total, op.CastLike(op.Unsqueeze(op.Max(counts, op.Constant(value_int=1)), [1]), rows))
        return counts, total

    def _reduced(self, each: Any, how: str, empty: Any) -> Any:
        """What each item has, in its bag. One bag more takes what belongs to none."""
        shape = op.Concat(op.Add(self.number, [1]), op.Shape(each, start=1), axis=0)
        all_of_them = op.ScatterND(op.Expand(empty, shape), op.Unsqueeze(self.of_each, [1]), each, reduction=how)
        return op.Slice(all_of_them, [0], self.number, [0])
