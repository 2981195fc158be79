"""Whether a place that `locate` names is where a copy was made wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from onnx_edit import Site

# PyTorch's operators that an exporter writes as an operator of another name, or folds into it.
_WRITTEN_AS = {
    "Conv": ("conv2d", "conv1d", "convolution", "batch_norm"), "convolution": ("conv2d", "conv1d"),
    "Gemm": ("linear", "addmm"),
    "MatMul": ("linear", "matmul", "bmm"), "Gather": ("embedding", "index", "gather", "index_select"),
    "Clip": ("hardtanh", "clamp", "relu6"), "Resize": ("upsample", "interpolate"), "DepthToSpace": ("pixel_shuffle",),
    "LayerNormalization": ("layer_norm",), "InstanceNormalization": ("instance_norm", "group_norm"),
    "Reshape": ("reshape", "flatten", "view"), "Where": ("where", "masked_fill"), "Floor": ("upsample", "floor"),
    "Slice": ("slice", "flip", "narrow"), "AveragePool": ("avg_pool",), "ReduceMean": ("mean", "var"),
    "ReduceSum": ("sum",), "Sub": ("sub", "rsub", "floor_divide", "div"), "Mod": ("remainder",),
}  # fmt: skip
_OUTSIDE = ("answer", "input", "constant")  # of faults around a model, which no operator of it makes


class Place(Protocol):
    """PlaceFacts of transload."""

    operator: str
    module: str
    line: str
    nodes: tuple[str, ...]


def can_be_located(sites: Sequence[Site]) -> bool:
    """Whether a copy was made wrong at operators of its model."""
    return bool(sites) and not any(site.op_type in _OUTSIDE for site in sites)


def names_operator(place: Place, form: str, sites: Sequence[Site]) -> bool:
    """Whether a place names an operator that was edited. ONNX files keep the names of the nodes; in other formats the
    model's operator counts, at its line or in its module. In a TFLite file that was edited, that is a tensor's name."""
    names = {node.rpartition(" (")[2].rstrip(")") for node in place.nodes}
    if form.partition(":")[0] == "onnx":
        return any(name in {site.operator for site in sites} or re.search(r"_m\d+$", name) for name in names)
    return any(site.operator in names or _is_at(place, site) for site in sites)


def names_line(line: str, sites: Sequence[Site]) -> bool | None:
    """Whether a text names the source line of a site; None where none has one."""
    sources = {site.source.rpartition("/")[2] for site in sites if site.source}
    return any(source in line for source in sources) if sources else None


def _is_at(place: Place, site: Site) -> bool:
    operator = site.op_type.removeprefix("aten::").strip("_")
    written = (operator.lower(), *_WRITTEN_AS.get(operator, ()))
    is_alike = any(word in place.operator or place.operator in word for word in written)
    in_module = bool(site.module) and place.module.endswith(site.module)
    return is_alike and (in_module or bool(names_line(place.line, [site])))
