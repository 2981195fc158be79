"""A node does a step as the machine of the driver does, or says why it cannot. No Ray is needed for that."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from transload.models.errors import ERRORS, BadRequest, StepFailed
from transload.models.sources import CodeRef
from transload.models.store import Store
from transload.pipeline.extras.cluster.node_worker import NodeWorker, why_unfit
from transload.pipeline.extras.cluster.ray_cluster import no_fit_node
from transload.pipeline.extras.cluster.step_order import Lack, StepOrder, Unfit
from transload.pipeline.workers.cluster_records import DriverRun
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


def test_a_step_that_comes_after_its_run_was_stopped_is_not_done(
    node: NodeWorker, run: DriverRun, make_action: Make
) -> None:
    node.stop(run.number)
    error = node.perform(order(run, make_action("write"))).error
    assert isinstance(error, StepFailed)
    assert error.what == "the run was stopped"
    assert node.perform(order(replace(run, number="2"), make_action("write"))).stored


def test_an_error_names_the_folders_of_the_driver(node: NodeWorker, run: DriverRun, make_action: Make) -> None:
    error = pickle.loads(pickle.dumps(node.perform(order(run, make_action("die"))))).error  # noqa: S301
    assert isinstance(error, StepFailed)
    assert error.fix.startswith(f"read {run.folder}/logs/step.die.log, or repeat it alone: sh {run.folder}/repeat/")


@pytest.mark.parametrize(
    ("changes", "unfit"),
    [
        ({"python": "/no/bin/python"}, Unfit(Lack.INTERPRETER, "it has no interpreter /no/bin/python")),
        ({"reads": ("/no/weights.pt",)}, Unfit(Lack.FILE, "it has no /no/weights.pt")),
        ({"entry": "no_such:step"}, Unfit(Lack.LIBRARY, "there is no module 'no_such'")),
        ({"entry": "transload.none:step"}, Unfit(Lack.VERSION, "no module of transload is called transload.none")),
    ],
)  # fmt: skip
def test_a_node_without_what_a_step_needs_is_passed_over(
    changes: dict[str, object], unfit: Unfit, node: NodeWorker, run: DriverRun, make_action: Make
) -> None:
    action = replace(make_action("write"), **changes)  # type: ignore[arg-type]
    assert node.perform(StepOrder(run, action, "the driver's key")).unfit == unfit


def test_a_node_that_has_the_folder_of_the_model_without_its_file_is_passed_over(
    run: DriverRun, make_action: Make, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text("def make(): ...")
    action = replace(make_action("write"), reads=CodeRef("net.py:make", str(tmp_path)).reads)
    assert why_unfit(order(run, action)) is None
    (tmp_path / "net.py").unlink()
    assert why_unfit(order(run, action)) == Unfit(Lack.FILE, f"it has no {tmp_path}/net.py")


def test_a_node_with_other_versions_is_passed_over(run: DriverRun, make_action: Make) -> None:
    unfit = why_unfit(order(run, make_action("write"), key="another"))
    assert unfit
    assert unfit.lack is Lack.VERSION
    assert "are not those of the driver (there: python 3." in unfit.reason


def test_a_node_without_a_library_names_it(run: DriverRun, make_action: Make) -> None:
    action = replace(make_action("write"), requires=("no_such_library",))
    unfit = Unfit(Lack.LIBRARY, "it has no no_such_library")
    assert why_unfit(order(run, action, key="of a driver that has it")) == unfit


def test_a_store_that_refuses_a_node_is_asked_again(
    run: DriverRun, make_action: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that was away for a moment does not make the node unfit for the rest of the command."""
    monkeypatch.setenv("TRANSLOAD_STORE_CACHE", str(tmp_path / "cache"))
    remote = tmp_path / "remote"
    remote.write_text("in the way of the folder")
    there = replace(run, store=f"file://{remote}", identity="the-name-of-the-store")
    unfit = why_unfit(order(there, make_action("write")))
    assert unfit
    assert unfit.lack is Lack.STORE
    assert unfit.reason.startswith(f"the store file://{remote} refuses: ")
    assert "credentials" in unfit.fix
    remote.unlink()
    remote.mkdir()
    (remote / "identity").write_text(there.identity)
    assert why_unfit(order(there, make_action("write"))) is None


def test_the_fix_is_that_of_the_cause() -> None:
    store, file = Unfit(Lack.STORE, "it does not share the store /s"), Unfit(Lack.FILE, "it has no /w.pt")
    error = no_fit_node("describe", {"a (1)": store, "b (2)": file, "c (3)": store, "d (4)": store})
    assert str(error) == (
        "no node of the cluster can do describe: a (1): it does not share the store /s; b (2): it has no /w.pt; "
        "c (3): it does not share the store /s; and 1 more\n"
        "  fix: name a folder that the nodes and this machine share, or a URL, with --store; "
        "or put it in a folder that the nodes share, at the same path"
    )
    refused = Unfit(Lack.STORE, "the store s3://b refuses: denied", "check its credentials")
    assert no_fit_node("describe", {"a (1)": refused}).fix == "check its credentials"


def test_a_node_that_does_not_share_the_store_is_passed_over(run: DriverRun, make_action: Make, tmp_path: Path) -> None:
    """Its own disk may have a folder of that name: the store says who it is."""
    other = Store(tmp_path / "other")
    assert other.identity != run.identity
    for folder in (other.root, tmp_path / "none"):
        elsewhere = replace(run, store=str(folder))
        unfit = Unfit(Lack.STORE, f"it does not share the store {folder}")
        assert why_unfit(order(elsewhere, make_action("write"))) == unfit


@pytest.mark.parametrize("kind", [*ERRORS.values()])
def test_errors_are_pickled_whole(kind: type[BadRequest]) -> None:
    error = kind("it is full", fix="empty it")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), again.what, again.fix, str(again), vars(again)) == (
        kind, "it is full", "empty it", str(error), vars(error),
    )  # fmt: skip
