"""Embedding bags for torch's dynamo exporter, whose own form is a loop that fills a sequence: a step for each bag, and
no sequence can be carried into TensorFlow where the number of bags shows only as the model runs.

Here the bags are the rows of a table that is as wide as the longest is long. A scatter that adds would need no such
table, and ONNX Runtime's is wrong: ScatterND with several threads loses some of what goes to one place (1.31: one call
in ten of 20,000 items of 64 numbers), and ScatterElements took a hundred times as long.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from ..torch_shared.onnxscript_opset import Translations, op

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
    items, number = op.Shape(indices), op.Shape(offsets)
    summed = None
    if include_last_offset:
        number = op.Sub(number, [1])
        if mode == _MEAN and padding_idx < 0:  # one that sums up to the last offset, and divides by all the same
            summed = op.Slice(offsets, [1], op.Add(number, [1]), [0])
        if mode != _SUM or padding_idx >= 0:  # a kernel that has what lies past the end in the last bag all the same
            offsets = op.Slice(offsets, [0], number, [0])
    ends = op.Slice(op.Concat(offsets, op.CastLike(items, offsets), axis=0), [1], op.Add(number, [1]), [0])
    of_each = _bag_of_each(items, offsets)
    if padding_idx >= 0:
        of_each = op.Where(op.Equal(indices, op.CastLike(op.Constant(value_int=padding_idx), indices)), number, of_each)
    starts = op.Slice(offsets, [0], number, [0])
    counts, pooled = _Bags(starts, ends, items, summed).pooled(weight, indices, per_sample_weights, mode, padding_idx)
    return pooled, of_each, counts, op.Mul(counts, [0])


def _bag_of_each(items: Any, offsets: Any) -> Any:
    """One less than the number of bags that begin at an item or before it: a bag too many where the last offset is an
    end, and an item lies past it."""
    begun = op.Expand([0], op.Add(items, [1]))
    ones = op.Expand([1], op.Shape(offsets))
    begun = op.ScatterElements(begun, op.Cast(offsets, to=_INT64), ones, axis=0, reduction="add")
    return op.Slice(op.Sub(op.CumSum(begun, op.Constant(value_int=0)), [1]), [0], items, [0])


@dataclass(frozen=True)
class _Bags:
    """Where each begins and ends: (bags,), how many items there are in all: (1,), and up to where they are summed, if
    that is not the end: (bags,)."""

    starts: Any
    ends: Any
    items: Any
    summed: Any = None

    def pooled(self, weight: Any, indices: Any, factors: Any, mode: int, padding: int) -> tuple[Any, Any]:
        """How many items each bag has, and what it makes of their rows. In the table an item behind the last stands
        wherever a bag has none."""
        at, holds = self._table()
        behind = op.Concat(indices, op.CastLike(op.Constant(value_ints=[0]), indices), axis=0)
        chosen = op.Gather(behind, at)
        if padding >= 0:
            holds = op.And(holds, op.Not(op.Equal(chosen, op.CastLike(op.Constant(value_int=padding), chosen))))
        rows = op.Gather(weight, chosen)  # (bags, longest, width)
        if factors is not None:
            factors = op.Gather(op.Concat(factors, op.CastLike(op.Constant(value_ints=[0]), factors), axis=0), at)
            rows = op.Mul(rows, op.Unsqueeze(factors, [2]))
        counts, held = op.ReduceSum(op.Cast(holds, to=_INT64), [1], keepdims=0), op.Unsqueeze(holds, [2])
        if self.summed is not None:
            counts = op.Cast(op.Sub(self.ends, self.starts), to=_INT64)
        zero, least = (op.CastLike(op.Constant(value_float=each), rows) for each in (0.0, float("-inf")))
        if mode == _MAX:
            largest = op.ReduceMax(op.Where(held, rows, least), [1], keepdims=0)
            return counts, op.Where(op.Unsqueeze(op.Equal(counts, op.Constant(value_int=0)), [1]), zero, largest)
        total = op.ReduceSum(op.Where(held, rows, zero), [1], keepdims=0)
        if mode == _MEAN:
            total = op.Div(total, op.CastLike(op.Unsqueeze(op.Max(counts, op.Constant(value_int=1)), [1]), rows))
        return counts, total

    def _table(self) -> tuple[Any, Any]:
        """Which item is where in each bag: (bags, longest), and whether there is one."""
        last = self.ends if self.summed is None else self.summed
        starts, ends = (op.Unsqueeze(op.Cast(each, to=_INT64), [1]) for each in (self.starts, last))
        lengths = op.Sub(ends, starts)
        longest = op.ReduceMax(op.Concat(op.Squeeze(lengths, [1]), op.Constant(value_ints=[1]), axis=0), keepdims=0)
        places = op.Range(op.Constant(value_int=0), longest, op.Constant(value_int=1))
        holds = op.Less(places, lengths)
        return op.Where(holds, op.Add(starts, places), self.items), holds
