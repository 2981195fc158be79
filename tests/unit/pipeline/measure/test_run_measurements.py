"""What a run measures may be measured elsewhere: what goes there is pickled, and what comes back lies in the run."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transload.models.store import Store, Stored
from transload.pipeline.measure.run_measurements import RunMeasurements, measure_alone
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.context import Context
from transload.pipeline.progress.progress import Progress
from transload.pipeline.workers.cluster_records import DriverRun, NodeFacts
from transload.pipeline.workers.engine import LocalExecutor


class NodeOfTest(LocalExecutor):
    """An executor whose node is this process; all that goes there and back is pickled."""

    @property
    def driver_run(self) -> DriverRun:
        root = self.store.root
        return DriverRun("driver", "1", str(root), self.store.identity, "run", "model")

    def call_alone(self, work: Callable[[NodeFacts], Any], device: str) -> Any:
        assert device == "cpu"
        node = NodeFacts("90a1f3c2e4", "node-2", {"CPU": 2.0})
        return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(node)))  # noqa: S301


def measure(context: Context, artifact: Stored) -> RunMeasurements:
    """Leave a log and a folder of scratch, as a bench does."""
    assert (artifact.folder / "file").read_text() == "content"
    (context.folder / "logs" / "bench.log").write_text(f"measured {artifact.facts['n']}")
    (context.folder / "other").mkdir()
    return RunMeasurements()


@pytest.mark.parametrize("kind", [LocalExecutor, NodeOfTest])
def test_a_run_is_measured_here_or_on_a_node_that_is_named(kind: type[LocalExecutor], tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with store.workspace() as work:
        (work / "out").mkdir()
        (work / "out" / "file").write_text("content")
        artifact = store.commit("a" * 64, work / "out", {"n": 3}, 0.1)
    folder = tmp_path / "run"
    context = Context(read_request(None), kind(store, folder), folder, Progress(quiet=True), "cpu", 1)
    result = measure_alone(context, measure, artifact)
    assert (folder / "logs" / "bench.log").read_text() == "measured 3"
    assert (folder / "other").exists() == (kind is LocalExecutor)
    assert result.environment.node == ("" if kind is LocalExecutor else "node-2 (90a1f3c2)")
    assert result.environment.cores
