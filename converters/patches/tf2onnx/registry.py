"""Registers every handler of this room in tf2onnx's tables."""

from __future__ import annotations

from functools import cache

from .. import private_tf2onnx
from ..ledger import Kind, swap_for_good
from . import complex_pairs, convolutions, handlers, indexing_operators, while_loops

_MODULES = (handlers, indexing_operators, convolutions, while_loops, complex_pairs)
_PATCHES = tuple(patch for module in _MODULES for patch in module.PATCHES)
# Operators of TFLite that only have another name in TensorFlow. Their handlers run when tf2onnx renames them.
_TENSORFLOW_NAMES = {"TFL_FLOOR_DIV": "FloorDiv", "TFL_REAL": "Real", "TFL_IMAG": "Imag"}
# Handlers that differ from tf2onnx's own for rare dtypes and forms alone.
_RARE = {"Pad", "PadV2", "MirrorPad", "MaxPool", "MaxPoolV2", "If", "StatelessIf", *_TENSORFLOW_NAMES}
# Operators that tf2onnx alone converts otherwise, or not at all.
REPLACED_OPERATORS = frozenset(
    {patch.name for patch in _PATCHES if patch.kind is Kind.HANDLER} - _RARE
    | complex_pairs.COMPLEX_OPERATORS
    | {"BatchToSpaceND"}
)
_OPSET = 18  # has every operator that is written; tf2onnx has no handlers of a later one, which would replace ours


@cache
def register() -> None:
    """Add the handlers and swap the rewriters for the rest of this process; a second call does nothing."""
    # First: this imports tf2onnx's own handlers, which would else be registered after ours, in their place.
    swap_for_good(patch for patch in _PATCHES if patch.kind is Kind.PERMANENT)
    tf_op = private_tf2onnx.tf_op
    for patch in _PATCHES:
        if name := _TENSORFLOW_NAMES.get(patch.name):
            tf_op.register_handler(patch.replacement, 0, [patch.name], "com.google.tensorflow", {"tf_op": name})
        elif patch.kind is Kind.HANDLER:
            tf_op(patch.name).register_compat_handler(patch.replacement, _OPSET)
