"""Load on a real model over loopback, and in process, through the Python face."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import transload
from transload import LoadOptions
from transload.models.array_file import read_arrays
from transload.models.errors import BadRequest, ToolMissing
from transload.pipeline.commands.bench import BenchResult

pytestmark = pytest.mark.usefixtures("loaded_once")

LOADS = ["closed:2", "poisson:40", "constant:40", "server:40@2s", "single-stream", "multi-stream:4", "offline"]


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A product of x (batch, 3) and a matrix."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])
    weight = helper.make_tensor("w", TensorProto.FLOAT, (3, 2), np.arange(6, dtype=np.float32))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [x], [y], [weight])
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def bench(product: Path, **options: Any) -> BenchResult:
    folder = product.parent
    quick: dict[str, Any] = {"batches": [1], "rounds": 3, "processes": 1, "budget_s": 0}
    return transload.bench(product, runs=folder / "runs", store=folder / "store", **{**quick, **options})


@pytest.mark.slow
def test_every_load_gives_a_row_over_loopback_and_in_process(product: Path) -> None:
    done = bench(product, runtimes=["onnxruntime", "oip-http"], load=LoadOptions(cases=LOADS, seconds=0.5))
    rows = {(row.runtime, str(row.scenario)): row for row in done.load}
    in_process = {"single-stream", "multi-stream", "offline"}
    served = {load.partition(":")[0] for load in LOADS}
    assert set(rows) == {("onnxruntime", name) for name in in_process} | {("oip-http", name) for name in served}
    for row in rows.values():
        assert row.requests > 0, row
        assert (row.refused, row.lost) == (0, 0), row
        assert (row.device, row.batch) == ("cpu", 4 if row.scenario == "multi-stream" else 1)
    # 40 a second for half a second are 20 requests: a median, and no 99th percentile.
    constant = rows["oip-http", "constant"]
    assert (constant.requests, constant.p50_s is None, constant.p99_s) == (20, False, None)
    assert constant.late_p99_s is not None
    assert constant.harness_p50_s is not None
    assert rows["oip-http", "server"].valid is None  # so few requests do not show it
    assert rows["oip-http", "offline"].p50_s is None
    assert done.document["load"][0]["runtime"] == "onnxruntime"
    requests = read_arrays(done.folder / "load.npz")
    assert len(requests[f"{constant.artifact}|oip-http|constant:40|transload|done"]) == 20


def test_a_load_that_nothing_takes_is_refused(product: Path) -> None:
    with pytest.raises(BadRequest, match=r"^nothing here takes closed:1, over several connections to a server\n"):
        bench(product, runtimes=["onnxruntime"], load=LoadOptions(cases=["closed:1"]))
    with pytest.raises(BadRequest, match="'closing:1' is no load"):
        bench(product, load=LoadOptions(cases=["closing:1"]))


def test_loadgen_measures_or_says_that_it_is_missing(product: Path) -> None:
    load = LoadOptions(cases=["single-stream"], seconds=0.5, engines=["loadgen"])
    options: dict[str, Any] = {"runtimes": ["onnxruntime"], "load": load}
    if find_spec("mlperf_loadgen") is None:
        with pytest.raises(ToolMissing, match=r"^MLPerf's LoadGen is not installed\n  fix: pip install"):
            bench(product, **options)
        return
    (row,) = bench(product, **options).load
    assert (row.engine, row.requests > 100, row.early_stopping_s is not None) == ("loadgen", True, True)
