"""Models of a stranger's whose axes are what they are: two dynamic ones with bounds, a graph without a batch, a fixed
batch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")

NET = """
import numpy as np
import torch

class Attend(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.embed = torch.nn.Embedding(50, 12)
        self.conv = torch.nn.Conv1d(3, 12, 3, padding=1)

    def forward(self, tokens, sound):
        a, b = self.embed(tokens), self.conv(sound).transpose(1, 2)
        return torch.softmax(a @ b.transpose(1, 2), -1) @ b

class Baked(torch.nn.Module):
    def forward(self, x):
        return x.sum(1) / float(np.int64(x.shape[1]))  # a trace keeps the length; numpy is not compiled

class Graph(torch.nn.Module):
    def forward(self, nodes, edges, scale):
        return nodes + scale * torch.zeros_like(nodes).index_add(0, edges[1], nodes[edges[0]])

class Tables(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = torch.nn.ModuleList(torch.nn.Embedding(rows, 4) for rows in (12, 7, 31, 2))

    def forward(self, ids):
        return torch.cat([table(ids[:, at]) for at, table in enumerate(self.tables)], 1)


class Skip(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.steps = torch.nn.ModuleList(torch.nn.Conv2d(2 if at else 1, 2, 3, padding=1) for at in range(3))
        self.last = torch.nn.Conv2d(4, 1, 1)

    def forward(self, image):
        first, x = self.steps[0](image), image
        for step in self.steps:
            x = torch.nn.functional.max_pool2d(step(x), 2)
        return self.last(torch.cat([first, torch.nn.functional.interpolate(x, scale_factor=8.0)], 1))
"""
ATTEND = ("--input", "tokens=int64[batch=1..16,tokens=2..512]", "--input", "sound=float32[batch,3,time=4..]")
GRAPH = ("--input", "nodes=float32[nodes,6]", "--input", "edges=int64[2,edges]", "--input", "scale=float32[]")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "net.py").write_text(NET)
    return folder


@pytest.mark.slow
def test_two_dynamic_axes_are_verified_at_several_sizes_within_their_bounds(here: Path) -> None:
    done = run(here, "convert", "net.py:Attend", *ATTEND, "--to", "pt2,onnx", "--out", "attend", "--quiet")
    lines = done.stdout.splitlines()[:2]
    seen = (
        "at batches 1, 2, 5, 16 and tokens 5, 4, 2, 512, 511, 258, 257, 3 and time 7, 5, 4, 65, 128, 257, 1025, "
        "with tokens up to 49"
    )
    assert all(seen in line for line in lines), done.stdout
    record = json.loads((here / "attend" / "onnx" / "artifact.json").read_text())
    assert record["signature"]["inputs"][0] == {
        "name": "tokens",
        "dtype": "int64",
        "shape": ["batch", "tokens"],
        "bounds": {"batch": [1, 16], "tokens": [2, 512]},
    }
    rows = json.loads((here / "attend" / "convert.json").read_text())["artifacts"]
    assert rows[0]["signature"]["inputs"][0] == {"name": "tokens", "dtype": "int64", "shape": ["batch", "tokens"]}
    assert rows[0]["batches_verified"] == [1, 2, 5, 16]


def test_sizes_in_steps_are_kept_by_capture_checks_record_and_session(here: Path) -> None:
    words = ("--input", "image=float32[batch,1,height=8..64:8,width=16..:8]", "--to", "pt2,torchscript,onnx")
    done = run(here, "convert", "net.py:Skip", *words, "--out", "skip", "--quiet")
    lines = done.stdout.splitlines()[:3]
    seen = "at batches 1, 2, 5, 65 and height 16, 8, 64, 56, 48, 40 and width 32, 24, 16, 40, 128, 256, 1024"
    assert all(seen in line for line in lines), done.stdout
    record = json.loads((here / "skip" / "onnx" / "artifact.json").read_text())
    assert record["signature"]["inputs"][0]["bounds"] == {"height": [8, 64, 8], "width": [16, None, 8]}
    np.savez(here / "odd.npz", image=np.ones((4, 1, 20, 16), np.float32))
    again = ("validate", "skip/onnx", "--against", "skip/pt2", "--data", "odd.npz")
    refused = run(here, *again, status=2)
    assert "the axis height has the size 20, and the model takes 8..64:8" in refused.stderr
    assert "fix: send a size within 8..64:8, such as 16 or 24" in refused.stderr


def test_a_step_that_nobody_declared_is_found_told_and_recorded(here: Path) -> None:
    words = ("--input", "image=float32[batch,1,height,8*w]", "--to", "torchscript", "--out", "any")
    done = run(here, "convert", "net.py:Skip", *words)
    assert "sizes height=8..:8 by asking the model, which refuses others" in " ".join(done.stderr.split())
    record = json.loads((here / "any" / "torchscript" / "artifact.json").read_text())
    assert record["signature"]["inputs"][0]["bounds"] == {"height": [8, None, 8], "w": [8, None, 8]}


def test_samples_of_the_user_come_before_anything_made_up(here: Path) -> None:
    ids = np.stack([np.arange(24) % rows for rows in (12, 7, 31, 2)], 1)
    np.savez(here / "ids.npz", ids=ids)
    words = ("net.py:Tables", "--input", "ids=int64[batch,4]", "--to", "torchscript", "--out", "tables")
    done = run(here, "convert", *words, "--data", "ids.npz")
    assert "24 samples answered by torch" in done.stderr
    record = json.loads((here / "tables" / "torchscript" / "artifact.json").read_text())
    assert record["signature"]["inputs"] == [{"name": "ids", "dtype": "int64", "shape": ["batch", 4]}]


def test_a_trace_that_keeps_the_length_of_its_example_is_refused_with_the_line(here: Path) -> None:
    words = ("net.py:Baked", "--input", "x=float32[batch,tokens,3]", "--to", "torchscript", "--out", "baked")
    done = run(here, "convert", *words, "--quiet", status=4)
    assert "net.py:18 (`return x.sum(1) / float(np.int64(x.shape[1]))" in done.stdout
    assert "answers otherwise than the model at batch=2 and tokens=8" in done.stdout


@pytest.mark.slow
def test_a_graph_without_a_batch_is_converted_validated_and_measured(here: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        here / "graphs.npz",
        nodes=rng.normal(size=(6, 9, 6)).astype(np.float32),
        edges=rng.integers(0, 7, (6, 2, 13)),
        scale=rng.normal(size=6).astype(np.float32),
    )
    words = ("--data", "graphs.npz", "--to", "onnx", "--out", "graph")
    made = run(here, "convert", "net.py:Graph", *GRAPH, *words, "--quiet").stdout
    assert (
        "at nodes 9, 8, 65, 128, 257, 1025 (the model itself does not answer at 6, 1) and edges 13, 9, 1, 65, 128"
        in made
    )
    found = json.loads(
        run(
            here, "validate", "graph/onnx", "--against", "net.py:Graph", *GRAPH, "--data", "graphs.npz", "--json"
        ).stdout
    )
    assert [(row["batch"], row["samples"], row["verdict"]) for row in found["drift"]] == [(1, 6, "pass")] * 2
    measured = run(
        here,
        "bench",
        "graph/onnx",
        "--data",
        "graphs.npz",
        "--rounds",
        "3",
        "--processes",
        "1",
        "--budget",
        "0s",
        "--quiet",
    ).stdout
    assert "measured at batch 1 in place of 1, 8: the model has no batch, a call is one sample" in measured


def test_samples_of_another_form_are_refused_with_the_rule(here: Path) -> None:
    np.savez(
        here / "bad.npz", nodes=np.zeros((9, 6), np.float32), edges=np.zeros((9, 2, 3), int), scale=np.ones(9, "f4")
    )
    done = run(
        here, "convert", "net.py:Graph", *GRAPH, "--data", "bad.npz", "--to", "onnx", "--out", "bad", "-q", status=2
    )
    assert done.stderr == (
        "error: the array nodes has the shape [9,6], and holds no samples of the input nodes=float32[nodes,6]\n"
        "  fix: give it the shape [samples,nodes,6]: samples lie along the first axis of every array, also of an input "
        "that has no batch axis (docs/convert.md)\n"
    )


LINEAR = """
<ir_version: 9, opset_import: ["" : 17]>
linear (float[{batch}, 4] x) => (float[{batch}, 2] y)
<float[4, 2] w = {{ {weights} }}> {{ y = MatMul (x, w) }}
"""


def test_a_copy_of_a_fixed_batch_is_compared_with_a_model_that_takes_any(here: Path) -> None:
    """1,001 samples make 126 calls of 8; the model answers them in one."""
    for name, batch, last in (("any", "batch", 8), ("fixed", "8", 8), ("wrong", "8", 7)):
        text = LINEAR.format(batch=batch, weights=", ".join(map(str, [1, 2, 3, 4, 5, 6, 7, last])))
        onnx.save(onnx.parser.parse_model(text), here / f"{name}.onnx")
    np.savez(here / "many.npz", x=np.random.default_rng(0).normal(size=(1001, 4)).astype(np.float32))
    words = ("--against", "any.onnx", "--data", "many.npz")
    document = json.loads(run(here, "validate", "fixed.onnx", *words, "--json").stdout)
    (row,) = document["drift"]
    assert (row["verdict"], row["batch"], row["samples"]) == ("pass", 8, 1001)
    (exercised,) = document["exercised"]
    assert exercised["axes"][0]["not_asked"] == [[1, 7], [9, None]]
    wrong = run(here, "validate", "wrong.onnx", *words, status=1)
    assert "transload locate" not in wrong.stdout + wrong.stderr, "which takes the same inputs alone"
