"""Transposed convolutions to a size that is known, of which the input spreads over less: Keras's output_padding, and
strides wider than the kernel. tf2onnx writes pads below zero, which ONNX has not."""

from __future__ import annotations

from .graph_writer import Graph, Node


def register_transposed() -> None:
    """Add the handler to tf2onnx's tables."""
    from tf2onnx.handler import tf_op

    tf_op(_TRANSPOSED)(_with_output_padding())


def _with_output_padding() -> type:
    """tf2onnx's own handler; then what lies beyond what is spread is at the end, as TensorFlow has it."""
    from tf2onnx.onnx_opset.nn import ConvTranspose

    class WithOutputPadding(ConvTranspose):  # type: ignore[misc]
        @classmethod
        def version_18(cls, ctx: Graph, node: Node, **options: object) -> None:
            super().version_11(ctx, node, **options)
            pads = node.get_attr_value("pads", [])
            axes = len(pads) // 2
            totals = [pads[at] + pads[at + axes] for at in range(axes)]
            if min(totals, default=0) < 0:
                cut = [0 if totals[at % axes] < 0 else pad for at, pad in enumerate(pads)]
                node.set_attr("pads", cut)
                node.set_attr("output_padding", [max(-total, 0) for total in totals])

    return WithOutputPadding


_TRANSPOSED = ["Conv2DBackpropInput", "Conv3DBackpropInputV2"]
TRANSPOSED = frozenset(_TRANSPOSED)
