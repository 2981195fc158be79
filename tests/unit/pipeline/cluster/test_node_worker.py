"""A node does a step as the machine of the driver does, or says why it cannot. No Ray is needed for that."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import ERRORS, BadRequest, StepFailed
from transload.models.store import Store
from transload.pipeline.cluster.cluster_records import DriverRun
from transload.pipeline.cluster.node_worker import NodeWorker, why_unfit
from transload.pipeline.cluster.step_order import StepOrder
from transload.pipeline.workers.engine import Action

Make = Callable[..., Action]


@pytest.fixture
def run(tmp_path: Path) -> DriverRun:
    Store(tmp_path / "store").close()
    store = tmp_path / "store"
    return DriverRun("driver", "1", str(store), Store(store).identity, str(tmp_path / "run"), "model")


@pytest.fixture
def node() -> Iterator[NodeWorker]:
    worker = NodeWorker("n1")
    yield worker
    worker.close()


def order(run: DriverRun, action: Action, **changes: str) -> StepOrder:
    return replace(StepOrder(run, action, action.key), **changes)  # type: ignore[arg-type]


def test_a_step_is_kept_in_the_store_and_its_log_sent_back(node: NodeWorker, run: DriverRun, make_action: Make) -> None:
    reply = node.perform(pickle.loads(pickle.dumps(order(run, make_action("write")))))  # noqa: S301
    assert reply.stored
    assert reply.log
    assert "wrote it" in reply.log.decode()
    assert Store(Path(run.store)).find(make_action("write").key)


def test_an_error_names_the_folders_of_the_driver(node: NodeWorker, run: DriverRun, make_action: Make) -> None:
    error = pickle.loads(pickle.dumps(node.perform(order(run, make_action("die"))))).error  # noqa: S301
    assert isinstance(error, StepFailed)
    assert error.fix.startswith(f"read {run.folder}/logs/step.die.log, or repeat it alone: sh {run.folder}/repeat/")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"python": "/nowhere/bin/python"}, "it has no interpreter /nowhere/bin/python"),
        ({"reads": ("/nowhere/weights.pt",)}, "it has no /nowhere/weights.pt"),
    ],
)
def test_a_node_without_what_a_step_needs_is_passed_over(
    changes: dict[str, object], reason: str, node: NodeWorker, run: DriverRun, make_action: Make
) -> None:
    action = replace(make_action("write"), **changes)  # type: ignore[arg-type]
    assert node.perform(order(run, action)).unfit == reason


def test_a_node_with_other_versions_is_passed_over(run: DriverRun, make_action: Make) -> None:
    assert "are not those of the driver" in str(why_unfit(order(run, make_action("write"), key="another")))


def test_a_node_that_does_not_share_the_store_is_passed_over(run: DriverRun, make_action: Make, tmp_path: Path) -> None:
    """Its own disk may have a folder of that name: the store says who it is."""
    other = Store(tmp_path / "other")
    assert other.identity != run.identity
    for folder in (other.root, tmp_path / "none"):
        elsewhere = replace(run, store=str(folder))
        assert why_unfit(order(elsewhere, make_action("write"))) == f"it does not share the store {folder}"


@pytest.mark.parametrize("kind", [*ERRORS.values()])
def test_errors_are_pickled_whole(kind: type[BadRequest]) -> None:
    error = kind("it is full", fix="empty it")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), again.what, again.fix, str(again), vars(again)) == (
        kind, "it is full", "empty it", str(error), vars(error),
    )  # fmt: skip


def test_a_step_that_another_node_has_done_is_ended_and_the_next_ones_are_done(
    node: NodeWorker, run: DriverRun, make_action: Make
) -> None:
    action = make_action("sleep", seconds=600)
    assert node.running_s(run.number, action.key) is None
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(node.perform, order(run, action))
        marks = Path(str(action.options["tally"]))
        while not (marks.exists() and marks.read_text()):
            time.sleep(0.05)
        assert (node.running_s(run.number, action.key) or 0) > 0
        node.cancel(run.number, "another key")
        assert not future.done()
        node.cancel(run.number, action.key)
        error = future.result(timeout=60).error
    assert isinstance(error, StepFailed)
    assert node.running_s(run.number, action.key) is None
    assert node.perform(order(run, make_action("write"))).stored
