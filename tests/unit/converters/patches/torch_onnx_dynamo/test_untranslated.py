"""What torch's dynamo exporter has no ONNX of, or fails at, is named with the model's line and with what helps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from transload.converters.patches.torch_onnx_dynamo.translations import translations
from transload.converters.patches.torch_onnx_dynamo.untranslated import untranslated
from transload.converters.patches.torch_shared.dynamo_graph import op

Table = dict[Callable[..., Any], Callable[..., Any]]


class Lacking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) * 2


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return x * y


def refused(model: torch.nn.Module, table: Table | None = None) -> str:
    program = torch.export.export(model, (torch.randn(3, 3),))
    with warnings.catch_warnings(), pytest.raises(Exception, match="Failed to convert") as caught:
        warnings.simplefilter("ignore")  # the exporter's own
        torch.onnx.export(program, dynamo=True, verbose=False, custom_translation_table=table or translations())
    return str(untranslated(caught.value))


def test_an_operator_that_has_no_onnx_is_named_with_the_line_that_it_was_taken_from() -> None:
    assert refused(Lacking()) == (
        "torch's exporter has no ONNX of aten._linalg_svd.default, at test_untranslated.py:21 "
        "(`return torch.linalg.svdvals(x) * 2`)\n"
        "  fix: write that line with other operators, or name a target that another route leads to"
    )


def test_an_operator_that_it_fails_at_is_named_with_why() -> None:
    """Of two such operators the second."""
    made = []

    def fails(self: object, other: object) -> object:
        made.append(other)
        if len(made) > 1:
            raise ValueError("no such mode\nand more")
        return op.Mul(self, self)

    table: Table = {torch.ops.aten.mul.Tensor: fails}
    assert refused(Plain(), table).startswith(
        "torch's exporter fails at aten.mul.Tensor, at test_untranslated.py:27 (`return x * y`): no such mode"
    )


def test_an_error_about_no_operator_is_left_as_it_is() -> None:
    assert untranslated(ValueError("no room")) is None
