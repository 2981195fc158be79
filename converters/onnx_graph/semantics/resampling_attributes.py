"""Resize, Upsample, GridSample and RoiAlign: how places are mapped, and values between them found.

Before opset 10 Resize was called Upsample, whose scales were an attribute before opset 9. Before opset 11 places were
divided by the scales, and nothing else. Opset 18 added axes, antialias and keep_aspect_ratio_policy.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..node_reader import NodeReader, S, V

COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_IMAGE_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # the names before opset 20


@dataclass(frozen=True, slots=True)
class ResizeMethod:
    """How values between the places are found."""

    mode: str  # nearest, linear or cubic
    coordinates: str
    rounding: str = "floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    outside: float | None = None  # the value outside the axis, where a region is cut out


@dataclass(frozen=True, slots=True)
class ResizeAttributes:
    """What Resize or Upsample says beside its scales and sizes."""

    method: ResizeMethod
    axes: tuple[int, ...]  # the axes that scales and sizes are for
    policy: str  # keep_aspect_ratio_policy
    scales_at: int | None  # the input that has the scales
    scales: tuple[float, ...] | None  # where they are an attribute
    exact_corners: bool  # whether align_corners takes the last corner from the length that was cut to a whole number

    @property
    def by_sizes(self) -> bool:
        """Whether input 3 has the sizes."""
        return self.scales_at is None and self.scales is None


def resize_attributes(op: NodeReader[V, S], dtypes: frozenset[str]) -> ResizeAttributes:
    """Read Resize or Upsample in any wording; other modes than nearest take an input of `dtypes` only.

    Where a length is no whole number, align_corners takes the place of the last corner from it by the specification's
    reference and node tests, and from the whole one by its words, as ONNX Runtime does. A model that PyTorch's exporter
    wrote was trained by the words.
    """
    axes, rank = range(op.value(0).rank), op.value(0).rank
    if op.op_type == "Upsample" or op.version < 11:
        method = ResizeMethod(op.word("mode", "nearest", ("nearest", "linear")), "asymmetric")
        scales = tuple(op.floats("scales")) if op.op_type == "Upsample" and op.version < 9 else None
        if op.op_type == "Resize" and method.mode == "nearest" and min(op.array(1, "scales"), default=1) < 1:
            op.refuse("before opset 11 nothing says which elements are left out", fix="export with opset 11 or newer")
        return ResizeAttributes(method, tuple(axes), "stretch", None if scales else 1, scales, exact_corners=False)
    method = _method(op)
    if method.mode != "nearest" and op.value(0).dtype not in dtypes:
        op.refuse(f"it interpolates {op.value(0).dtype}", fix="cast it to float32 in the model")
    named = tuple(op.placed(axis, rank) for axis in op.ints("axes", axes))
    if method.outside is None:
        op.ignore_input(1, because="only tf_crop_and_resize has a region of interest")
    policy = op.word("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
    # An empty scales or sizes is one that is left out.
    by_scales, by_sizes = (op.has_input(at) and op.value(at).shape != (0,) for at in (2, 3))
    if by_scales is by_sizes:
        op.refuse("it has not just one of scales and sizes", fix="check the model with onnx.checker")
    corners = by_scales and method.coordinates == "align_corners" and bool(str(op.node.origin))
    return ResizeAttributes(method, named, policy, 2 if by_scales else None, None, corners)


def _method(op: NodeReader[V, S]) -> ResizeMethod:
    mode = op.word("mode", "nearest", ("nearest", "linear", "cubic"))
    coordinates = op.word("coordinate_transformation_mode", "half_pixel", COORDINATES)
    antialias, outside = op.flag("antialias"), op.real("extrapolation_value")
    if antialias and mode == "nearest":
        op.refuse(
            "it is the nearest with antialias, for which the specification has no rule", fix="leave antialias out"
        )
    return ResizeMethod(
        mode,
        coordinates,
        op.word("nearest_mode", "round_prefer_floor", ROUNDINGS),
        op.real("cubic_coeff_a"),
        op.flag("exclude_outside"),
        antialias,
        outside if coordinates == "tf_crop_and_resize" else None,
    )


@dataclass(frozen=True, slots=True)
class GridSampleAttributes:
    """How GridSample reads between elements and beyond the border."""

    mode: str  # linear, nearest or cubic
    padding: str  # zeros, border or reflection
    align_corners: bool


def grid_sample_attributes(op: NodeReader[V, S]) -> GridSampleAttributes:
    """Read GridSample: before opset 20 the modes had the names that they have for images."""
    names = ("linear", "nearest", "cubic") if op.version >= 20 else ("bilinear", "nearest", "bicubic")
    mode = op.word("mode", names[0], names)
    padding = op.word("padding_mode", "zeros", ("zeros", "border", "reflection"))
    return GridSampleAttributes(_IMAGE_MODES.get(mode, mode), padding, op.flag("align_corners"))


@dataclass(frozen=True, slots=True)
class RoiAlignAttributes:
    """How RoiAlign divides regions into bins, and reads samples in them."""

    bins: tuple[int, int]  # along the height and the width
    samples: int  # in a bin along each axis; 0: about one for each pixel
    scale: float
    shifted: bool  # whether coordinates are shifted by half a pixel
    takes_largest: bool  # else the mean


def roi_align_attributes(op: NodeReader[V, S]) -> RoiAlignAttributes:
    """Read RoiAlign: before opset 16 coordinates were not shifted by half a pixel."""
    modes = ("half_pixel", "output_half_pixel")
    shifted = op.version >= 16 and op.word("coordinate_transformation_mode", modes[0], modes) == "half_pixel"
    bins = (op.integer("output_height"), op.integer("output_width"))
    largest = op.word("mode", "avg", ("avg", "max")) == "max"
    return RoiAlignAttributes(bins, max(op.integer("sampling_ratio"), 0), op.real("spatial_scale"), shifted, largest)
