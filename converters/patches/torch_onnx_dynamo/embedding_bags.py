"""Embedding bags for torch's dynamo exporter, as reductions of a table.

The bags are the rows of a table that is as wide as the longest is long. A scatter that adds would need no such table,
and ONNX Runtime's is wrong: ScatterND with several threads loses some of what goes to one place (1.31: one call in ten
of 20,000 items of 64 numbers), and ScatterElements took a hundred times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ledger import translations
from ..torch_shared.dynamo_graph import OnnxValue, op
from ..torch_shared.formulas import INT64

_SUM, _MEAN, _MAX = 0, 1, 2
_Outputs = tuple[OnnxValue, OnnxValue, OnnxValue, OnnxValue]


def _embedding_bag_with_padding(*arguments: Any) -> _Outputs:
    """Translate the operator that a person calls: its padding may be counted from the end of the table, or None."""
    weight, *settings, padding = arguments
    return _embedding_bag(*[weight, *settings, -1 if padding is None else padding % weight.shape[0]])


def _embedding_bag(  # noqa: PLR0917  (the operator's own arguments, of which two are for training)
    weight: OnnxValue,
    indices: OnnxValue,
    offsets: OnnxValue,
    scale_grad_by_freq: bool = False,  # noqa: ARG001
    mode: int = _SUM,
    sparse: bool = False,  # noqa: ARG001
    per_sample_weights: OnnxValue | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> _Outputs:
    """Write the sum, mean or maximum of each bag's rows of a table (items, width), from its first item at `offsets`.

    Returns (bags, width), with zeros for a bag without items; the bag of each item; the items of each bag; and what
    only a backward pass reads: PyTorch's for a sum.
    """
    items, number = op.Shape(indices), op.Shape(offsets)
    sum_ends = None
    if include_last_offset:
        number = op.Sub(number, [1])
        if mode == _MEAN and padding_idx < 0:  # this kernel sums up to the last offset, and divides by all items
            sum_ends = op.Slice(offsets, [1], op.Add(number, [1]), [0])
        if mode != _SUM or padding_idx >= 0:  # these kernels count items past the end to the last bag
            offsets = op.Slice(offsets, [0], number, [0])
    ends = op.Slice(op.Concat(offsets, op.CastLike(items, offsets), axis=0), [1], op.Add(number, [1]), [0])
    bag_of_item = _bag_of_item(items, offsets)
    if padding_idx >= 0:
        is_padding = op.Equal(indices, op.CastLike(op.Constant(value_int=padding_idx), indices))
        bag_of_item = op.Where(is_padding, number, bag_of_item)
    bags = _Bags(op.Slice(offsets, [0], number, [0]), ends, items, sum_ends)
    counts, pooled = bags.pooled(weight, indices, per_sample_weights, mode, padding_idx)
    return pooled, bag_of_item, counts, op.Mul(counts, [0])


def _bag_of_item(items: OnnxValue, offsets: OnnxValue) -> OnnxValue:
    """Write one less than the number of bags that begin at an item or before it.

    It is one bag too many where the last offset is an end, and an item lies past it.
    """
    begins = op.Expand([0], op.Add(items, [1]))
    ones = op.Expand([1], op.Shape(offsets))
    begins = op.ScatterElements(begins, op.Cast(offsets, to=INT64), ones, axis=0, reduction="add")
    return op.Slice(op.Sub(op.CumSum(begins, op.Constant(value_int=0)), [1]), [0], items, [0])


@dataclass(frozen=True)
class _Bags:
    """Where each bag begins and ends: (bags,); the number of items in all: (1,); and up to where the items are summed,
    if that is not the end: (bags,)."""

    starts: OnnxValue
    ends: OnnxValue
    items: OnnxValue
    sum_ends: OnnxValue | None = None

    def pooled(
        self, weight: OnnxValue, indices: OnnxValue, factors: OnnxValue | None, mode: int, padding: int
    ) -> tuple[OnnxValue, OnnxValue]:
        """Write the number of items of each bag, and the reduction of their rows.

        In the table an item behind the last stands wherever a bag has none.
        """
        at, holds = self._table()
        extended = op.Concat(indices, op.CastLike(op.Constant(value_ints=[0]), indices), axis=0)
        chosen = op.Gather(extended, at)
        if padding >= 0:
            holds = op.And(holds, op.Not(op.Equal(chosen, op.CastLike(op.Constant(value_int=padding), chosen))))
        rows = op.Gather(weight, chosen)  # (bags, longest, width)
        if factors is not None:
            factors = op.Gather(op.Concat(factors, op.CastLike(op.Constant(value_ints=[0]), factors), axis=0), at)
            rows = op.Mul(rows, op.Unsqueeze(factors, [2]))
        counts, holds_row = op.ReduceSum(op.Cast(holds, to=INT64), [1], keepdims=0), op.Unsqueeze(holds, [2])
        if self.sum_ends is not None:
            counts = op.Cast(op.Sub(self.ends, self.starts), to=INT64)
        zero, least = (op.CastLike(op.Constant(value_float=value), rows) for value in (0.0, float("-inf")))
        if mode == _MAX:
            largest = op.ReduceMax(op.Where(holds_row, rows, least), [1], keepdims=0)
            return counts, op.Where(op.Unsqueeze(op.Equal(counts, op.Constant(value_int=0)), [1]), zero, largest)
        total = op.ReduceSum(op.Where(holds_row, rows, zero), [1], keepdims=0)
        if mode == _MEAN:
            total = op.Div(total, op.CastLike(op.Unsqueeze(op.Max(counts, op.Constant(value_int=1)), [1]), rows))
        return counts, total

    def _table(self) -> tuple[OnnxValue, OnnxValue]:
        """Write which item is where in each bag: (bags, longest), and whether there is one."""
        last = self.ends if self.sum_ends is None else self.sum_ends
        starts, ends = (op.Unsqueeze(op.Cast(places, to=INT64), [1]) for places in (self.starts, last))
        lengths = op.Sub(ends, starts)
        longest = op.ReduceMax(op.Concat(op.Squeeze(lengths, [1]), op.Constant(value_ints=[1]), axis=0), keepdims=0)
        places = op.Range(op.Constant(value_int=0), longest, op.Constant(value_int=1))
        holds = op.Less(places, lengths)
        return op.Where(holds, op.Add(starts, places), self.items), holds


PATCHES = translations(
    {
        "aten.embedding_bag.default": _embedding_bag,
        "aten.embedding_bag.padding_idx": _embedding_bag_with_padding,
        "aten._embedding_bag.default": _embedding_bag,
        "aten._embedding_bag_forward_only.default": _embedding_bag,
    },
    why="torchlib's form is a loop that fills a sequence: a step for each bag, and no sequence can be carried into "
    "TensorFlow where the number of bags shows only as the model runs",
    upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_embedding_bag",
    until="torchlib writes bags without a loop",
)
