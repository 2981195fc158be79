"""ONNX Runtime's fused operators as modules of PyTorch: by the bodies that both back-ends convert."""

from typing import Any

import numpy as np
import pytest

from ...conftest import numbers

HEADS = numbers(2, 5, 8)
MASK = np.array([[1, 1, 0, 1, 0], [1, 0, 0, 0, 1]], np.int32)
CASES: dict[str, tuple[list[Any], dict[int, Any], dict[str, Any]]] = {
    "BiasGelu": ([numbers(2, 3, 4)], {1: numbers(4)}, {}),
    "FastGelu": ([numbers(2, 3, 4)], {}, {}),
    "QuickGelu": ([numbers(2, 3)], {}, {"alpha": 1.3}),
    "FusedMatMul": ([numbers(2, 5, 3), numbers(2, 5, 4)], {}, {"transA": 1, "alpha": 0.25}),
    "FusedGemm": ([numbers(2, 3)], {1: numbers(4, 3), 2: numbers(4)}, {"transB": 1, "activation": "Relu"}),
    "FusedConv": ([numbers(2, 3, 6, 5)], {1: numbers(4, 3, 3, 3)}, {"activation": "Sigmoid"}),
    "SkipLayerNormalization": ([numbers(2, 3, 4), numbers(2, 3, 4)], {2: numbers(4), 3: numbers(4)}, {}),
    "SkipSimplifiedLayerNormalization": ([numbers(2, 3, 4), numbers(2, 3, 4)], {2: numbers(4)}, {}),
    "MultiHeadAttention": ([HEADS, HEADS, HEADS, None, MASK], {}, {"num_heads": 2, "mask_filter_value": -50.0}),
    "Attention": ([numbers(2, 5, 6)], {1: numbers(6, 24), 2: numbers(24)}, {"num_heads": 2, "unidirectional": 1}),
    "RotaryEmbedding": ([numbers(2, 3, 5, 8), np.array([[0, 3, 1, 2, 6]] * 2)], {2: numbers(9, 4), 3: numbers(9, 4)},
                        {"interleaved": 1}),
}  # fmt: skip


@pytest.mark.parametrize("op_type", CASES)
def test_a_fused_operator_becomes_what_it_is_made_of(bench, op_type):
    inputs, constants, attributes = CASES[op_type]
    bench.agrees(op_type, *inputs, constants=constants, domain="com.microsoft", free=(0,), **attributes)
