"""Transposed convolutions whose output size is known and larger than the input spreads over: Keras's output_padding,
and strides wider than the kernel."""

from __future__ import annotations

from .. import private_tf2onnx
from ..ledger import handlers
from .tf2onnx_graphs import TfGraph, TfNode


def _output_padding_handler() -> type:
    """Return tf2onnx's handler, after which pads below zero become padding at the end, as TensorFlow has it."""

    class WithOutputPadding(private_tf2onnx.ConvTranspose):  # type: ignore[misc]
        @classmethod
        def version_18(cls, ctx: TfGraph, node: TfNode, **options: object) -> None:
            super().version_11(ctx, node, **options)
            pads = node.get_attr_value("pads", [])
            axes = len(pads) // 2
            totals = [pads[at] + pads[at + axes] for at in range(axes)]
            if min(totals, default=0) < 0:
                cut = [0 if totals[at % axes] < 0 else pad for at, pad in enumerate(pads)]
                node.set_attr("pads", cut)
                node.set_attr("output_padding", [max(-total, 0) for total in totals])

    return WithOutputPadding


PATCHES = handlers(
    dict.fromkeys(("Conv2DBackpropInput", "Conv3DBackpropInputV2"), _output_padding_handler),
    why="it writes pads below zero, which ONNX has not, where the output is larger than the input spreads over",
    upstream="tf2onnx/onnx_opset/nn.py:433",
    until="tf2onnx writes output_padding",
)
