"""Several indices at once (`h[rows, lengths - 1]`) for torch's older exporter, which counts none from the end: it makes
one place of them by their products, and a negative one so becomes another row's."""

from __future__ import annotations

from typing import Any

from .. import private_torch
from ..torch_shared.traced_symbolics import constant, helper, register


def mend_places() -> None:
    """Register the right form for every later export of this process."""
    register({"aten::index": _index})


def _index(g: Any, self: Any, places: Any) -> Any:
    given = helper._unpack_list(places) if helper._is_packed_list(places) else [places]
    if sum(not helper._is_none(each) for each in given) > 1:
        counted = [_from_the_front(g, self, axis, each) for axis, each in enumerate(given)]
        places = g.op("prim::ListConstruct", *counted)
    return private_torch.symbolic_opset11.index(g, self, places)


def _from_the_front(g: Any, self: Any, axis: int, places: Any) -> Any:
    """The places along an axis, those below 0 counted from its end; a mask as it is."""
    if helper._is_none(places) or helper._is_bool(places) or _never_negative(places):
        return places
    size = g.op("Gather", g.op("Shape", self), constant(g, axis), axis_i=0)
    size, zero = (g.op("CastLike", each, places) for each in (size, constant(g, 0)))
    return g.op("Where", g.op("Less", places, zero), g.op("Add", places, size), places)


def _never_negative(places: Any) -> bool:
    node = places.node()
    while node.kind() in ("onnx::Cast", "onnx::Unsqueeze"):
        node = node.inputsAt(0).node()
    if node.kind() == "onnx::Range":
        first, step = node.inputsAt(0).node(), node.inputsAt(2).node()
        return all(each.kind() == "onnx::Constant" and bool(each.t("value") >= 0) for each in (first, step))
    return node.kind() == "onnx::Constant" and bool((node.t("value") >= 0).all())
