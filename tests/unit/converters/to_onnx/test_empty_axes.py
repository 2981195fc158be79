"""A set that may be empty goes through both of torch's exporters: a computed shape with a 0 in it is as it says,
and what has no elements is reduced."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

from transload.converters.to_onnx.empty_axes import count_from_the_front, keep_zeros
from transload.converters.to_onnx.onnx_from_pt2 import onnx_from_pt2
from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_pytorch.pt2_from_source import pt2_from_source
from transload.models.job import Job
from transload.models.loading.source_from_code import take_weights
from transload.models.signature import parse_input

CODE = """
import torch


class Boxes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, boxes):
        return self.attend(boxes[None], boxes[None], boxes[None], need_weights=False)[0][0]
"""


def made(step: Callable[[Job], Mapping[str, Any]], start: Path, name: str) -> Path:
    out = start.parent / name
    out.mkdir()
    step(Job({"source": start}, out, {}))
    return out


@pytest.mark.parametrize("older", [False, True])
def test_nothing_goes_through(older: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    start = tmp_path / "source"
    start.mkdir()
    inputs = [parse_input("boxes=float32[n=0..,4]").to_json()]
    take_weights(Job({}, start, {"ref": "mine.py:Boxes", "root": str(tmp_path), "inputs": inputs}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporters announce their own end, and what they trace
        if older:
            folder = made(onnx_from_source, start, "onnx")
        else:
            folder = made(onnx_from_pt2, made(pt2_from_source, start, "pt2"), "onnx")
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for count in (3, 1, 0):
        boxes = np.arange(count * 4, dtype=np.float32).reshape(count, 4)
        (attended,) = session.run(None, {"boxes": boxes})
        assert attended.shape == (count, 4)


@pytest.mark.parametrize(("parts", "kept"), [("n, two", 1), ("n, zero", 0), ("zero, two", 0)])
def test_a_0_that_is_written_down_stays_what_onnx_means_by_it(parts: str, kept: int) -> None:
    graph = onnx.parser.parse_graph(f"""
        g (float[a, 2] x, int64[1] n) => (float[b, c] y) <int64[1] zero = {{0}}>
        {{ two = Constant <value_ints: ints = [2]> () shape = Concat <axis = 0> ({parts})
           y = Reshape (x, shape) }}
    """)
    keep_zeros(graph, 20)
    assert [each.i for each in graph.node[-1].attribute] == [1] * kept


def test_what_has_no_elements_is_reduced() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[n, 7] x, bool[n] mask) => (float[a] y, int64[b, 1] z, float[n] w)
        <int64[1] last = {-1}>
        { few = Compress <axis = 0> (x, mask) y = ReduceSum <keepdims = 0> (few, last) z = ArgMax <axis = -1> (few)
          w = ReduceMax <keepdims = 0> (x, last) }
    """)
    count_from_the_front(model, {"n"})
    assert model.graph.node[3].input[1] == "last"  # of what is never empty all stays as it is
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    for mask in ([False] * 3, [True, False, True]):
        y, z, _ = session.run(None, {"x": x, "mask": np.array(mask)})
        np.testing.assert_array_equal(y, x[mask].sum(-1))
        assert z.shape == (sum(mask), 1)
