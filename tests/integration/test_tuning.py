"""A search over a real artifact: what is kept lies with the user, is used afterwards, and is no part of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transload import TuningOptions, bench, convert
from transload.models.artifact import TUNING


@pytest.mark.slow
def test_a_search_keeps_its_result_beside_the_artifact(tmp_path: Path) -> None:
    store, made = tmp_path / "store", tmp_path / "made"
    convert("zoo:breast-cancer-mlp", ["onnx"], out=made, store=store)
    options: dict[str, Any] = {
        "batches": (1,),
        "budget_s": 0.0,
        "runtimes": ("onnxruntime",),
        "runs": tmp_path / "runs",
        "store": store,
    }
    done = bench(made / "onnx", tune=TuningOptions(budget_s=1.0, latency_bound_s=1.0), **options)
    (entry,) = json.loads((made / "onnx" / TUNING).read_text())["entries"]
    (row,) = done.latency
    assert row.settings == entry.get("settings", {})
    assert {tuple(tried.settings) for tried in done.tuning} >= {("level",)}
    assert done.bounds[0].batch == entry["in_bound"]["batch"] > 1
    assert not list(store.rglob(TUNING))

    entry["settings"] = {"io_binding": True}  # whatever won
    (made / "onnx" / TUNING).write_text(json.dumps({"schema": 1, "entries": [entry]}))
    again, untuned = (bench(made / "onnx", processes=1, untuned=flag, **options) for flag in (False, True))
    assert [result.latency[0].settings for result in (again, untuned)] == [{"io_binding": True}, {}]
