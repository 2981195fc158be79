"""The operators of a model while it answers: names, modules, lines, data flow, and changes by a listener."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from transload.models.signature import Array, Signature, TensorSpec
from transload.models.sources import CodeRef, Source, write_source
from transload.serving.tracing.operator_trace import EndTrace, OperatorCall
from transload.serving.tracing.traced_model import TracedModel, rerun_wider

NET = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(4, eps=1e-3)
            self.act = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.norm(x)
            z = y + 1
            return self.act(z)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return torch.softmax(x, 1)
"""
FEEDS = {"x": np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> TracedModel:
    (tmp_path / "net.py").write_text(textwrap.dedent(NET))
    folder = tmp_path / "source"
    folder.mkdir()
    signature = Signature((TensorSpec("x", "float32", ("batch", 4)),), (TensorSpec("y", "float32", ("batch", 4)),))
    write_source(folder, Source(CodeRef("net.py:Net", str(tmp_path)), signature, ""))
    return TracedModel(folder, 1)


def ignore(_call: OperatorCall, _results: Sequence[Array | None]) -> None:
    pass


def test_calls_have_the_operators_that_the_code_names_with_module_and_line(model: TracedModel) -> None:
    calls = model.run(FEEDS, ignore).calls
    assert [call.operator for call in calls] == ["layer_norm", "add", "relu"] * 2 + ["softmax"]
    assert [call.module for call in calls] == [
        "blocks.0.norm", "blocks.0", "blocks.0.act", "blocks.1.norm", "blocks.1", "blocks.1.act", "",
    ]  # fmt: skip
    assert calls[3].line == "net.py:12 (`y = self.norm(x)`)"
    assert calls[-1].line == "net.py:24 (`return torch.softmax(x, 1)`)"


def test_values_flow_from_the_inputs_to_the_outputs_through_what_is_written_in_place(model: TracedModel) -> None:
    answer = model.run(FEEDS, ignore)
    relu = answer.calls[2]
    assert relu.function._schema.is_mutable
    assert answer.calls[0].reads == (0,)
    assert relu.reads == answer.calls[1].writes
    assert answer.calls[3].reads[0] in relu.writes
    assert answer.numbers == {"y": answer.calls[-1].writes[0]}


def test_what_a_listener_changes_is_what_later_operators_get(model: TracedModel) -> None:
    def listen(call: OperatorCall, results: Sequence[Array | None]) -> None:
        if call.index == 5 and (array := results[0]) is not None:
            array[...] = 0

    np.testing.assert_array_equal(model.run(FEEDS, listen).outputs["y"], np.full((2, 4), 0.25, np.float32))


def test_stored_results_take_the_place_of_a_call(model: TracedModel) -> None:
    def stored(call: OperatorCall) -> list[Array] | None:
        return [np.full((2, 4), -3, np.float32)] if call.index == 3 else None

    np.testing.assert_array_equal(model.run(FEEDS, ignore, stored).outputs["y"], np.full((2, 4), 0.25, np.float32))


def test_a_listener_that_has_seen_enough_ends_the_answer(model: TracedModel) -> None:
    def listen(call: OperatorCall, _results: Sequence[Array | None]) -> None:
        if call.index == 1:
            raise EndTrace

    answer = model.run(FEEDS, listen)
    assert len(answer.calls) == 2
    assert answer.outputs == {}


def test_a_call_is_repeated_in_float64(model: TracedModel) -> None:
    call = model.run(FEEDS, ignore).calls[0]
    (wide,) = rerun_wider(call)
    x = FEEDS["x"].astype(np.float64)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3)
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, expected, rtol=1e-12)
